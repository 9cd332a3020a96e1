//! Flipped bits: every read equals the truth or is an error.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tempfile::TempDir;

use super::harness::{OpenAt, PARTS, PLAIN};
use crate::error::{Error, Result};
use crate::range::{Direction, KeyRange, PageLimit, Row};

const ROWS: u32 = 4000;
const FLIPS: u64 = 150;

fn rows() -> Vec<Row> {
    (0..ROWS)
        .map(|number| {
            let hash = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (number.to_be_bytes().to_vec(), hash.to_be_bytes().repeat(1 + number as usize % 9))
        })
        .collect()
}

/// The outcome of reading the store: number of failed reads and of right ones.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    errors: usize,
    truths: usize,
}

impl Seen {
    fn note<T: PartialEq + std::fmt::Debug>(&mut self, answer: Result<T>, truth: &T, what: &str) {
        match answer {
            Ok(answer) => {
                assert!(answer == *truth, "a silently wrong answer: {what}");
                self.truths += 1;
            }
            Err(Error::Corrupt { .. } | Error::Engine(_) | Error::Io { .. }) => self.errors += 1,
        }
    }
}

/// Reads every row in every way.
fn look(open: OpenAt, path: &Path, rows: &[Row]) -> Seen {
    let mut seen = Seen::default();
    let Ok(store) = open(path) else { return Seen { errors: 1, truths: 0 } };
    for table in [PLAIN, PARTS] {
        for direction in [Direction::Forward, Direction::Backward] {
            let mut truth = rows.to_vec();
            if direction == Direction::Backward {
                truth.reverse();
            }
            let whole = KeyRange::prefix(b"", direction);
            let limit = PageLimit { rows: usize::MAX, bytes: usize::MAX };
            let answer = store.scan_many(table, &[whole], limit).map(|pages| pages[0].rows.clone());
            seen.note(answer, &truth, "scan of a table");
        }
        for part in rows.chunks(50) {
            let keys: Vec<_> = part.iter().map(|(key, _)| key.as_slice()).collect();
            let truth: Vec<_> = part.iter().map(|(_, value)| Some(value.clone())).collect();
            seen.note(store.get_many(table, &keys), &truth, "get of many rows");
            seen.note(store.get_many(table, &keys[..1]), &truth[..1].to_vec(), "get of one row");
            let range = KeyRange::prefix(&part[7].0, Direction::Forward);
            let limit = PageLimit { rows: 10, bytes: 10_000 };
            let answer = store.scan_many(table, &[range], limit).map(|pages| pages[0].rows.clone());
            seen.note(answer, &part[7..8].to_vec(), "scan of a partition");
        }
    }
    seen
}

/// Flips bits of the files with an ending in `part` of a store's folder.
pub(crate) fn flip_bits(open: OpenAt, part: &str, ending: &str) {
    let folder = TempDir::new().unwrap();
    let rows = rows();
    let store = open(folder.path()).unwrap();
    for table in [PLAIN, PARTS] {
        let mut run = store.bulk_run(table).unwrap();
        for (key, value) in &rows {
            run.push(key, value).unwrap();
        }
        store.bulk_load(vec![run.finish().unwrap()]).unwrap();
    }
    store.publish(b"manifest").unwrap();
    drop(store);
    let sound = look(open, folder.path(), &rows);
    assert_eq!(sound.errors, 0, "{sound:?}");

    let files: Vec<_> = std::fs::read_dir(folder.path().join(part))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == ending))
        .collect();
    assert!(files.len() >= 4, "{files:?}");
    let mut reported = 0;
    for flip in 0..FLIPS {
        // A walk over files and positions that a failing number replays.
        let dice = (flip + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let path = &files[usize::try_from(dice % files.len() as u64).unwrap()];
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let at = (dice >> 16) % file.metadata().unwrap().len();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ (1 << (dice >> 61))], at).unwrap();
        println!("flip {flip}: byte {at} of {}", path.display());
        reported += usize::from(look(open, folder.path(), &rows).errors > 0);
        file.write_all_at(&byte, at).unwrap();
    }
    println!("{reported} of {FLIPS} flips were reported, the others were harmless");
    assert!(reported as u64 > FLIPS / 2, "only {reported} flips were reported");
    assert_eq!(look(open, folder.path(), &rows).errors, 0);
}
