//! Events that another process writes: opened at one of its published states, and moved to later ones.
//!
//! A version reads one published state, whatever is published meanwhile. What two states share is not read twice:
//! fences of segments, bitmaps of moved units, tombstones, and the memtable, whose events come from the log.
//!
//! New events are passed on after queries can find them, in the order of the log.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use birdhouse_store::{MemoryStore, Replica, Store};
use parking_lot::{Mutex, RwLock};

use super::{Events, Followed, Progress};
use crate::error::{Error, Result};
use crate::event::{Event, Seq};
use crate::log::{Log, LogEnd, MovedUnits, Section, TombstoneArray, Tombstones};
use crate::options::EventsOptions;
use crate::postings::{Memtable, OpenSegment, PostingIndex, SegmentArrays, SegmentOffsets};
use crate::search::SearchIndex;
use crate::state::{Manifest, Version};

impl Events {
    /// Returns true where a read waits for another machine.
    pub fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// Opens the newest published state of events that another process writes, for reading.
    /// [`adopt_newest`](Self::adopt_newest) moves them to later states. Returns `None` if nothing was published yet.
    ///
    /// # Errors
    /// Those of reading the state.
    pub fn open_published(replica: Arc<dyn Replica>, options: EventsOptions) -> Result<Option<Self>> {
        let Some(state) = &replica.newest()? else { return Ok(None) };
        let Some(manifest) = state.manifest()? else { return Ok(None) };
        let manifest = Manifest::decode(&manifest)?;
        let index = PostingIndex::new(&manifest.secret, options.indexed_letters());
        let version = version_at(state, &manifest, None, &index)?;
        // Nothing is written, so the arrays of the writer are those of an empty store. Whoever keeps a published state
        // for ever keeps all of its space.
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        Ok(Some(Self {
            log: Arc::new(Log::open(&*store, LogEnd::default())?),
            arrays: SegmentArrays::open(&*store, SegmentOffsets::default())?,
            tombstone_array: TombstoneArray::open(&*store, Section::default())?,
            store,
            index,
            search: SearchIndex::new(options.search.clone(), options.unindexed_events_max),
            options,
            secret: manifest.secret,
            installed: RwLock::new(version.clone()),
            writer: Mutex::new(None),
            failure: Mutex::new(None),
            retired: Mutex::new(Vec::new()),
            upkeep: Mutex::default(),
            followed: Some(Followed { replica, progress: Mutex::new(Progress { passed_on: version.end, manifest }) }),
            is_remote: state.is_remote(),
            expiring_from: AtomicU32::new(0),
        }))
    }

    /// Moves to the newest published state. Then passes the events that are new in it to `notify`, in their order,
    /// without those whose space was given back meanwhile.
    ///
    /// # Errors
    /// Those of reading the state. The next call goes on where this one ended: every event is passed on once.
    /// [`Error::Replaced`] if the state is of other events.
    pub fn adopt_newest(&self, notify: &mut dyn FnMut(Seq, Event)) -> Result<()> {
        let Some(Followed { replica, progress }) = &self.followed else { return Ok(()) };
        let mut progress = progress.lock();
        let Some(state) = &replica.newest()? else { return Ok(()) };
        let mut version = self.installed();
        // A state with the same manifest is another one: the one before expires.
        if version.state.as_ref().is_none_or(|before| !Arc::ptr_eq(before, state)) {
            let Some(manifest) = state.manifest()? else { return Ok(()) };
            let manifest = Manifest::decode(&manifest)?;
            if manifest.secret != self.secret || Seq(manifest.log.seq) < version.end {
                return Err(Error::Replaced);
            }
            version = version_at(state, &manifest, Some((&progress.manifest, &version)), &self.index)?;
            *self.installed.write() = version.clone();
            progress.manifest = manifest;
        }
        let new = progress.passed_on..version.end;
        version.log().visit_events(new, &mut |seq, event| {
            notify(seq, event);
            progress.passed_on = Seq(seq.0 + 1);
            Ok(())
        })?;
        progress.passed_on = version.end;
        Ok(())
    }
}

/// Returns the version that a published state names, given an earlier one of the same events. Nothing that readers of
/// the earlier one see changes before everything has been read, but for events at the end of the memtable, which they
/// do not see.
fn version_at(
    state: &Arc<dyn Store>,
    manifest: &Manifest,
    known: Option<(&Manifest, &Version)>,
    index: &PostingIndex,
) -> Result<Version> {
    let (log, arrays) = (Arc::new(Log::of(&**state)?), SegmentArrays::of(&**state)?);
    let moved = match known {
        Some((before, version)) if before.moved == manifest.moved => Arc::clone(&version.moved),
        _ => {
            let nothing = Arc::new(MovedUnits::default());
            let known = known.map_or(&nothing, |(_, version)| &version.moved);
            Arc::new(log.moved.load(manifest.unit_bits, manifest.moved, known)?)
        }
    };
    let segments = manifest.segments.iter().map(|segment| {
        let is_same = |open: &&Arc<OpenSegment>| open.segment == *segment;
        match known.and_then(|(_, version)| version.segments.iter().find(is_same)) {
            Some(open) => Ok(Arc::new(arrays.reopened(open))),
            None => Ok(Arc::new(arrays.segment(*segment)?)),
        }
    });
    let segments = segments.collect::<Result<_>>()?;
    let memtable = match known {
        Some((before, version)) if before.memtable_first == manifest.memtable_first => Arc::clone(&version.memtable),
        _ => Arc::new(RwLock::new(Memtable::new(manifest.memtable_first))),
    };
    let end = Seq(manifest.log.seq);
    let missing = memtable.read().end()..end;
    log.reader(&moved).visit_events(missing, &mut |_, event| {
        memtable.write().push(&event, index);
        Ok(())
    })?;
    let tombstones = tombstones_at(&**state, manifest, known, &moved)?;
    Ok(Version { state: Some(Arc::clone(state)), log, memtable, segments, tombstones, moved, end })
}

/// Returns the tombstones of a state. Those of an earlier state are not read again, unless they were all written anew.
fn tombstones_at(
    state: &dyn Store,
    manifest: &Manifest,
    known: Option<(&Manifest, &Version)>,
    moved: &MovedUnits,
) -> Result<Tombstones> {
    let (array, all) = (TombstoneArray::of(state)?, manifest.tombstones);
    if let Some((before, version)) = known
        && before.tombstones.first == all.first
        && before.tombstones.count <= all.count
    {
        let seen = before.tombstones.count;
        let new = array.filtered(Section { first: all.first + seen, count: all.count - seen }, &|_| true)?;
        let mut tombstones = version.tombstones.clone();
        for tombstone in new {
            tombstones.add(tombstone.of);
        }
        return Ok(tombstones);
    }
    let mut tombstones = array.load(all)?;
    moved.visit_gone(|seq| tombstones.add(seq));
    Ok(tombstones)
}
