#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::contract::{self, Open, PARTS, TABLES, agree, all, operations, put_all, row};
use crate::memory::MemoryStore;

/// A small memtable and small segments, so that few rows reach flushes, merges and many files.
fn small() -> SegmentOptions {
    SegmentOptions { memtable_bytes: 3000, segment_bytes: 8000, cache_bytes: 20_000 }
}

fn open(path: &Path) -> Result<SegmentStore> {
    SegmentStore::open(path, TABLES, small())
}

fn place() -> Box<Open> {
    let folder = TempDir::new().unwrap();
    Box::new(move || Box::new(open(folder.path()).unwrap()))
}

#[test]
fn keeps_the_contract() {
    contract::run(&place);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn answers_like_the_memory_engine(operations in operations()) {
        let memory = RefCell::new(MemoryStore::new());
        let reference = move || -> Box<dyn Store> {
            let store = memory.borrow().reopen();
            memory.replace(store.clone());
            Box::new(store)
        };
        agree(&reference, &*place(), &operations);
    }
}

#[test]
fn compacted_table_gives_the_same_rows() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let rows: Vec<_> = (0..2000).map(|number| row(&format!("{number:05}"), "value")).collect();
    for part in rows.chunks(100) {
        put_all(&store, PARTS, part);
    }
    store.compact(PARTS).unwrap();
    assert_eq!(all(&store, PARTS), rows);
    store.verify_checksums().unwrap();
    assert_eq!(store.shared.read(|contents| contents.runs[1].len()), 1);
}

fn open_boxed(path: &Path) -> Result<Box<dyn Store>> {
    open(path).map(|store| Box::new(store) as _)
}

#[test]
fn flipped_bit_in_a_segment_never_gives_a_wrong_or_short_answer() {
    contract::damage::flip_bits(open_boxed, "segments", "seg");
}

#[test]
#[ignore = "the writer of the test below, which starts it"]
fn writer_to_be_killed() {
    contract::kill::write_until_killed(open_boxed);
}

#[test]
fn everything_published_is_there_after_a_kill_at_any_moment() {
    contract::kill::survive(open_boxed, "segments::tests::writer_to_be_killed");
}

/// A power cut: the newest log loses any part of what was appended since the last publish.
#[test]
fn everything_published_is_there_when_the_log_is_cut_after_it() {
    let folder = TempDir::new().unwrap();
    let store = SegmentStore::open(folder.path(), TABLES, SegmentOptions::default()).unwrap();
    let mut published = Vec::new();
    for step in 0..20_u32 {
        put_all(&store, PARTS, &[row(&format!("{step:04}"), "value")]);
        store.array(contract::NUMBERS).unwrap().write(step.into(), &[7; 8]).unwrap();
        store.publish(&step.to_be_bytes()).unwrap();
        published.push(store.shared.writer.lock().log.bytes());
    }
    let log = log_path(&store.shared.folder, 1);
    drop(store);
    let whole = fs::read(&log).unwrap();
    for bytes in (0..whole.len()).rev().step_by(7) {
        fs::write(&log, &whole[..bytes]).unwrap();
        let expected = published.iter().filter(|end| **end <= bytes as u64).count();
        let copy = TempDir::new().unwrap();
        copy_folder(folder.path(), copy.path());
        match open(copy.path()) {
            Ok(store) => {
                let steps = u32::try_from(expected).unwrap();
                let manifest = steps.checked_sub(1).map(|last| last.to_be_bytes().to_vec());
                assert_eq!(store.manifest().unwrap(), manifest, "{bytes}");
                assert!(all(&store, PARTS).len() >= expected, "{bytes}");
            }
            // The beginning of the log was synced before anybody could use it.
            Err(error) => assert!(expected == 0 && matches!(error, Error::Corrupt { .. }), "{bytes}: {error}"),
        }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_log_that_is_gone_is_damage() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    store.publish(b"manifest").unwrap();
    let log = log_path(&store.shared.folder, 1);
    drop(store);
    fs::remove_file(log).unwrap();
    assert!(matches!(open(folder.path()), Err(Error::Corrupt { .. })));
}
