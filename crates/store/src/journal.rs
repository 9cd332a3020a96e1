//! The redo log of the arrays: a small publish waits for one disk write instead of a sync of each file.
//!
//! A *leaf* holds the writes between two publishes; the engine's log takes it together with the manifest. Opening the
//! arrays replays all leaves in their order, which restores what the disk lost and leaves the rest as it is. When the
//! leaves are many, when one is large, and at the first publish after opening, the arrays are synced instead and the
//! journal begins anew.
//!
//! ```text
//! leaf    entries
//! entry   name bytes u8 | name | offset u64 LE | length u32 LE | bytes     a write of these bytes at this offset
//!         name bytes u8 | name | length u64 LE | u32::MAX LE               a cut of the file to this length
//!         name bytes u8 | name | length u64 LE | u32::MAX - 1 LE           the file's length before the next entry, a
//!                                                                          write past its end
//! ```
//!
//! Replay leaves out a write past the end of a file that did not lie past the end at first: another process has cut the
//! file, and the write would fill the missing bytes with zeros. Such a file stays short, and its reader notices when it
//! compares the length with the manifest.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use parking_lot::Mutex;

use crate::error::{Error, Result, io_error};

/// Largest leaf, in bytes: writing more of it twice takes longer than syncing the arrays.
pub(crate) const LEAF_BYTES_MAX: usize = 1 << 20;
/// Largest sum of all leaves, in bytes: opening the store replays them.
pub(crate) const JOURNAL_BYTES_MAX: usize = 16 << 20;
/// The length that marks a cut.
const CUT: u32 = u32::MAX;
/// The length that marks a write past the end of the file.
const PAST_END: u32 = u32::MAX - 1;

/// The writes since the last publish, and the size of the leaves since the last sync.
#[derive(Debug)]
pub(crate) struct Journal(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The writes since the last publish.
    leaf: Vec<u8>,
    /// Set when a write is in no leaf, so that only a sync makes it durable.
    has_gap: bool,
    /// Number of leaves published since the arrays were synced.
    leaves: u64,
    /// Bytes of these leaves.
    bytes: usize,
}

/// The step that makes the arrays durable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing was written.
    Nothing,
    /// Publish this leaf, under this number, with the manifest.
    Leaf(u64, Vec<u8>),
    /// Sync the arrays, then delete all leaves; the number is the count of leaves known.
    Sync(u64),
}

// === impl Journal ===

impl Journal {
    /// Returns the journal of a store that was opened with this number of leaves.
    pub(crate) fn after(leaves: u64) -> Self {
        // No leaf holds what an earlier process wrote after its last publish.
        Self(Mutex::new(State { leaves, has_gap: true, ..State::default() }))
    }

    /// Notes `bytes` written at byte `at` of an array's file, which had `end` bytes. The caller sets the array dirty
    /// before, so that a write without a note is synced.
    pub(crate) fn wrote(&self, array: &str, end: u64, at: u64, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).ok().filter(|length| *length < PAST_END);
        self.note(array, (at > end).then_some(end), at, length, bytes);
    }

    /// Notes a cut of an array's file to `at` bytes.
    pub(crate) fn cut(&self, array: &str, at: u64) {
        self.note(array, None, at, Some(CUT), &[]);
    }

    fn note(&self, array: &str, past_end: Option<u64>, at: u64, length: Option<u32>, bytes: &[u8]) {
        let mut state = self.0.lock();
        if state.has_gap {
            return;
        }
        let name = u8::try_from(array.len()).ok();
        match (name, length) {
            (Some(name), Some(length)) if state.leaf.len() + bytes.len() <= LEAF_BYTES_MAX => {
                if let Some(end) = past_end {
                    put_head(&mut state.leaf, name, array, end, PAST_END);
                }
                put_head(&mut state.leaf, name, array, at, length);
                state.leaf.extend_from_slice(bytes);
            }
            _ => {
                state.has_gap = true;
                state.leaf = Vec::new();
            }
        }
    }

    /// Returns the step that makes all noted writes durable. A caller whose step fails calls [`failed`](Self::failed).
    pub(crate) fn take(&self) -> Due {
        let mut state = self.0.lock();
        let leaf = std::mem::take(&mut state.leaf);
        let number = state.leaves;
        if state.has_gap || state.bytes + leaf.len() > JOURNAL_BYTES_MAX {
            *state = State::default();
            return Due::Sync(number);
        }
        if leaf.is_empty() {
            return Due::Nothing;
        }
        state.leaves += 1;
        state.bytes += leaf.len();
        Due::Leaf(number, leaf)
    }

    /// Records that the step last taken failed: its leaf may be lost, and deleted leaves may still be there.
    pub(crate) fn failed(&self) {
        let mut state = self.0.lock();
        state.has_gap = true;
        state.leaves += 1;
    }
}

/// Appends the part of an entry before its bytes.
fn put_head(leaf: &mut Vec<u8>, name: u8, array: &str, at: u64, length: u32) {
    leaf.push(name);
    leaf.extend_from_slice(array.as_bytes());
    leaf.extend_from_slice(&at.to_le_bytes());
    leaf.extend_from_slice(&length.to_le_bytes());
}

/// Replays leaves into the array files of a folder and syncs the files.
pub(crate) fn replay(leaves: &[Vec<u8>], folder: &Path) -> Result<()> {
    let mut files: BTreeMap<&str, File> = BTreeMap::new();
    for leaf in leaves {
        let mut rest = leaf.as_slice();
        let mut past_end = None;
        while !rest.is_empty() {
            let entry = Entry::split_from(&mut rest).ok_or_else(damaged)?;
            let path = folder.join(entry.array);
            let failed = |source| io_error("replay the journal into", &path, source);
            let file = match files.entry(entry.array) {
                Place::Occupied(open) => open.into_mut(),
                Place::Vacant(place) => {
                    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
                    place.insert(opened.map_err(failed)?)
                }
            };
            let needed = past_end.take().unwrap_or(entry.at);
            let end = file.metadata().map_err(failed)?.len();
            match entry.change {
                // Another process has cut the file, or a later entry cuts the bytes of this one.
                Change::Written(_) if end < needed => {
                    tracing::debug!(array = entry.array, end, needed, "left out a write past the end of an array");
                    Ok(())
                }
                Change::Written(bytes) => file.write_all_at(bytes, entry.at),
                // A later cut made the file shorter.
                Change::Cut if end <= entry.at => Ok(()),
                Change::Cut => file.set_len(entry.at),
                Change::PastEnd => {
                    past_end = Some(entry.at);
                    Ok(())
                }
            }
            .map_err(failed)?;
        }
    }
    let failed = |array| move |source| io_error("sync", &folder.join(array), source);
    files.iter().try_for_each(|(array, file)| file.sync_data().map_err(failed(array)))
}

fn damaged() -> Error {
    Error::Corrupt { table: "(journal)".to_owned(), reason: "a leaf ends inside an entry".to_owned() }
}

/// One entry of a leaf.
struct Entry<'a> {
    array: &'a str,
    at: u64,
    change: Change<'a>,
}

/// The change that an entry describes.
enum Change<'a> {
    /// These bytes were written at byte `at`.
    Written(&'a [u8]),
    /// The file was cut to `at` bytes.
    Cut,
    /// No change: the file had `at` bytes, and the next entry is a write past its end.
    PastEnd,
}

impl<'a> Entry<'a> {
    /// Splits the first entry off `rest`; `None` when it is not whole.
    fn split_from(rest: &mut &'a [u8]) -> Option<Self> {
        let (length, after) = rest.split_first()?;
        let (array, after) = after.split_at_checked(usize::from(*length))?;
        let (at, after) = after.split_first_chunk()?;
        let (length, after) = after.split_first_chunk()?;
        let (change, after) = match u32::from_le_bytes(*length) {
            CUT => (Change::Cut, after),
            PAST_END => (Change::PastEnd, after),
            length => {
                let (bytes, after) = after.split_at_checked(length as usize)?;
                (Change::Written(bytes), after)
            }
        };
        *rest = after;
        Some(Self { array: str::from_utf8(array).ok()?, at: u64::from_le_bytes(*at), change })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn leaf(journal: &Journal) -> Vec<u8> {
        match journal.take() {
            Due::Leaf(_, leaf) => leaf,
            due => panic!("a small write needs a leaf, not {due:?}"),
        }
    }

    #[test]
    fn leaves_are_replayed_in_their_order_however_often() {
        let journal = Journal::after(0);
        assert_eq!(journal.take(), Due::Sync(0));
        journal.wrote("a", 0, 0, b"abcdef");
        journal.wrote("b", 0, 2, b"xy");
        let first = leaf(&journal);
        journal.cut("a", 1);
        journal.wrote("a", 1, 3, b"de");
        let leaves = [first, leaf(&journal)];
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            replay(&leaves, folder.path()).unwrap();
            assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), b"a\0\0de");
            assert_eq!(std::fs::read(folder.path().join("b")).unwrap(), b"\0\0xy");
        }
        for cut in 1..leaves[0].len() - 1 {
            // Entries end after the bytes of `a`, and after the length of `b`.
            let is_whole = [14 + 6, 14 + 6 + 14].contains(&cut);
            assert_eq!(replay(&[leaves[0][..cut].to_vec()], folder.path()).is_ok(), is_whole, "{cut}");
        }
    }

    #[test]
    fn arrays_are_synced_when_a_leaf_is_large_when_leaves_are_many_and_after_a_failure() {
        const HEAD: &[u8] = b"\x01a\0\0\0\0\0\0\0\0\0\0\x10\0";
        let journal = Journal::after(7);
        assert_eq!(journal.take(), Due::Sync(7));
        let large = vec![1; LEAF_BYTES_MAX];
        journal.wrote("a", 0, 0, &large);
        assert_eq!(journal.take(), Due::Leaf(0, [HEAD, large.as_slice()].concat()));
        journal.wrote("a", 0, 0, &[large.as_slice(), b"1"].concat());
        journal.wrote("a", 0, 0, b"left out, too");
        assert_eq!(journal.take(), Due::Sync(1));
        let leaves = (0..).take_while(|_| {
            journal.wrote("a", 0, 0, &large);
            matches!(journal.take(), Due::Leaf(..))
        });
        assert_eq!(leaves.count(), JOURNAL_BYTES_MAX / LEAF_BYTES_MAX - 1);
        assert_eq!(journal.take(), Due::Nothing);
        journal.failed();
        assert_eq!(journal.take(), Due::Sync(1));
    }

    #[test]
    fn file_cut_by_another_process_stays_short_and_is_not_filled_with_zeros() {
        let journal = Journal::after(0);
        assert_eq!(journal.take(), Due::Sync(0));
        journal.wrote("a", 10, 10, b"kl");
        journal.wrote("a", 12, 14, b"op");
        let leaves = [leaf(&journal)];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let replayed = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            replay(&leaves, folder.path()).unwrap();
            std::fs::read(&path).unwrap()
        };
        assert_eq!(replayed(b""), b"");
        assert_eq!(replayed(b"abcdefghi"), b"abcdefghi");
        let whole = b"abcdefghijkl\0\0op";
        assert_eq!(replayed(b"abcdefghij"), whole);
        assert_eq!(replayed(whole), whole);
    }
}
