//! The events of a relay: stores and finds them.
//!
//! One writer, any number of readers, and one compaction run at the same time. The writer appends accepted events to
//! the log, installs them for readers, and publishes the manifest, in this order: readers need not wait for the disk,
//! and a client gets its `OK` only after the publish. A full memtable is flushed into a segment. Longer work is left to
//! [`Events::compact`], which runs beside readers and the writer: it merges segments, and adds posting lists that an
//! older index lacks.
//!
//! Readers hold no lock while they read. An installed version is a few pointers, and the space of a replaced segment is
//! given back when its last reader drops it.

mod admission;

mod compact;
mod expire;
mod follow;
mod reclaim;
mod reopen;
mod retain;
mod search;
mod vanish;

use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use birdhouse_store::{Batch, Replica, Store};
use parking_lot::{Mutex, RwLock};

use crate::error::{Error, Result};
use crate::event::{Accepted, EventId, Position, RelayUrl, Seq, Vanish, VerifiedEvent};
use crate::events::admission::{Admission, Decision};
use crate::log;
use crate::log::reclaim::state::Upkeep;
use crate::log::{Expiration, Log, MovedUnits, Packed, Tombstone, TombstoneArray, Tombstones};
use crate::options::EventsOptions;
use crate::postings::{Memtable, OpenSegment, PostingIndex, SegmentArrays, SegmentOffsets};
use crate::query::{Explanation, Query, lookup, scan};
use crate::search::SearchIndex;
use crate::state::{Manifest, Reader, Version};

/// Events that one piece of a vanish request deletes: some milliseconds of work.
const VANISHED_TOGETHER: usize = 50_000;

/// Store of a relay's events. Methods take `&self`, and any number of threads may call them.
pub struct Events {
    store: Arc<dyn Store>,
    index: PostingIndex,
    log: Arc<Log>,
    arrays: SegmentArrays,
    tombstone_array: TombstoneArray,
    search: SearchIndex,
    options: EventsOptions,
    installed: RwLock<Version>,
    /// `None` from a failed write to [`Events::reopen`]. The guard's holder is the writer.
    writer: Mutex<Option<Writer>>,
    /// That failure.
    failure: Mutex<Option<Failure>>,
    /// Segments that the manifest no longer lists, and that readers may still use.
    retired: Mutex<Vec<Arc<OpenSegment>>>,
    /// Kept by the first manifest.
    secret: [u8; 16],
    /// Held by the running compaction.
    upkeep: Mutex<Upkeep>,
    /// The published states that are read, where another process writes the events.
    followed: Option<Followed>,
    is_remote: bool,
    /// Nothing expires before this time, in seconds since 1970: a scan need not pass over rows that were deleted.
    expiring_from: AtomicU32,
}

/// State of the writer.
struct Writer {
    /// The published manifest, with the changes of the batch in progress.
    manifest: Manifest,
    /// Offsets at which the next segment starts.
    segments_end: SegmentOffsets,
    /// Vanish requests of the memtable whose events are not all deleted yet.
    vanishing: VecDeque<(Seq, Vanish)>,
}

/// A failed write.
struct Failure {
    reason: String,
    /// Queries find the events below, as far as callers were told.
    end: Seq,
}

/// Source of events that another process writes.
struct Followed {
    replica: Arc<dyn Replica>,
    progress: Mutex<Progress>,
}

/// Progress of following.
struct Progress {
    /// That of the installed version.
    manifest: Manifest,
    /// Events from this number on were not passed on yet.
    passed_on: Seq,
}

// === impl Events ===

impl Events {
    /// Opens the events of a store. An empty store keeps `secret` and names its posting lists by hashes under it.
    pub fn open(store: Arc<dyn Store>, secret: [u8; 16], options: EventsOptions) -> Result<Self> {
        let is_remote = store.is_remote();
        let manifest = match store.manifest()? {
            Some(bytes) => Manifest::decode(&bytes)?,
            None => Manifest::new(secret, options.unit_bits),
        };
        let index = PostingIndex::new(&manifest.secret, options.indexed_letters());
        let log = Arc::new(Log::open(&*store, manifest.log)?);
        let arrays = SegmentArrays::open(&*store, manifest.segments_end())?;
        arrays.sweep(&manifest.segments, manifest.segments_end())?;
        let tombstone_array = TombstoneArray::open(&*store, manifest.tombstones)?;
        let segments = arrays.segments(&manifest.segments)?;
        let moved = Arc::new(log.moved.load(manifest.unit_bits, manifest.moved, &MovedUnits::default())?);
        log.sweep(&moved)?;
        log.moved.discard_entries_before(manifest.moved)?;
        tombstone_array.discard_before(manifest.tombstones)?;
        let memtable = Arc::new(RwLock::new(Memtable::new(manifest.memtable_first)));
        let mut tombstones = tombstone_array.load(manifest.tombstones)?;
        moved.visit_gone(|seq| tombstones.add(seq));
        // Arrays that were cut take no records before.
        store.publish(&manifest.encode())?;
        let installed = RwLock::new(Version {
            state: None,
            log: Arc::clone(&log),
            memtable,
            segments,
            tombstones,
            moved,
            end: Seq(manifest.log.seq),
        });
        let secret = manifest.secret;
        let writer = Writer { segments_end: manifest.segments_end(), manifest, vanishing: VecDeque::new() };
        let events = Self {
            store,
            index,
            log,
            arrays,
            tombstone_array,
            search: SearchIndex::new(options.search.clone(), options.unindexed_events_max),
            options,
            installed,
            writer: Mutex::new(Some(writer)),
            failure: Mutex::new(None),
            retired: Mutex::new(Vec::new()),
            secret,
            upkeep: Mutex::default(),
            followed: None,
            is_remote,
            expiring_from: AtomicU32::new(0),
        };
        events.change(|writer| events.replay(writer))?;
        Ok(events)
    }

    /// Fills the memtable from the log. Flushes it whenever it is full: the options may ask for a smaller one than
    /// those under which the log was written. Vanish requests are carried out again, because a crash may have come
    /// between the request and the last of its events.
    fn replay(&self, writer: &mut Writer) -> Result<()> {
        let seqs = writer.manifest.memtable_first..Seq(writer.manifest.log.seq);
        self.installed().log().visit_events(seqs, &mut |seq, event| {
            self.installed().memtable.write().push(&event, &self.index);
            writer.vanishing.extend(Vanish::of(&event, &self.options.urls).map(|vanish| (seq, vanish)));
            self.flush_if_full(writer)
        })?;
        self.finish_vanishing(writer)
    }

    /// Returns the number that the next event will get.
    pub fn end(&self) -> Seq {
        self.installed().end
    }

    /// Returns the public URLs of the relay.
    pub fn urls(&self) -> &[RelayUrl] {
        &self.options.urls
    }

    /// Returns the number of events that queries can find.
    pub fn live_events(&self) -> u64 {
        let version = self.installed();
        version.end.0 - version.tombstones.count()
    }

    /// Returns the approximate memory of the postings that are in no segment yet, in bytes.
    pub fn memtable_bytes(&self) -> usize {
        self.installed().memtable.read().bytes()
    }

    // === writing ===

    /// Accepts events in their order, all or none. They are durable when it returns.
    ///
    /// # Errors
    /// After an error, all writes fail until [`reopen`](Self::reopen): memory may differ from the disk.
    pub fn accept(&self, events: &[&VerifiedEvent]) -> Result<Vec<Accepted>> {
        self.accept_and_notify(events, |_| {})
    }

    /// Accepts events in their order, all or none. They are durable when it returns. Calls `notify` earlier, as soon as
    /// queries can find the events.
    ///
    /// # Errors
    /// As for [`accept`](Self::accept). Queries no longer find the events that `notify` received, and other events may
    /// get their numbers.
    pub fn accept_and_notify(
        &self,
        events: &[&VerifiedEvent],
        notify: impl FnOnce(&[Accepted]),
    ) -> Result<Vec<Accepted>> {
        self.accept_metered(events, |_| {}, notify)
    }

    /// Accepts events as [`accept_and_notify`](Self::accept_and_notify) does. Calls `decided` after the work on each
    /// event, with its index, so that a caller with a clock can charge its sender.
    ///
    /// # Errors
    /// As for [`accept_and_notify`](Self::accept_and_notify).
    pub fn accept_metered(
        &self,
        events: &[&VerifiedEvent],
        decided: impl FnMut(usize),
        notify: impl FnOnce(&[Accepted]),
    ) -> Result<Vec<Accepted>> {
        self.change(|writer| self.write(writer, events, decided, notify))
    }

    /// Changes the published state. After an error, every further change fails.
    fn change<T>(&self, change: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        let mut slot = self.writer.lock();
        let mut writer = slot.take().ok_or_else(|| self.refusal())?;
        let changed = change(&mut writer).inspect_err(|error| {
            *self.failure.lock() = Some(Failure { reason: error.to_string(), end: self.end() });
        })?;
        *slot = Some(writer);
        Ok(changed)
    }

    /// The error of a change while there is no writer.
    fn refusal(&self) -> Error {
        if self.followed.is_some() { Error::Followed } else { Error::Failed }
    }

    fn write(
        &self,
        writer: &mut Writer,
        events: &[&VerifiedEvent],
        mut decided: impl FnMut(usize),
        notify: impl FnOnce(&[Accepted]),
    ) -> Result<Vec<Accepted>> {
        let mut outcomes = Vec::with_capacity(events.len());
        let (before, mut superseded, mut schedule) = (writer.manifest.log, HashSet::new(), Batch::new());
        let (version, mut vanish_left) = (self.installed(), VANISHED_TOGETHER);
        if self.is_remote {
            let admission = Admission { reader: self.reader(&version, Seq(u64::MAX)), urls: &self.options.urls };
            admission.prefetch(events.iter().map(|event| event.event()))?;
        }
        for (index, event) in events.iter().enumerate() {
            let reader = Reader { superseded: Some(&superseded), ..self.reader(&version, Seq(u64::MAX)) };
            outcomes.push(match (Admission { reader, urls: &self.options.urls }).decide(event)? {
                Decision::Refuse(outcome) => outcome,
                Decision::Store { replaces, vanish } => {
                    writer.manifest.log = self.log.append(writer.manifest.log, event)?;
                    let by = version.memtable.write().push(event, &self.index);
                    let at = log::expiration(event);
                    if at != 0 {
                        self.schedule(&mut schedule, Expiration { at, seq: by });
                    }
                    self.bury(&mut writer.manifest, &replaces, by)?;
                    superseded.extend(replaces);
                    if let Some(vanish) = vanish {
                        // The events behind the request must not meet what it deletes.
                        writer.vanishing.push_back((by, vanish));
                        self.vanish_some(writer, &version, &mut superseded, &mut vanish_left)?;
                    }
                    Accepted::Stored(by)
                }
            });
            decided(index);
        }
        if writer.manifest.log == before {
            notify(&outcomes);
            return Ok(outcomes);
        }
        if !schedule.is_empty() {
            self.store.write(schedule)?;
        }
        self.vanish_some(writer, &version, &mut superseded, &mut vanish_left)?;
        self.install(Seq(writer.manifest.log.seq), |tombstones| superseded.iter().for_each(|seq| tombstones.add(*seq)));
        notify(&outcomes);
        if let Err(error) = self.store.publish(&writer.manifest.encode()) {
            self.install(Seq(before.seq), |tombstones| superseded.iter().for_each(|seq| tombstones.remove(*seq)));
            return Err(error.into());
        }
        self.flush_if_full(writer)?;
        Ok(outcomes)
    }

    /// Writes tombstones of events that the event `by` replaces or deletes.
    fn bury(&self, manifest: &mut Manifest, replaced: &[Seq], by: Seq) -> Result<()> {
        let tombstones: Vec<Tombstone> = replaced.iter().map(|of| Tombstone { of: *of, by }).collect();
        manifest.tombstones = self.tombstone_array.append(manifest.tombstones, &tombstones)?;
        Ok(())
    }

    /// Installs a version with the events below `end` and changed tombstones.
    fn install(&self, end: Seq, change: impl FnOnce(&mut Tombstones)) {
        let mut installed = self.installed.write();
        change(&mut installed.tombstones);
        installed.end = end;
    }

    // === reading ===

    /// Visits the next `rows` events of a query in NIP-01's order: newest first; of equal times, lowest id first.
    /// `Break` ends the page early. Returns the position after which the next page starts, or `None` at the end.
    pub fn page(
        &self,
        query: Query<'_>,
        from: Option<Position>,
        rows: usize,
        visit: &mut dyn FnMut(Seq, Packed<'_>) -> ControlFlow<()>,
    ) -> Result<Option<Position>> {
        let version = self.installed();
        scan::page(self.reader(&version, query.end.min(version.end)), query, from, rows, visit)
    }

    /// Visits these events in their order until `Break`, without those that were deleted meanwhile.
    pub fn visit(&self, seqs: &[Seq], visit: &mut dyn FnMut(Seq, Packed<'_>) -> ControlFlow<()>) -> Result<()> {
        let version = self.installed();
        let log = version.log();
        let seqs: Vec<Seq> = seqs.iter().copied().filter(|seq| !version.tombstones.contains(*seq)).collect();
        let heads = log.heads(seqs.iter().copied())?;
        let events: Vec<_> = seqs.iter().copied().zip(heads).collect();
        log.visit_many(&events, &mut |index, packed| visit(seqs[index], packed))
    }

    /// Returns the plan of a query, and the cost of its first `rows` rows.
    pub fn explain(&self, query: Query<'_>, rows: usize) -> Result<Explanation> {
        let version = self.installed();
        scan::explain(self.reader(&version, query.end.min(version.end)), query, rows)
    }

    /// Returns true if an event of this id can be found.
    pub fn has(&self, id: &EventId) -> Result<bool> {
        let version = self.installed();
        Ok(lookup::find(self.reader(&version, version.end), id)?.is_some())
    }

    fn reader<'a>(&'a self, version: &'a Version, end: Seq) -> Reader<'a> {
        version.reader(&self.index, end)
    }

    fn installed(&self) -> Version {
        self.installed.read().clone()
    }
}
