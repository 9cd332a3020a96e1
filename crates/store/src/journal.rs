//! The redo log of the arrays: a small publish waits for one disk write instead of a sync of each file.
//!
//! A *leaf* holds the writes between two publishes; the engine's log takes it together with the manifest. Opening the
//! arrays replays all leaves in their order, which restores what the disk lost and leaves the rest as it is. When the
//! leaves are many, when one is large, when records were cut off or written again, and at the first publish after
//! opening, the arrays are synced instead and the journal begins anew. So a leaf only has bytes of places that the
//! synced state has none of.
//!
//! ```text
//! leaf    entries
//! entry   name bytes u8 | name | offset u64 LE | length u32 LE | bytes     a write of these bytes at this offset
//! ```

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// Largest leaf, in bytes: writing more of it twice takes longer than syncing the arrays.
pub(crate) const LEAF_BYTES_MAX: usize = 1 << 20;
/// Largest sum of all leaves, in bytes: they stay in memory, and opening the store replays them.
pub(crate) const JOURNAL_BYTES_MAX: usize = 16 << 20;
/// Memory of a leaf beside its bytes, an estimate: its place in a list and what its allocation rounds up.
const LEAF_OVERHEAD_BYTES: usize = 48;

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
    /// Memory of these leaves.
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

    /// Notes `bytes` written at byte `at` of an array's file. The caller sets the array dirty before, so that a write
    /// without a note is synced.
    pub(crate) fn wrote(&self, array: &str, at: u64, bytes: &[u8]) {
        let mut state = self.0.lock();
        if state.has_gap {
            return;
        }
        match (u8::try_from(array.len()), u32::try_from(bytes.len())) {
            (Ok(name), Ok(length)) if state.leaf.len() + bytes.len() <= LEAF_BYTES_MAX => {
                let leaf = &mut state.leaf;
                leaf.push(name);
                leaf.extend_from_slice(array.as_bytes());
                leaf.extend_from_slice(&at.to_le_bytes());
                leaf.extend_from_slice(&length.to_le_bytes());
                leaf.extend_from_slice(bytes);
            }
            _ => leave_gap(&mut state),
        }
    }

    /// Notes a change that no leaf can hold: the next publish syncs the arrays.
    pub(crate) fn leave_gap(&self) {
        leave_gap(&mut self.0.lock());
    }

    /// Returns the step that makes all noted writes durable. A caller whose step fails calls [`failed`](Self::failed).
    pub(crate) fn take(&self) -> Due {
        let mut state = self.0.lock();
        let mut leaf = std::mem::take(&mut state.leaf);
        let number = state.leaves;
        let bytes = leaf.len() + LEAF_OVERHEAD_BYTES;
        if state.has_gap || state.bytes + bytes > JOURNAL_BYTES_MAX {
            *state = State::default();
            return Due::Sync(number);
        }
        if leaf.is_empty() {
            return Due::Nothing;
        }
        leaf.shrink_to_fit();
        state.leaves += 1;
        state.bytes += bytes;
        Due::Leaf(number, leaf)
    }

    /// Returns the memory of what is in leaves alone.
    pub(crate) fn bytes(&self) -> usize {
        let state = self.0.lock();
        state.bytes + state.leaf.len()
    }

    /// Records that the step last taken failed: its leaf may be lost, and deleted leaves may still be there.
    pub(crate) fn failed(&self) {
        let mut state = self.0.lock();
        state.has_gap = true;
        state.leaves += 1;
    }
}

fn leave_gap(state: &mut State) {
    state.has_gap = true;
    state.leaf = Vec::new();
}

/// Passes the writes of leaves to `write`, in their order: name of the array, offset and bytes.
pub(crate) fn replay(leaves: &[Vec<u8>], mut write: impl FnMut(&str, u64, &[u8]) -> Result<()>) -> Result<()> {
    for leaf in leaves {
        let mut rest = leaf.as_slice();
        while !rest.is_empty() {
            let (array, at, bytes) = split_entry(&mut rest).ok_or_else(damaged)?;
            write(array, at, bytes)?;
        }
    }
    Ok(())
}

fn damaged() -> Error {
    Error::Corrupt { table: "(journal)".to_owned(), reason: "a leaf ends inside an entry".to_owned() }
}

/// Splits the first entry off `rest`: the array, the offset and the bytes. `None` when it is not whole.
fn split_entry<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, u64, &'a [u8])> {
    let (length, after) = rest.split_first()?;
    let (array, after) = after.split_at_checked(usize::from(*length))?;
    let (at, after) = after.split_first_chunk()?;
    let (length, after) = after.split_first_chunk()?;
    let (bytes, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    Some((str::from_utf8(array).ok()?, u64::from_le_bytes(*at), bytes))
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
    fn leaves_are_replayed_in_their_order_and_none_by_half() {
        let journal = Journal::after(0);
        assert_eq!(journal.take(), Due::Sync(0));
        journal.wrote("a", 0, b"a");
        journal.wrote("b", 2, b"xy");
        let first = leaf(&journal);
        journal.wrote("a", 3, b"de");
        let leaves = [first, leaf(&journal)];
        let replayed = |leaves: &[Vec<u8>]| {
            let mut writes = Vec::new();
            replay(leaves, |array, at, bytes| {
                writes.push((array.to_owned(), at, bytes.to_vec()));
                Ok(())
            })?;
            Ok::<_, Error>(writes)
        };
        let expected = [("a", 0, b"a".as_slice()), ("b", 2, b"xy"), ("a", 3, b"de")];
        assert_eq!(
            replayed(&leaves).unwrap(),
            expected.map(|(array, at, bytes)| (array.to_owned(), at, bytes.to_vec()))
        );
        for cut in 1..leaves[0].len() {
            // The entry of `a` ends there.
            assert_eq!(replayed(&[leaves[0][..cut].to_vec()]).is_ok(), cut == 14 + 1, "{cut}");
        }
    }

    #[test]
    fn arrays_are_synced_when_a_leaf_is_large_when_leaves_are_many_and_after_a_failure() {
        const HEAD: &[u8] = b"\x01a\0\0\0\0\0\0\0\0\0\0\x10\0";
        let journal = Journal::after(7);
        assert_eq!(journal.take(), Due::Sync(7));
        let large = vec![1; LEAF_BYTES_MAX];
        journal.wrote("a", 0, &large);
        assert_eq!(journal.take(), Due::Leaf(0, [HEAD, large.as_slice()].concat()));
        journal.wrote("a", 0, &[large.as_slice(), b"1"].concat());
        journal.wrote("a", 0, b"left out, too");
        assert_eq!(journal.take(), Due::Sync(1));
        journal.wrote("a", 0, b"left out, too");
        journal.leave_gap();
        assert_eq!(journal.take(), Due::Sync(0));
        let leaves = (0..).take_while(|_| {
            journal.wrote("a", 0, &large);
            matches!(journal.take(), Due::Leaf(..))
        });
        assert_eq!(leaves.count(), JOURNAL_BYTES_MAX / LEAF_BYTES_MAX - 1);
        assert_eq!(journal.take(), Due::Nothing);
        journal.failed();
        assert_eq!(journal.take(), Due::Sync(1));
    }
}
