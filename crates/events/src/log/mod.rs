//! The log: every accepted event, numbered, once.
//!
//! ```text
//! array `event`  at seq: id[32] | offset u64 LE | bytes u32 LE | expiration u32 LE (0: none)     48 bytes
//! array `body`   at offset: the event without its id, packed (see `packed`)
//! ```
//!
//! A unit of which many events are gone is moved (see `moved`). A [`LogReader`] finds each event where its version has
//! it.
//!
//! Invariant: bytes below the published lengths are never rewritten, so readers can borrow them.

pub(crate) mod expiry;
pub(crate) mod packed;
pub(crate) mod reclaim;
mod sorted;
mod tombstones;

mod head;
mod moved;

pub(crate) use self::expiry::Expiration;
pub(crate) use self::head::{HEAD_BYTES, Head};
pub(crate) use self::moved::{Location, MovedUnits};
pub use self::packed::Packed;
pub(crate) use self::packed::{FIXED_BYTES, encode};
pub(crate) use self::reclaim::{Move, Share};
pub(crate) use self::sorted::{FenceBuilder, STRIDE, Section, Sorted};
pub(crate) use self::tombstones::{Tombstone, TombstoneArray, Tombstones};

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use birdhouse_store::{Array, ArraySpec, Store};
use zerocopy::{FromBytes, IntoBytes};

use self::moved::MovedArrays;
use crate::error::{Error, Result};
use crate::event::{Event, EventId, Pubkey, Seq};

const EVENT: ArraySpec = ArraySpec { name: "event", record_bytes: HEAD_BYTES };
const BODY: ArraySpec = ArraySpec { name: "body", record_bytes: 1 };

/// Events that are read together in their order, and the bytes of them that are in memory at a time.
const READ_TOGETHER: u64 = 512;
const READ_BYTES: usize = 4 << 20;
/// Bytes of events that are asked for together; a single event may have more. Where they lie on another machine, all of
/// them are in memory.
const ASKED_BYTES: usize = 1 << 20;

/// Length of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LogEnd {
    /// Number of the next event.
    pub(crate) seq: u64,
    /// Offset of the next body.
    pub(crate) offset: u64,
}

/// Arrays of the log.
pub(crate) struct Log {
    events: Arc<dyn Array>,
    bodies: Arc<dyn Array>,
    pub(crate) moved: MovedArrays,
}

/// Read access to the events of one version.
#[derive(Clone, Copy)]
pub(crate) struct LogReader<'a> {
    log: &'a Log,
    moved: &'a MovedUnits,
}

// === impl Log ===

impl Log {
    /// Opens the log and truncates what was not published.
    pub(crate) fn open(store: &dyn Store, end: LogEnd) -> Result<Self> {
        let log = Self::of(store)?;
        log.truncate(end)?;
        Ok(log)
    }

    /// Opens the log as it is.
    pub(crate) fn of(store: &dyn Store) -> Result<Self> {
        Ok(Self { events: store.array(EVENT)?, bodies: store.array(BODY)?, moved: MovedArrays::open(store)? })
    }

    /// Truncates what was not published. Moved units are written behind all others, so nothing of them is in the way.
    pub(crate) fn truncate(&self, end: LogEnd) -> Result<()> {
        self.events.truncate(end.seq)?;
        Ok(self.bodies.truncate(end.offset)?)
    }

    /// Appends an event and returns the new end of the log. The event counts once that end is published.
    pub(crate) fn append(&self, end: LogEnd, event: &Event) -> Result<LogEnd> {
        let mut body = Vec::new();
        packed::encode(event, &mut body);
        let bytes = u32::try_from(body.len()).expect("an event has a limit far below");
        let head = Head::new(event.id.0, end.offset, bytes, expiration(event));
        self.bodies.write(end.offset, &body)?;
        self.events.write(end.seq, head.as_bytes())?;
        Ok(LogEnd { seq: end.seq + 1, offset: end.offset + u64::from(bytes) })
    }

    pub(crate) fn reader<'a>(&'a self, moved: &'a MovedUnits) -> LogReader<'a> {
        LogReader { log: self, moved }
    }

    /// Gives back the heads of a unit.
    pub(crate) fn discard_heads(&self, unit: u64, bits: u32) -> Result<()> {
        Ok(self.events.discard(unit << bits, 1 << bits)?)
    }

    /// Gives back bytes of `body`.
    pub(crate) fn discard_bodies(&self, range: &Range<u64>) -> Result<()> {
        Ok(self.bodies.discard(range.start, range.end - range.start)?)
    }

    /// Gives back whatever units took before they were moved, as a power cut may have come before that.
    pub(crate) fn sweep(&self, moved: &MovedUnits) -> Result<()> {
        let mut free: Option<Range<u64>> = None;
        for unit in moved.iter() {
            self.discard_heads(unit.entry().unit(), moved.bits())?;
            let bodies = unit.entry().former_bodies();
            match &mut free {
                Some(free) if free.end == bodies.start => free.end = bodies.end,
                _ => {
                    free.take().map_or(Ok(()), |free| self.discard_bodies(&free))?;
                    free = Some(bodies);
                }
            }
        }
        free.map_or(Ok(()), |free| self.discard_bodies(&free))?;
        self.moved.sweep(moved)
    }
}

/// Returns the time at which an event expires, as in its head.
pub(crate) fn expiration(event: &Event) -> u32 {
    event.expiration().map_or(0, |at| at.to_u32().max(1))
}

// === impl LogReader ===

impl<'a> LogReader<'a> {
    pub(crate) fn moved(self) -> &'a MovedUnits {
        self.moved
    }

    /// Returns the heads of events, in the order of `seqs`.
    ///
    /// # Errors
    /// [`Error::CorruptEvent`] for an event that is gone: the caller looks for its tombstone before.
    pub(crate) fn heads(self, seqs: impl IntoIterator<Item = Seq>) -> Result<Vec<Head>> {
        if self.moved.is_empty() {
            let numbers: Vec<u64> = seqs.into_iter().map(|seq| seq.0).collect();
            return self.unmoved_heads(&numbers);
        }
        let seqs = seqs.into_iter();
        let (count, _) = seqs.size_hint();
        let (mut runs, mut are_moved) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut numbers = Vec::new();
        for seq in seqs {
            let location = self.moved.locate(seq);
            are_moved.push(location != Location::Unmoved);
            match location {
                Location::Unmoved => numbers.push(seq.0),
                Location::Moved(at) => runs.push((at, HEAD_BYTES)),
                Location::Gone => return Err(Error::CorruptEvent(seq)),
            }
        }
        let mut unmoved = self.unmoved_heads(&numbers)?.into_iter();
        let mut heads = Vec::with_capacity(are_moved.len());
        self.log.moved.content.visit_runs(&runs, &mut |bytes| {
            while !are_moved[heads.len()] {
                heads.push(unmoved.next().expect("one was read for each"));
            }
            heads.push(Head::read_from_bytes(bytes).expect("a run of one head"));
            ControlFlow::Continue(())
        })?;
        heads.extend(unmoved);
        Ok(heads)
    }

    fn unmoved_heads(self, numbers: &[u64]) -> Result<Vec<Head>> {
        let bytes = self.log.events.read_many(numbers)?;
        Ok(<[Head]>::ref_from_bytes(&bytes).expect("arrays return whole records").to_vec())
    }

    /// Visits an event's packed form.
    pub(crate) fn visit<T>(self, seq: Seq, head: &Head, visit: impl FnOnce(Packed<'_>) -> T) -> Result<T> {
        let (mut visit, mut seen) = (Some(visit), None);
        self.visit_many(&[(seq, *head)], &mut |_, packed| {
            seen = visit.take().map(|visit| visit(packed));
            ControlFlow::Break(())
        })?;
        seen.ok_or(Error::CorruptEvent(seq))
    }

    /// Visits the fixed part of an event's packed form. Its tags and content are not read, and must not be asked for.
    pub(crate) fn visit_fixed<T>(self, seq: Seq, head: &Head, visit: impl FnOnce(Packed<'_>) -> T) -> Result<T> {
        self.visit(seq, &head.cut(FIXED_BYTES), visit)
    }

    /// Returns the author of an event.
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method path has one lifetime, the closure any")]
    pub(crate) fn author(self, seq: Seq) -> Result<Pubkey> {
        let head = self.heads([seq])?[0];
        self.visit_fixed(seq, &head, |packed| packed.pubkey())
    }

    /// Visits the packed forms of events, each with its index in `events`, until `Break`.
    pub(crate) fn visit_many(
        self,
        events: &[(Seq, Head)],
        visit: &mut dyn FnMut(usize, Packed<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut damaged = None;
        self.visit_bodies(events, &mut |index, bytes| {
            let (seq, head) = &events[index];
            let Some(packed) = Packed::parse(EventId(head.id), bytes) else {
                damaged = Some(*seq);
                return ControlFlow::Break(());
            };
            visit(index, packed)
        })?;
        damaged.map_or(Ok(()), |seq| Err(Error::CorruptEvent(seq)))
    }

    /// Visits the bytes of events, each with its index in `events`, until `Break`.
    fn visit_bodies(
        self,
        events: &[(Seq, Head)],
        visit: &mut dyn FnMut(usize, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let run = |(_, head): &(Seq, Head)| (head.offset(), head.bytes() as usize);
        let is_moved = |(seq, _): &(Seq, Head)| self.moved.has_unit_of(*seq);
        let (mut index, mut flow) = (0, ControlFlow::Continue(()));
        let mut bytes = 0;
        // Neighbours are mostly in one array.
        let are_together = |one: &(Seq, Head), other: &(Seq, Head)| {
            bytes += one.1.bytes() as usize;
            let is_full = bytes >= ASKED_BYTES;
            if is_full {
                bytes = 0;
            }
            !is_full && is_moved(one) == is_moved(other)
        };
        for some in events.chunk_by(are_together) {
            let runs: Vec<(u64, usize)> = some.iter().map(run).collect();
            let array = if is_moved(&some[0]) { &self.log.moved.content } else { &self.log.bodies };
            array.visit_runs(&runs, &mut |bytes| {
                flow = visit(index, bytes);
                index += 1;
                flow
            })?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Visits the events with these numbers in their order, without those that are gone. Reads many at a time.
    pub(crate) fn visit_events(self, seqs: Range<Seq>, visit: &mut dyn FnMut(Seq, Event) -> Result<()>) -> Result<()> {
        let mut first = seqs.start.0;
        while first < seqs.end.0 {
            let end = seqs.end.0.min(first + READ_TOGETHER);
            let there = (first..end).map(Seq).filter(|seq| self.moved.locate(*seq) != Location::Gone);
            let there: Vec<Seq> = there.collect();
            let heads = self.heads(there.iter().copied())?;
            let mut left: &[(Seq, Head)] = &there.into_iter().zip(heads).collect::<Vec<_>>();
            while !left.is_empty() {
                let mut bytes = 0;
                let is_within = |(_, head): &&(Seq, Head)| {
                    bytes += head.bytes() as usize;
                    bytes <= READ_BYTES
                };
                let (some, rest) = left.split_at(left.iter().take_while(is_within).count().max(1));
                for (seq, event) in self.some_events(some)? {
                    visit(seq, event)?;
                }
                left = rest;
            }
            first = end;
        }
        Ok(())
    }

    fn some_events(self, events: &[(Seq, Head)]) -> Result<Vec<(Seq, Event)>> {
        let (mut read, mut damaged) = (Vec::with_capacity(events.len()), None);
        self.visit_many(events, &mut |index, packed| {
            let (seq, _) = events[index];
            let Some(event) = packed.to_event() else {
                damaged = Some(seq);
                return ControlFlow::Break(());
            };
            read.push((seq, event));
            ControlFlow::Continue(())
        })?;
        damaged.map_or(Ok(read), |seq| Err(Error::CorruptEvent(seq)))
    }

    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method path has one lifetime, the closure any")]
    pub(crate) fn event(self, seq: Seq) -> Result<Event> {
        let head = self.heads([seq])?[0];
        self.visit(seq, &head, |packed| packed.to_event())?.ok_or(Error::CorruptEvent(seq))
    }
}
