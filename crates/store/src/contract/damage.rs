//! Flipped bits: every read equals the truth or is an error.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::harness::{NUMBERS, OpenAt, PARTS, PLAIN, put_all};
use crate::error::Result;
use crate::range::{Direction, KeyRange, PageLimit, Row};

const ROWS: u32 = 4000;
/// Flips in each kind of file.
const FLIPS: u64 = 60;
const MANIFEST: &[u8] = b"manifest";

fn records() -> Vec<u8> {
    (0..u64::from(ROWS)).flat_map(|number| (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect()
}

/// The right answers, made once for all flips.
struct Truth {
    records: Vec<u8>,
    forward: Vec<Row>,
    backward: Vec<Row>,
    values: Vec<Option<Vec<u8>>>,
}

impl Truth {
    fn of(rows: &[Row]) -> Self {
        let backward = rows.iter().rev().cloned().collect();
        let values = rows.iter().map(|(_, value)| Some(value.clone())).collect();
        Self { records: records(), forward: rows.to_vec(), backward, values }
    }
}

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
    fn note<T: PartialEq<U>, U: ?Sized>(&mut self, answer: Result<T>, truth: &U, what: &str) {
        match answer {
            Ok(answer) => {
                assert!(answer == *truth, "a silently wrong answer: {what}");
                self.truths += 1;
            }
            Err(_) => self.errors += 1,
        }
    }
}

/// Reads every row in every way.
fn look(open: OpenAt, path: &Path, truth: &Truth) -> Seen {
    let mut seen = Seen::default();
    let Ok(store) = open(path) else { return Seen { errors: 1, truths: 0 } };
    // A manifest that an older one hides is a short answer, too.
    seen.note(store.manifest(), &Some(MANIFEST.to_vec()), "manifest");
    match store.array(NUMBERS) {
        Err(_) => seen.errors += 1,
        Ok(array) => {
            assert_eq!(array.len(), u64::from(ROWS), "a short array");
            seen.note(array.read_run(0, ROWS as usize), &truth.records, "run of records");
            for number in (0..ROWS).step_by(130) {
                let at = 8 * number as usize;
                seen.note(array.read_many(&[number.into()]), &truth.records[at..at + 8], "record");
            }
        }
    }
    for table in [PLAIN, PARTS] {
        for (direction, rows) in [(Direction::Forward, &truth.forward), (Direction::Backward, &truth.backward)] {
            let whole = KeyRange::prefix(b"", direction);
            let limit = PageLimit { rows: usize::MAX, bytes: usize::MAX };
            let answer = store.scan_many(table, &[whole], limit).map(|mut pages| pages.remove(0).rows);
            seen.note(answer, rows, "scan of a table");
        }
        for (part, values) in truth.forward.chunks(50).zip(truth.values.chunks(50)) {
            let keys: Vec<_> = part.iter().map(|(key, _)| key.as_slice()).collect();
            seen.note(store.get_many(table, &keys), values, "get of many rows");
            seen.note(store.get_many(table, &keys[..1]), &values[..1], "get of one row");
            let range = KeyRange::prefix(keys[7], Direction::Forward);
            let limit = PageLimit { rows: 10, bytes: 10_000 };
            let answer = store.scan_many(table, &[range], limit).map(|mut pages| pages.remove(0).rows);
            seen.note(answer, &part[7..8], "scan of a partition");
        }
    }
    seen
}

/// Returns the numbers of the flips: `BIRDHOUSE_SEEDS` from `BIRDHOUSE_FROM` on, else the first [`FLIPS`].
fn flips() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("BIRDHOUSE_FROM").unwrap_or(0);
    first..first + number("BIRDHOUSE_SEEDS").unwrap_or(FLIPS)
}

/// Flips bits of every kind of file in a store's folder. `kinds` has the beginnings and the endings of their paths.
pub(crate) fn flip_bits(open: OpenAt, kinds: &[(&str, &str)]) {
    let folder = TempDir::new().unwrap();
    let rows = rows();
    {
        let store = open(folder.path()).unwrap();
        let (loaded, written) = rows.split_at(rows.len() - 500);
        for table in [PLAIN, PARTS] {
            let mut run = store.bulk_run(table).unwrap();
            for (key, value) in loaded {
                run.push(key, value).unwrap();
            }
            store.bulk_load(vec![run.finish().unwrap()]).unwrap();
        }
        let array = store.array(NUMBERS).unwrap();
        array.write(0, &records()[..8 * 3000]).unwrap();
        store.publish(b"first").unwrap();
        for table in [PLAIN, PARTS] {
            put_all(&*store, table, written);
        }
        array.write(3000, &records()[8 * 3000..]).unwrap();
        store.publish(MANIFEST).unwrap();
    }
    let (flips, truth) = (flips(), Truth::of(&rows));
    let sound = look(open, folder.path(), &truth);
    assert_eq!(sound.errors, 0, "{sound:?}");
    for (beginning, ending) in kinds {
        let mut reported = 0;
        for flip in flips.clone() {
            // A walk over files and positions that a failing number replays.
            let dice = (flip + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let files = files(folder.path(), beginning, ending);
            assert!(!files.is_empty(), "{beginning}..{ending}");
            let path = &files[usize::try_from(dice % files.len() as u64).unwrap()];
            let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
            let at = (dice >> 16) % file.metadata().unwrap().len();
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ (1 << (dice >> 61))], at).unwrap();
            println!("flip {flip}: byte {at} of {}", path.display());
            reported += u64::from(look(open, folder.path(), &truth).errors > 0);
            file.write_all_at(&byte, at).unwrap();
        }
        println!(
            "{beginning}..{ending}: {reported} of {} flips were reported, the others were harmless",
            flips.end - flips.start
        );
        assert!(reported > (flips.end - flips.start) / 2, "{beginning}..{ending}: only {reported} flips were reported");
        assert_eq!(look(open, folder.path(), &truth).errors, 0);
    }
}

/// Returns the files of a kind that have any bytes.
fn files(folder: &Path, beginning: &str, ending: &str) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            if entry.file_type().unwrap().is_dir() { &mut folders } else { &mut files }.push(entry.path());
        }
    }
    let is_kind = |path: &PathBuf| {
        let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
        name.starts_with(beginning) && name.ends_with(ending) && path.metadata().unwrap().len() > 0
    };
    files.retain(is_kind);
    files.sort();
    files
}
