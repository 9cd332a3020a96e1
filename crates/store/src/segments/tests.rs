#![expect(clippy::unwrap_used, reason = "tests")]

mod format;
mod power;

use std::cell::RefCell;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::contract::{self, Open, PARTS, PLAIN, TABLES, agree, all, operations, put_all, row};
use crate::journal::Due;
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

#[test]
fn a_deleted_row_stays_deleted_when_only_the_newer_runs_are_merged() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    // Values that do not compress, so that this run is too large to be merged with the next ones.
    let value = |number: u64| format!("{:x}", u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).pow(2));
    let rows: Vec<_> = (0..8000).map(|number| row(&format!("{number:05}"), &value(number))).collect();
    put_all(&store, PARTS, &rows);
    store.compact(PARTS).unwrap();
    let mut batch = Batch::new();
    batch.delete(PARTS, rows[7].0.clone());
    store.write(batch).unwrap();
    store.shared.flush_all().unwrap();
    put_all(&store, PARTS, &[row("99999", "value")]);
    store.shared.flush_all().unwrap();
    store.shared.merge_newest(store.shared.number(PARTS).unwrap(), 2).unwrap();
    assert_eq!(contract::get(&store, PARTS, &rows[7].0), None);
    assert_eq!(all(&store, PARTS).len(), 8000);
}

#[test]
fn unflushed_bytes_are_those_that_the_log_has_alone() {
    let folder = TempDir::new().unwrap();
    let store = SegmentStore::open(folder.path(), TABLES, SegmentOptions::default()).unwrap();
    let numbers = store.array(contract::NUMBERS).unwrap();
    // It syncs the arrays: no leaf holds what came before it.
    store.publish(b"0").unwrap();
    assert_eq!(store.unflushed_bytes(), 0);
    put_all(&store, PARTS, &[row("0", &"value".repeat(1000))]);
    let rows = store.unflushed_bytes();
    assert!((5001..6000).contains(&rows), "{rows}");
    numbers.write(0, &[7; 800]).unwrap();
    store.publish(b"1").unwrap();
    let both = store.unflushed_bytes();
    assert!((800..900).contains(&(both - rows)), "{both}");
    store.shared.flush_all().unwrap();
    assert_eq!(store.unflushed_bytes(), both - rows, "a flush leaves the writes to arrays");
    store.shared.arrays.journal().leave_gap();
    store.publish(b"2").unwrap();
    assert_eq!(store.unflushed_bytes(), 0);
}

fn open_boxed(path: &Path) -> Result<Box<dyn Store>> {
    open(path).map(|store| Box::new(store) as _)
}

#[test]
fn flipped_bit_in_any_file_never_gives_a_wrong_or_short_answer() {
    // The default memtable keeps some rows in the log.
    let open = |path: &Path| {
        let options = SegmentOptions { segment_bytes: 8000, ..SegmentOptions::default() };
        SegmentStore::open(path, TABLES, options).map(|store| Box::new(store) as Box<dyn Store>)
    };
    let kinds = [("segments/", ".seg"), ("arrays/", "numbers"), ("arrays/", ".crc"), ("log/", ".log"), ("STATE", "")];
    contract::damage::flip_bits(open, &kinds);
}

#[test]
#[ignore = "the writer of the test below, which starts it"]
fn writer_to_be_killed() {
    contract::kill::write_until_killed(open_boxed);
}

#[test]
fn everything_published_is_there_after_a_kill_at_any_moment() {
    contract::kill::survive(open_boxed, "segments::tests::writer_to_be_killed", &[]);
}

/// Bytes of the record that follows a publish and is not synced with it.
const END_BYTES: u64 = 13;

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
        published.push(store.shared.writer.lock().log.bytes() - END_BYTES);
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

/// A device that takes every write and refuses every sync.
const NO_SYNC: &str = "/dev/null";

#[test]
fn a_publish_waits_for_the_sync_of_the_log() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    store.publish(b"first").unwrap();
    store.shared.writer.lock().log = LogWriter::create(Path::new(NO_SYNC), None, &[], &[]).unwrap();
    assert!(matches!(store.publish(b"second"), Err(Error::Io { .. })));
    assert_eq!(store.manifest().unwrap().as_deref(), Some(&b"first"[..]));
}

#[test]
fn a_publish_waits_for_the_sync_of_arrays() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let name = folder.path().join("arrays").join(contract::NUMBERS.name);
    std::os::unix::fs::symlink(NO_SYNC, name).unwrap();
    store.array(contract::NUMBERS).unwrap().write(0, &[7; 8]).unwrap();
    assert!(matches!(store.publish(b"first"), Err(Error::Io { .. })));
    assert_eq!(store.manifest().unwrap(), None);
}

#[test]
fn arrays_are_synced_by_the_publish_after_one_that_failed() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let numbers = store.array(contract::NUMBERS).unwrap();
    numbers.write(0, &[7; 8]).unwrap();
    store.publish(b"first").unwrap();
    numbers.write(1, &[8; 8]).unwrap();
    let without_sync = LogWriter::create(Path::new(NO_SYNC), None, &[], &[]).unwrap();
    let log = std::mem::replace(&mut store.shared.writer.lock().log, without_sync);
    assert!(store.publish(b"second").is_err());
    store.shared.writer.lock().log = log;
    // The leaf with the second record is lost.
    assert!(matches!(store.shared.arrays.journal().take(), Due::Sync(_)));
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

/// The message of an open that must fail.
fn refusal(path: &Path) -> String {
    open(path).expect_err("the folder is refused").to_string()
}

#[test]
fn second_store_in_one_folder_is_refused_and_harms_nothing() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let mut run = store.bulk_run(PLAIN).unwrap();
    run.push(b"key", b"value").unwrap();
    let message = refusal(folder.path());
    assert!(message.contains("another birdhouse uses this folder"), "{message}");
    store.bulk_load(vec![run.finish().unwrap()]).unwrap();
    assert_eq!(all(&store, PLAIN), [row("key", "value")]);
    drop(store);
    open(folder.path()).unwrap();
}

#[test]
fn other_format_is_refused_with_what_to_do() {
    let folder = TempDir::new().unwrap();
    drop(open(folder.path()).unwrap());
    fs::write(folder.path().join("VERSION"), "77\n").unwrap();
    let message = refusal(folder.path());
    assert!(message.contains("77") && message.contains("install the newer version"), "{message}");
    assert!(!message.contains("build it anew"), "a newer store is good: {message}");
    fs::write(folder.path().join("VERSION"), "2\n").unwrap();
    let message = refusal(folder.path());
    assert!(message.contains("build it anew") && !message.contains("remove"), "{message}");
    fs::remove_file(folder.path().join("VERSION")).unwrap();
    let message = refusal(folder.path());
    assert!(message.contains("without a VERSION file") && !message.contains("remove"), "{message}");
}

#[test]
fn leftovers_of_bulk_runs_and_merges_are_removed_on_open() {
    let folder = TempDir::new().unwrap();
    drop(open(folder.path()).unwrap());
    for leftover in ["bulk/plain-7.seg", "segments/00000099.seg"].map(|name| folder.path().join(name)) {
        fs::write(&leftover, "half a file").unwrap();
        drop(open(folder.path()).unwrap());
        assert!(!leftover.exists());
    }
}

#[test]
fn bulk_load_moves_files_and_leaves_the_bulk_folder_empty() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let bulk = || fs::read_dir(folder.path().join("bulk")).unwrap().count();
    let mut run = store.bulk_run(PARTS).unwrap();
    for number in 0..20_000_u32 {
        let value = number.wrapping_mul(0x9e37_79b9).to_be_bytes().repeat(4);
        run.push(&number.to_be_bytes(), &value).unwrap();
    }
    let run = run.finish().unwrap();
    assert!(bulk() > 3, "a run of many rows fills several files");
    store.bulk_load(vec![run]).unwrap();
    assert_eq!(bulk(), 0);
    let mut dropped = store.bulk_run(PARTS).unwrap();
    dropped.push(b"key", b"value").unwrap();
    drop(dropped);
    assert_eq!(bulk(), 0);
}

#[test]
fn table_that_was_not_opened_is_refused() {
    let folder = TempDir::new().unwrap();
    let store = SegmentStore::open(folder.path(), &[PLAIN], small()).unwrap();
    let error = store.get_many(PARTS, &[b"key"]).unwrap_err().to_string();
    assert!(error.contains("parts"), "{error}");
    assert!(store.bulk_run(PARTS).is_err());
}

#[test]
fn table_of_another_version_is_kept_but_not_in_the_way() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    put_all(&store, PARTS, &[row("aaaa1", "value")]);
    store.shared.flush_all().unwrap();
    put_all(&store, PARTS, &[row("aaaa2", "value")]);
    drop(store);
    let other = SegmentStore::open(folder.path(), &[PLAIN], small()).unwrap();
    put_all(&other, PLAIN, &[row("key", "value")]);
    other.shared.flush_all().unwrap();
    drop(other);
    assert_eq!(all(&open(folder.path()).unwrap(), PARTS), [row("aaaa1", "value"), row("aaaa2", "value")]);
}

#[test]
fn full_disk_error_says_what_to_do() {
    // Errors of arrays and of the engine end in the same advice.
    let Err(source) = fs::write("/dev/full", "x") else { panic!("it takes nothing") };
    let error = crate::error::io_error("write", Path::new("/dev/full"), source).to_string();
    assert!(error.contains("the disk is full: free some space"), "{error}");
}

#[test]
fn a_log_of_publishes_alone_does_not_grow_for_ever() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let bytes = store.array(ArraySpec { name: "bytes", record_bytes: 1 }).unwrap();
    for step in 0..150_u8 {
        bytes.write(0, &vec![step; 1_000_000]).unwrap();
        store.publish(&[step]).unwrap();
    }
    store.shared.flush_all().unwrap();
    let logs = fs::read_dir(folder.path().join("log")).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    let logs: u64 = logs.sum();
    assert!(logs < 2 * shared::LOG_BYTES_MAX, "{logs} bytes");
    drop((store, bytes));
    assert_eq!(open(folder.path()).unwrap().manifest().unwrap(), Some(vec![149]));
}

/// Rows, records and manifest of a store.
fn content(store: &dyn Store) -> (Vec<Vec<crate::range::Row>>, Vec<u8>, Option<Vec<u8>>) {
    let array = store.array(contract::NUMBERS).unwrap();
    let records = array.read_run(0, usize::try_from(array.len()).unwrap()).unwrap();
    (TABLES.iter().map(|table| all(store, *table)).collect(), records, store.manifest().unwrap())
}

#[test]
fn backup_has_what_was_published_when_it_was_made_while_writers_go_on() {
    let (folder, place) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = open(folder.path()).unwrap();
    let array = store.array(contract::NUMBERS).unwrap();
    let step = |number: u64| {
        let rows: Vec<_> = (0..50).map(|row_number| row(&format!("{number:04}{row_number}"), "value")).collect();
        put_all(&store, PARTS, &rows);
        put_all(&store, PLAIN, &rows);
        array.write(number * 700, &number.to_be_bytes().repeat(700)).unwrap();
        store.publish(&number.to_be_bytes()).unwrap();
    };
    (0..10).for_each(step);
    let before = content(&store);
    // Records that are discarded and rows that are cleared during the copy are still in the backup.
    let mut next = 10;
    let mut go_on = || {
        step(next);
        array.discard(0, 3000).unwrap();
        store.clear(PLAIN).unwrap();
        next += 1;
        ControlFlow::Continue(())
    };
    let target = place.path().join("backup");
    assert!(store.backup(&target, &mut go_on).unwrap());
    assert!(next > 10);
    step(next);
    assert!(array.read_run(3000, 10).is_ok());
    let backup = open(&target).unwrap();
    backup.verify_checksums().unwrap();
    assert_eq!(content(&backup), before);
    // Neither changes the other.
    put_all(&backup, PARTS, &[row("later", "value")]);
    backup.array(contract::NUMBERS).unwrap().write(7000, &[1; 8]).unwrap();
    backup.publish(b"later").unwrap();
    drop(backup);
    open(&target).unwrap().verify_checksums().unwrap();
    store.verify_checksums().unwrap();
    assert!(store.backup(&target, &mut || ControlFlow::Continue(())).is_err(), "the folder is taken");
    let stopped = place.path().join("stopped");
    assert!(!store.backup(&stopped, &mut || ControlFlow::Break(())).unwrap());
    assert!(refusal(&stopped).contains("without a VERSION file"));
}
