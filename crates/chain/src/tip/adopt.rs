//! Merges from the follower's side: begins them, and publishes what they wrote.
//!
//! A publish replaces what a merge took by its pack, in the manifest and in the installed snapshot. What was taken is
//! emptied when no older snapshot reads it.
//!
//! Invariants: packs and deltas cover the txnums without a gap; a merge whose blocks became stale meanwhile, or that a
//! reorg reached below, is thrown away; a merge that was cut off leaves a slot that no manifest names, and opening the
//! index empties it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use birdhouse_store::FinishedRun;

use crate::error::Result;
use crate::merging::{Bounds, Growth, Merge, Merged, NewBlocks, Plan, Running, plan};
use crate::names::{Height, Touched, TxNum};
use crate::rows::{Delta, Filters, Pack, bucket_bits, script, txnum};
use crate::state::{Manifest, Slot, Snapshot, TxNumRange};
use crate::tip::index::Index;

/// Pause after a merge that failed.
const RETRY: Duration = Duration::from_mins(1);
/// Free disk that a merge of the oldest pack leaves to others.
const FREE_BYTES_MIN: u64 = 2 << 30;

impl Index {
    /// Takes one step of merging: empties what nobody reads, publishes a merge that has finished, begins the next one.
    ///
    /// # Errors
    /// Failures of the store. A merge that fails is logged and tried again later.
    pub(super) fn merge_step(&self) -> Result<()> {
        self.empty_unread()?;
        let runtime = &*self.shared.runtime;
        let mut merger = self.merger.lock();
        if let Some(done) = merger.running.take_if(|running| running.is_finished()) {
            match done.finish() {
                Ok(merged) => self.adopt(merged)?,
                Err(error) => {
                    tracing::warn!(%error, retry_s = RETRY.as_secs(), "failed to merge rows of the tip");
                    merger.retry_at = Some(runtime.now() + RETRY);
                }
            }
        }
        if merger.running.is_none() && merger.retry_at.is_none_or(|at| runtime.now() >= at) {
            merger.retry_at = None;
            if let Some(merge) = self.next_merge() {
                merger.running = Some(Running::begin(merge, Arc::clone(&merger.stop), runtime)?);
            }
        }
        Ok(())
    }

    /// Merges everything that is buried, on this thread. Returns the number of merges.
    ///
    /// # Errors
    /// Failures of the store or damaged rows.
    pub fn merge(&self) -> Result<u32> {
        let _alone = self.mirror.lock();
        let mut merges = 0;
        loop {
            self.empty_unread()?;
            let Some(merge) = self.next_merge() else { return Ok(merges) };
            let merged = merge.run(&AtomicBool::new(false))?;
            drop(merge);
            self.adopt(merged)?;
            merges += 1;
        }
    }

    /// The next merge; `None` if nothing is buried or every slot is taken.
    fn next_merge(&self) -> Option<Merge> {
        let snapshot = self.built().ok()?;
        let manifest = self.writer.lock();
        let tip = snapshot.tip().height.0;
        let first_unburied = Height((tip + 1).saturating_sub(self.merging.tip_blocks));
        let buried = snapshot.headers.get(first_unburied)?.first_txnum;
        let plan = self.plan(&manifest, buried, Growth::at_tip(self.merging.oldest_multiple))?;
        let slot = self.slots.lock().free_pack(&manifest)?;
        Some(self.merge_of(snapshot, &manifest, plan, slot, None))
    }

    /// The merge of what a plan takes, with blocks that have no rows yet.
    pub(super) fn merge_of(
        &self,
        snapshot: Arc<Snapshot>,
        manifest: &Manifest,
        plan: Plan,
        slot: u8,
        new_blocks: Option<NewBlocks>,
    ) -> Merge {
        let unpacked =
            self.scripts_of(&manifest.deltas[..plan.deltas]) + new_blocks.as_ref().map_or(0, NewBlocks::scripts_about);
        let (pack, scripts_about) = layout(manifest, plan, slot, unpacked);
        let live = manifest.live_within(TxNumRange { start: pack.start, end: pack.end });
        Merge { plan, snapshot, pack, scripts_about, live, stale: manifest.stale.clone(), new_blocks }
    }

    /// Chooses packs and deltas of the next merge. `buried` is the first txnum of the blocks that a reorg may replace.
    pub(crate) fn plan(&self, manifest: &Manifest, buried: TxNum, growth: Growth) -> Option<Plan> {
        let stale = manifest.stale.iter().map(|range| range.start).min();
        let bounds = Bounds { buried, stale, may_take_oldest: true };
        let chosen = plan(&manifest.packs, &manifest.deltas, growth, bounds)?;
        let takes_oldest = chosen.packs > 0 && chosen.packs == manifest.packs.len();
        if !takes_oldest || self.has_room(manifest, chosen) {
            return Some(chosen);
        }
        plan(&manifest.packs, &manifest.deltas, growth, Bounds { may_take_oldest: false, ..bounds })
    }

    /// About the number of scripts in deltas.
    fn scripts_of(&self, deltas: &[Delta]) -> u64 {
        let slots = self.slots.lock();
        deltas
            .iter()
            .filter_map(|delta| slots.filters_of(Slot::Delta(delta.slot)))
            .map(|filters| filters.scripts.keys())
            .sum()
    }

    /// Returns true if the disk has room for the pack that a merge writes, beside the rows that it takes.
    fn has_room(&self, manifest: &Manifest, plan: Plan) -> bool {
        let store = &*self.shared.storage.store;
        let (Some(free_bytes), Ok(sizes)) = (store.free_bytes(), store.sizes()) else { return true };
        let packs = manifest.packs[manifest.packs.len() - plan.packs..].iter().map(|pack| Slot::Pack(pack.slot));
        let deltas = manifest.deltas[..plan.deltas].iter().map(|delta| Slot::Delta(delta.slot));
        let tables: Vec<&str> = packs.chain(deltas).flat_map(Slot::tables).map(|table| table.name).collect();
        let taken = sizes.iter().filter(|(name, _)| tables.contains(&name.as_str()));
        let needed_bytes = taken.map(|(_, bytes)| bytes).sum::<u64>() + FREE_BYTES_MIN;
        let has_room = needed_bytes <= free_bytes;
        if !self.is_disk_scarce.swap(!has_room, Ordering::Relaxed) && !has_room {
            tracing::warn!(needed_bytes, free_bytes, "the oldest pack is not merged: the disk is too full; make room");
        }
        has_room
    }

    /// Publishes a merge and installs a snapshot that reads it.
    fn adopt(&self, merged: Merged) -> Result<()> {
        let Merged { plan, pack, live, stale, runs, filters } = merged;
        let mut manifest = self.writer.lock();
        let has_same_blocks = manifest.live_within(TxNumRange { start: pack.start, end: pack.end }) == live;
        // A reorg may reach below the merge although all that the merge took was stale before.
        if !has_same_blocks || manifest.stale != stale {
            tracing::info!("a merge was thrown away: a reorg replaced some of its blocks");
            return Ok(());
        }
        let mut next = manifest.clone();
        let taken = take(&mut next, plan, pack);
        self.load_and_publish(runs, &next, pack)?;
        self.retire(taken, pack, filters);
        let tables = self.slots.lock().tables(&next);
        *manifest = next;
        drop(manifest);
        let current = self.built()?;
        let snapshot = Snapshot { tables, stale: Vec::new(), ..Snapshot::clone(&current) };
        // No answer changes, and blocks before it may not be announced yet.
        self.replace(snapshot, &Touched::Scripts(Vec::new()));
        let txs = pack.end.0 - pack.start.0;
        tracing::info!(txs, scripts = pack.scripts, packs = plan.packs, deltas = plan.deltas, "merged rows of the tip");
        Ok(())
    }

    /// Loads the rows of a new pack and publishes the manifest that names it. After a failure its slot is abandoned.
    pub(super) fn load_and_publish(&self, runs: Vec<FinishedRun>, next: &Manifest, pack: Pack) -> Result<()> {
        let store = &*self.shared.storage.store;
        let published = store.bulk_load(runs).and_then(|()| store.publish(&next.encode()));
        if published.is_err() {
            self.slots.lock().abandon(Slot::Pack(pack.slot));
        }
        Ok(published?)
    }

    /// Retires the slots of what a published merge took.
    pub(super) fn retire(&self, taken: Vec<Slot>, pack: Pack, filters: Option<Arc<Filters>>) {
        let mut slots = self.slots.lock();
        slots.retire(taken);
        if let Some(filters) = filters {
            slots.set_filters(Slot::Pack(pack.slot), filters);
        }
    }

    /// Empties the tables of retired slots that no snapshot reads.
    pub(super) fn empty_unread(&self) -> Result<()> {
        if self.slots.lock().has_abandoned() {
            // The publish that failed may have happened, and this one takes it back before rows that it names go.
            let manifest = self.writer.lock();
            self.shared.storage.store.publish(&manifest.encode())?;
            self.slots.lock().retire_abandoned();
        }
        let unread = self.slots.lock().take_unread();
        for (index, slot) in unread.iter().enumerate() {
            for table in slot.tables() {
                if let Err(error) = self.shared.storage.store.clear(table) {
                    // They stay retired, and the next step tries again.
                    self.slots.lock().retire(unread[index..].iter().copied());
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }
}

/// The pack of a merge, and about how many scripts it will have. What it takes beside packs has `scripts`.
fn layout(manifest: &Manifest, plan: Plan, slot: u8, scripts: u64) -> (Pack, u64) {
    let taken = &manifest.packs[manifest.packs.len() - plan.packs..];
    let end = manifest.deltas[plan.deltas].start;
    let start = taken.first().map_or(manifest.deltas[0].start, |pack| pack.start);
    // Those that have entries in several parts count several times. With too few, the filter of the pack would err
    // often and each lookup would read larger buckets.
    let scripts_about = taken.iter().map(|pack| pack.scripts).sum::<u64>() + scripts;
    let pack = Pack {
        slot,
        key_length: manifest.key_length,
        script_bits: bucket_bits(scripts_about, script::PER_BUCKET),
        txnum_bits: bucket_bits(manifest.live_txs(TxNumRange { start, end }), txnum::PER_BUCKET),
        start,
        end,
        scripts: 0,
    };
    (pack, scripts_about)
}

/// Replaces what a merge took by its pack. Returns the slots of what was taken.
pub(super) fn take(manifest: &mut Manifest, plan: Plan, pack: Pack) -> Vec<Slot> {
    let packs = manifest.packs.split_off(manifest.packs.len() - plan.packs);
    manifest.packs.push(pack);
    let deltas = manifest.deltas.drain(..plan.deltas).map(|delta| Slot::Delta(delta.slot));
    let taken = packs.iter().map(|pack| Slot::Pack(pack.slot)).chain(deltas).collect();
    // A plan takes every pack with transactions that were stale then.
    manifest.stale.clear();
    taken
}
