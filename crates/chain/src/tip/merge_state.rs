//! The rows of an index by pack and delta, for the operator.

use crate::names::Height;
use crate::tip::index::Index;

/// Rows that are packed, and rows that wait for a merge.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MergeState {
    /// The oldest first.
    pub packs: Vec<PackSize>,
    /// Transactions of the deltas, the newest blocks.
    pub delta_transactions: u64,
    /// Those of them that are full and buried, which the next merges pack.
    pub buried_transactions: u64,
}

/// The rows of one pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackSize {
    /// Transactions, stale ones included.
    pub transactions: u64,
    /// Scripts that they touch.
    pub scripts: u64,
}

impl Index {
    /// Returns the rows of the current snapshot; `None` while the index is first built.
    pub fn merge_state(&self) -> Option<MergeState> {
        let snapshot = self.built().ok()?;
        let tables = &snapshot.tables;
        let packs = tables.packs.iter();
        let packs =
            packs.map(|pack| PackSize { transactions: pack.end.0 - pack.start.0, scripts: pack.scripts }).collect();
        let start = tables.deltas.first()?.start;
        let first_unburied = Height((snapshot.tip().height.0 + 1).saturating_sub(self.merging.tip_blocks));
        let end = snapshot.headers.end_txnum();
        let unburied = snapshot.headers.get(first_unburied).map_or(end, |block| block.first_txnum);
        // A delta whose successor begins among buried blocks is merged.
        let merged = tables.deltas.iter().map(|delta| delta.start).take_while(|start| *start <= unburied).last();
        Some(MergeState {
            packs,
            delta_transactions: end.0 - start.0,
            buried_transactions: merged.unwrap_or(start).0 - start.0,
        })
    }
}
