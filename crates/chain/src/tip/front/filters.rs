//! Filters of a front end: of the packs and deltas that another process writes.
//!
//! A thread beside the answers scans each pack and delta once. The delta that grows gets the keys of each new block, as
//! the front end reads it from its node.
//!
//! Invariant: whatever a snapshot may look up in a slot, its filters of that slot have, or they exclude nothing yet.
//! Where the keys of new blocks are uncertain, the filters of their delta are dropped, and it is scanned again.
//!
//! A block makes the keys uncertain if it could not be read, or has a sibling, whose undo data the node may have in its
//! place. Filters that the indexer publishes were rejected: the growing delta's would be written with each block, and
//! the format would have one more table.

use std::sync::Arc;

use crate::block::BlockTouches;
use crate::merging::{delta_filters, filters_for, keys_of_delta, keys_of_pack};
use crate::names::{Keyer, ScriptHash, TxNum};
use crate::outside::Spawned;
use crate::rows::{Delta, Filters, Pack, txnum};
use crate::state::{Manifest, Slot, Snapshot, Tables};

/// The filters of one front end.
#[derive(Debug, Default)]
pub(crate) struct FrontFilters {
    entries: Vec<Entry>,
    /// The scan of all entries that are not whole, until it has ended.
    scan: Option<Box<dyn Spawned>>,
}

#[derive(Debug, Clone)]
struct Entry {
    part: Part,
    filters: Arc<Filters>,
}

/// The pack or delta in a slot. Another one in that slot differs: it has other txnums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Pack(Pack),
    Delta(Delta),
}

/// A new block: its first txnum, and what it touches.
pub(super) type Touching<'a> = (TxNum, &'a BlockTouches);

// === impl FrontFilters ===

impl FrontFilters {
    /// Goes on to a published state. It keeps the blocks below `kept_end` of the state before it, and has `new` blocks
    /// after these; `None` if what they touch is uncertain.
    pub(super) fn follow(
        &mut self,
        manifest: &Manifest,
        kept_end: TxNum,
        new: Option<&[Touching<'_>]>,
        keyer: &Keyer,
        delta_txs: u64,
    ) {
        if self.scan.take_if(|scan| scan.is_finished()).is_some() {
            // What failed is scanned again.
            self.entries.retain(|entry| entry.filters.is_whole());
        }
        self.entries.retain(|entry| entry.part.is_named(manifest));
        let Some(new) = new else {
            // New blocks have txnums from `kept_end` on.
            return self.entries.retain(|entry| entry.part.ends_by(kept_end, manifest));
        };
        for delta in manifest.deltas.iter().filter(|delta| kept_end <= delta.start) {
            // All of its blocks are new ones.
            if !self.has(Part::Delta(*delta)) {
                let filters = Arc::new(delta_filters(manifest.txs_of_delta(delta, delta_txs)));
                self.entries.push(Entry { part: Part::Delta(*delta), filters });
            }
        }
        for (first, touches) in new {
            let Some(delta) = manifest.deltas.iter().rfind(|delta| delta.start <= *first) else { continue };
            if let Some(entry) = self.entries.iter().find(|entry| entry.part == Part::Delta(*delta)) {
                add(&entry.filters, touches, keyer);
            }
        }
    }

    /// Adds filters that exclude nothing yet, for every pack and delta that lacks them, unless a scan is under way.
    /// [`Self::scan`] makes them whole.
    pub(super) fn begin(&mut self, manifest: &Manifest, delta_txs: u64) {
        if self.scan.is_some() {
            return;
        }
        let packs = manifest
            .packs
            .iter()
            .map(|pack| (Part::Pack(*pack), filters_for(pack, pack.scripts, manifest.txs_of_pack(pack))));
        let of_delta = |delta: &Delta| delta_filters(manifest.txs_of_delta(delta, delta_txs));
        let deltas = manifest.deltas.iter().map(|delta| (Part::Delta(*delta), Some(of_delta(delta))));
        for (part, filters) in packs.chain(deltas) {
            if let Some(filters) = filters
                && !self.has(part)
            {
                self.entries.push(Entry { part, filters: Arc::new(filters.unfinished()) });
            }
        }
    }

    /// Scans what [`Self::begin`] added, as `snapshot` has it, on a thread of its own.
    pub(super) fn scan(&mut self, snapshot: &Snapshot) {
        let unfinished: Vec<Entry> = self.entries.iter().filter(|entry| !entry.filters.is_whole()).cloned().collect();
        if self.scan.is_some() || unfinished.is_empty() {
            return;
        }
        let at = snapshot.clone();
        let work = move || {
            for Entry { part, filters } in unfinished {
                let scanned = match part {
                    Part::Pack(pack) => keys_of_pack(&at, &pack, &filters),
                    Part::Delta(delta) => keys_of_delta(&at, &delta, &filters),
                };
                match scanned {
                    Ok(()) => filters.finish(),
                    // A state that expired, or a store that cannot be read: the next state is scanned.
                    Err(error) => tracing::debug!(%error, "failed to scan rows for a filter; lookups go without it"),
                }
            }
        };
        match snapshot.shared.runtime.spawn("filters", Box::new(work)) {
            Ok(scan) => self.scan = Some(scan),
            Err(error) => {
                tracing::debug!(%error, "failed to start a thread for filters; lookups go without them");
                self.entries.retain(|entry| entry.filters.is_whole());
            }
        }
    }

    /// Returns the tables of a manifest with these filters.
    pub(super) fn tables(&self, manifest: &Manifest) -> Tables {
        let filters = self.entries.iter().map(|entry| (entry.part.slot(), Arc::clone(&entry.filters)));
        Tables::unfiltered(manifest).with_filters(filters.collect())
    }

    fn has(&self, part: Part) -> bool {
        self.entries.iter().any(|entry| entry.part == part)
    }
}

impl Part {
    fn slot(self) -> Slot {
        match self {
            Self::Pack(pack) => Slot::Pack(pack.slot),
            Self::Delta(delta) => Slot::Delta(delta.slot),
        }
    }

    fn is_named(self, manifest: &Manifest) -> bool {
        match self {
            Self::Pack(pack) => manifest.packs.contains(&pack),
            Self::Delta(delta) => manifest.deltas.contains(&delta),
        }
    }

    /// True for a pack, which nothing is added to, and for a delta that another one follows by `end`.
    fn ends_by(self, end: TxNum, manifest: &Manifest) -> bool {
        match self {
            Self::Pack(_) => true,
            Self::Delta(delta) => manifest.deltas.iter().any(|other| delta.start < other.start && other.start <= end),
        }
    }
}

/// Adds the keys of the rows of a block.
fn add(filters: &Filters, touches: &BlockTouches, keyer: &Keyer) {
    for txid in &touches.txids {
        filters.txids.add(txnum::kept(keyer.txid(txid), keyer.length()));
    }
    let scripts = touches.funded.iter().map(|funded| funded.scripthash);
    for scripthash in scripts.chain(touches.spent.iter().map(|spent| spent.scripthash)) {
        filters.scripts.add(keyer.script(&ScriptHash(scripthash)).prefix);
    }
}
