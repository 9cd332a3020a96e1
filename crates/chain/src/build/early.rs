//! Early rows: the first blocks answer while the rest of the chain is built.
//!
//! A build of several generations ends one at each of a few heights, merges the runs so far into a pack, and publishes
//! it. The runs stay: the rows of the whole chain are merged from them alone, so early rows cost what they write, and
//! readers of them never see a row that is still being written. Later early rows take the place of earlier ones.
//!
//! Each part is four times the one before. Parts that follow each other without being written again were rejected: a
//! spend would have to be resolved against all parts before it, or every row be written twice in the end.

use std::ops::Range;

use crate::build::context::Build;
use crate::build::generation::SCRIPT_PARTITIONS;
use crate::build::options::BuildOptions;
use crate::build::rows::{FreeSlots, Rows, STEPS, layout};
use crate::build::runs::RUN_BYTES_PER_SCRIPT;
use crate::error::Result;
use crate::names::{Height, TxNum};
use crate::rows::{Delta, Pack, header, stale, txpos};
use crate::state::{Early, Manifest, Merging, Slot, State};

/// Times that rows are published before the last.
const PARTS: u32 = 3;
/// Transactions of each part, in those of the part before.
const GROWTH: u64 = 4;
/// Bytes of the records of a transaction, and in percent of its block's bytes, about: 1.13 GB for 8 million
/// transactions in 2.72 GB of blocks.
const RECORD_BYTES_PER_TX: u64 = 141;
const RECORD_PERCENT: u64 = 42;

/// The height after the last block of each part, ascending. There is none in a chain that one generation can hold,
/// which is built in minutes.
pub(super) fn ends(first_txnums: &[TxNum], block_bytes: u64, options: &BuildOptions) -> Vec<Height> {
    let txs = first_txnums.last().map_or(0, |end| end.0);
    // Not every source knows the sizes of blocks.
    let records = txs.saturating_mul(RECORD_BYTES_PER_TX).max(block_bytes / 100 * RECORD_PERCENT);
    if records <= options.spool_bytes_max(SCRIPT_PARTITIONS, None) {
        return Vec::new();
    }
    // All parts together have less than four thirds of the largest.
    let largest = txs * u64::from(options.early_percent.min(100)) / 100 * 3 / 4;
    let unburied = (first_txnums.len() - 1).saturating_sub(options.reorg_blocks as usize);
    let end = |txs| first_txnums.partition_point(|first| first.0 < txs);
    let mut ends: Vec<usize> = (0..PARTS).rev().map(|step| end(largest / GROWTH.pow(step))).collect();
    ends.retain(|end| (1..unburied).contains(end));
    ends.dedup();
    ends.into_iter().map(|end| Height(u32::try_from(end).expect("heights fit 32 bits"))).collect()
}

/// Returns true if the generations so far end where rows are published early, and their rows are not.
pub(super) fn is_due(ends: &[Height], manifest: &Manifest) -> bool {
    ends.contains(&start_of(manifest)) && first_unanswered(manifest) < start_of(manifest)
}

/// The first block that no finished generation holds.
pub(super) fn start_of(manifest: &Manifest) -> Height {
    match manifest.state {
        State::Building(tip) | State::Merging(Merging { tip, .. }) => Height(tip.height.0 + 1),
        State::Empty | State::Ready(_) => Height(0),
    }
}

/// The first block without early rows.
pub(super) fn first_unanswered(manifest: &Manifest) -> Height {
    manifest.early.map_or(Height(0), |early| Height(early.tip.height.0 + 1))
}

impl Build<'_> {
    /// Publishes the rows of all generations so far. `rows` makes their writer.
    pub(super) fn publish_early<'a>(
        &self,
        manifest: &mut Manifest,
        rows: impl FnOnce(Pack, Delta, Range<Height>) -> Rows<'a>,
    ) -> Result<()> {
        let (start, end) = (first_unanswered(manifest), start_of(manifest));
        let scripts_about = self.run_bytes(manifest.built)? / RUN_BYTES_PER_SCRIPT;
        let (pack, delta) = layout(manifest, manifest.next, scripts_about, self.empty_slots(manifest)?);
        self.progress.start_sorting(STEPS as u64);
        let pack = rows(pack, delta, start..end).of_runs_so_far(manifest.built)?;
        let early = Early { tip: self.id(Height(end.0 - 1)), pack, delta: delta.slot };
        let before = manifest.early.replace(early);
        self.store.publish(&manifest.encode())?;
        self.slots.lock().retire(before.iter().flat_map(Slot::of_early));
        tracing::info!(blocks = end.0, "the rows so far answer while the rest is built");
        (self.answer)(manifest)
    }

    /// Empties all tables that no reader sees: a build that was cut off may have left rows in them. Returns free slots.
    pub(super) fn empty_slots(&self, manifest: &Manifest) -> Result<FreeSlots> {
        let empty = self.slots.lock().take_empty(manifest);
        let of_blocks = manifest.early.is_none().then_some([header::TABLE, txpos::TABLE, stale::TABLE]);
        let tables = empty.iter().flat_map(|slot| slot.tables());
        tables.chain(of_blocks.into_iter().flatten()).try_for_each(|table| self.store.clear(table))?;
        let pack = empty.iter().find_map(|slot| if let Slot::Pack(number) = slot { Some(*number) } else { None });
        let delta = empty.iter().find_map(|slot| if let Slot::Delta(number) = slot { Some(*number) } else { None });
        let reason = "a build publishes fewer times than there are slots";
        Ok(FreeSlots { pack: pack.expect(reason), delta: delta.expect(reason) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of ten transactions each.
    fn first_txnums(blocks: u64) -> Vec<TxNum> {
        (0..=blocks).map(|height| TxNum(10 * height)).collect()
    }

    #[test]
    fn the_parts_grow_fourfold_and_have_the_percentage_together() {
        let options = |early_percent| BuildOptions { temp_bytes: 1 << 20, early_percent, ..BuildOptions::modest("") };
        let of = |blocks, percent| ends(&first_txnums(blocks), 0, &options(percent));
        assert_eq!(of(1_000_000, 4), [1875, 7500, 30_000].map(Height));
        assert_eq!(of(1_000_000, 100), [46_875, 187_500, 750_000].map(Height));
        assert_eq!(of(1_000_000, 0), []);
        assert_eq!(of(1_000_000, 1), [469, 1875, 7500].map(Height));
        // What one generation holds is not split, and no part ends where a reorg may reach.
        assert_eq!(of(700, 4), []);
        assert_eq!(ends(&first_txnums(700), 3 << 20, &options(100)), []);
        assert_eq!(ends(&first_txnums(1600), 3 << 20, &options(100)), [75, 300].map(Height));
        assert_eq!(ends(&first_txnums(1600), 0, &options(100)).len(), 2);
        assert_eq!(of(2000, 100), [94, 375].map(Height));
        assert_eq!(of(800, 4), []);
    }
}
