//! The packs and deltas that snapshots read, and the slots that are free.
//!
//! A slot whose pack or delta is no longer in the manifest is *retired*: its tables are emptied when no snapshot reads
//! them any more, and the slot is free again. One whose pack was loaded and not published is *abandoned* until the next
//! publish, and retired then.
//!
//! Emptying a slot removes its files and deletes no rows. If no slot is free, the last delta goes on growing and no
//! merge begins.

use std::sync::{Arc, Weak};

use birdhouse_store::Table;

use crate::rows::{DELTA_SLOTS, Delta, Filters, PACK_SLOTS, Pack, long, recent, recent_txnum, script, txnum};
use crate::state::manifest::{Early, Manifest};

/// The packs and deltas of one manifest, the oldest first. While it is held, their tables keep their rows.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) packs: Vec<Pack>,
    pub(crate) deltas: Vec<Delta>,
    filters: Vec<(Slot, Arc<Filters>)>,
}

/// Every [`Tables`] that is held, and the retired slots.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    held: Vec<Weak<Tables>>,
    retired: Vec<Slot>,
    /// Slots with rows of a pack whose publish failed.
    abandoned: Vec<Slot>,
    /// Filters of the keys in a slot. A slot without filters may contain any key.
    filters: Vec<(Slot, Arc<Filters>)>,
}

/// A slot of a pack or of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    Pack(u8),
    Delta(u8),
}

impl Slot {
    /// True if the manifest names the pack or delta in the slot.
    pub(super) fn is_named(self, manifest: &Manifest) -> bool {
        let is_early = manifest.early.is_some_and(|early| self.is_of(&early));
        is_early
            || match self {
                Self::Pack(slot) => manifest.packs.iter().any(|pack| pack.slot == slot),
                Self::Delta(slot) => manifest.deltas.iter().any(|delta| delta.slot == slot),
            }
    }

    /// The slots of early rows.
    pub(crate) fn of_early(early: &Early) -> [Self; 2] {
        [Self::Pack(early.pack.slot), Self::Delta(early.delta)]
    }

    fn is_of(self, early: &Early) -> bool {
        Self::of_early(early).contains(&self)
    }

    /// The tables of the slot.
    pub(crate) fn tables(self) -> Vec<Table> {
        match self {
            Self::Pack(slot) => {
                [&script::TABLES, &txnum::TABLES, &long::TABLES].map(|tables| tables[usize::from(slot)]).to_vec()
            }
            Self::Delta(slot) => {
                [&recent::TABLES, &recent_txnum::TABLES].map(|tables| tables[usize::from(slot)]).to_vec()
            }
        }
    }
}

impl Tables {
    /// The tables of a manifest, without filters.
    pub(crate) fn unfiltered(manifest: &Manifest) -> Self {
        Self { packs: manifest.packs.clone(), deltas: manifest.deltas.clone(), filters: Vec::new() }
    }

    /// The same tables with filters of what is in slots.
    pub(crate) fn with_filters(self, filters: Vec<(Slot, Arc<Filters>)>) -> Self {
        Self { filters, ..self }
    }

    /// The number of packs and deltas whose filters have every key.
    pub(crate) fn filtered(&self) -> usize {
        self.filters.iter().filter(|(_, filters)| filters.is_whole()).count()
    }

    /// False only if the script of this prefix has no row in the slot.
    pub(crate) fn may_have_script(&self, slot: Slot, prefix: u64) -> bool {
        self.filters_of(slot).is_none_or(|filters| !filters.is_whole() || filters.scripts.may_have(prefix))
    }

    /// False only if no txid with this hash, as packs keep it, has a row in the slot.
    pub(crate) fn may_have_txid(&self, slot: Slot, kept: u64) -> bool {
        self.filters_of(slot).is_none_or(|filters| !filters.is_whole() || filters.txids.may_have(kept))
    }

    pub(super) fn filters_of(&self, slot: Slot) -> Option<&Filters> {
        in_slot(&self.filters, slot).map(|filters| &**filters)
    }

    fn holds(&self, slot: Slot) -> bool {
        match slot {
            Slot::Pack(number) => self.packs.iter().any(|pack| pack.slot == number),
            Slot::Delta(number) => self.deltas.iter().any(|delta| delta.slot == number),
        }
    }
}

fn in_slot(filters: &[(Slot, Arc<Filters>)], slot: Slot) -> Option<&Arc<Filters>> {
    filters.iter().find(|(other, _)| *other == slot).map(|(_, filters)| filters)
}

impl Slots {
    /// Every slot.
    pub(super) fn all() -> impl Iterator<Item = Slot> {
        let packs = (0..PACK_SLOTS).map(|slot| Slot::Pack(u8::try_from(slot).expect("few slots")));
        packs.chain((0..DELTA_SLOTS).map(|slot| Slot::Delta(u8::try_from(slot).expect("few slots"))))
    }

    /// Returns the tables of a manifest, to be held by its snapshots.
    pub(crate) fn tables(&mut self, manifest: &Manifest) -> Arc<Tables> {
        let same = |tables: &Arc<Tables>| tables.packs == manifest.packs && tables.deltas == manifest.deltas;
        if let Some(held) = self.held.iter().filter_map(Weak::upgrade).find(same) {
            return held;
        }
        let filters = self.filters.iter().filter(|(slot, _)| slot.is_named(manifest)).cloned().collect();
        let tables = Arc::new(Tables { filters, ..Tables::unfiltered(manifest) });
        self.held.retain(|held| held.strong_count() > 0);
        self.held.push(Arc::downgrade(&tables));
        tables
    }

    /// Sets the filters of what is in a slot, before [`Self::tables`] gives it to readers.
    pub(crate) fn set_filters(&mut self, slot: Slot, filters: Arc<Filters>) {
        self.filters.retain(|(other, _)| *other != slot);
        self.filters.push((slot, filters));
    }

    /// The filters of what is in a slot, created for a new delta.
    pub(crate) fn filters(&mut self, slot: Slot, create: impl FnOnce() -> Filters) -> Arc<Filters> {
        if let Some(filters) = self.filters_of(slot) {
            return Arc::clone(filters);
        }
        let filters = Arc::new(create());
        self.filters.push((slot, Arc::clone(&filters)));
        filters
    }

    /// The filters of what is in a slot, if it has any.
    pub(crate) fn filters_of(&self, slot: Slot) -> Option<&Arc<Filters>> {
        in_slot(&self.filters, slot)
    }

    /// Notes that the manifest no longer names these slots.
    pub(crate) fn retire(&mut self, slots: impl IntoIterator<Item = Slot>) {
        for slot in slots {
            self.retired.push(slot);
            self.filters.retain(|(other, _)| *other != slot);
        }
    }

    /// Notes that a slot has rows of a pack whose publish failed. The manifest on the disk may name it all the same.
    pub(crate) fn abandon(&mut self, slot: Slot) {
        self.abandoned.push(slot);
    }

    pub(crate) fn has_abandoned(&self) -> bool {
        !self.abandoned.is_empty()
    }

    /// Retires the abandoned slots, once a later publish has shown that the manifest names none of them.
    pub(crate) fn retire_abandoned(&mut self) {
        let abandoned = std::mem::take(&mut self.abandoned);
        self.retire(abandoned);
    }

    /// Takes the retired slots that no snapshot reads: the caller empties their tables, and they are free.
    pub(crate) fn take_unread(&mut self) -> Vec<Slot> {
        let held: Vec<_> = self.held.iter().filter_map(Weak::upgrade).collect();
        let is_read = |slot: &Slot| held.iter().any(|tables| tables.holds(*slot));
        let (read, unread) = self.retired.drain(..).partition(is_read);
        self.retired = read;
        unread
    }

    /// The slots that hold nothing that a manifest names or a snapshot reads. Retired ones that nobody reads any more
    /// are among them.
    pub(crate) fn take_empty(&mut self, manifest: &Manifest) -> Vec<Slot> {
        drop(self.take_unread());
        self.free(manifest).collect()
    }

    /// The lowest free slot for a pack.
    pub(crate) fn free_pack(&self, manifest: &Manifest) -> Option<u8> {
        self.free(manifest).find_map(|slot| if let Slot::Pack(number) = slot { Some(number) } else { None })
    }

    /// The lowest free slot for a delta.
    pub(crate) fn free_delta(&self, manifest: &Manifest) -> Option<u8> {
        self.free(manifest).find_map(|slot| if let Slot::Delta(number) = slot { Some(number) } else { None })
    }

    fn free<'a>(&'a self, manifest: &'a Manifest) -> impl Iterator<Item = Slot> + 'a {
        let is_taken = |slot: &Slot| self.retired.contains(slot) || self.abandoned.contains(slot);
        Self::all().filter(move |slot| !slot.is_named(manifest) && !is_taken(slot))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use bitcoin::hashes::Hash as _;

    use super::*;
    use crate::names::{Profile, Secret, TxNum};

    #[test]
    fn a_retired_slot_is_free_once_no_snapshot_reads_it() {
        let mut manifest = Manifest::new(Profile::Full, Secret([0; 16]), bitcoin::BlockHash::all_zeros());
        let mut slots = Slots::default();
        manifest.deltas = vec![Delta { slot: 0, start: TxNum(0) }];
        let old = slots.tables(&manifest);
        assert!(Arc::ptr_eq(&old, &slots.tables(&manifest)), "one manifest has one set of tables");
        manifest.deltas = vec![Delta { slot: slots.free_delta(&manifest).unwrap(), start: TxNum(9) }];
        assert_eq!(manifest.deltas[0].slot, 1);
        slots.retire([Slot::Delta(0)]);
        let _new = slots.tables(&manifest);
        assert_eq!(slots.take_unread(), []);
        assert_eq!(slots.free_delta(&manifest), Some(2), "slot 0 is still read");
        drop(old);
        assert_eq!(slots.take_unread(), [Slot::Delta(0)]);
        assert_eq!(slots.free_delta(&manifest), Some(0));
        assert_eq!(slots.free_pack(&manifest), Some(0));
    }
}
