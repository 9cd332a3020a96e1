//! The log: every accepted event, numbered, once.
//!
//! ```text
//! array `event`  at seq: id[32] | offset u64 LE | bytes u32 LE | expiration u32 LE (0: none)     48 bytes
//! array `body`   at offset: the event without its id, packed (see `packed`)
//! ```
//!
//! Invariant: bytes below the published lengths are never rewritten, so readers can borrow them.

use std::ops::ControlFlow;
use std::sync::Arc;

use birdhouse_store::{Array, ArraySpec, Store};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Error, Result};
use crate::event::{Event, EventId, Pubkey};
use crate::packed::{self, FIXED_BYTES, Packed};
use crate::seq::Seq;

const EVENT: ArraySpec = ArraySpec { name: "event", record_bytes: size_of::<Head>() };
const BODY: ArraySpec = ArraySpec { name: "body", record_bytes: 1 };
const _: () = assert!(size_of::<Head>() == 48);

/// Fields of an event that are known without its body.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Head {
    pub(crate) id: [u8; 32],
    offset: U64,
    bytes: U32,
    expiration: U32,
}

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
}

// === impl Log ===

impl Log {
    /// Opens the log and truncates what was not published.
    pub(crate) fn open(store: &dyn Store, end: LogEnd) -> Result<Self> {
        let log = Self { events: store.array(EVENT)?, bodies: store.array(BODY)? };
        log.truncate(end)?;
        Ok(log)
    }

    /// Truncates what was not published.
    pub(crate) fn truncate(&self, end: LogEnd) -> Result<()> {
        self.events.truncate(end.seq)?;
        Ok(self.bodies.truncate(end.offset)?)
    }

    /// Appends an event and returns the new end of the log. The event counts once that end is published.
    pub(crate) fn append(&self, end: LogEnd, event: &Event) -> Result<LogEnd> {
        let mut body = Vec::new();
        packed::encode(event, &mut body);
        let bytes = u32::try_from(body.len()).expect("an event has a limit far below");
        let expiration = event.expiration().map_or(0, |at| at.to_u32().max(1));
        let id = event.id.0;
        let head = Head { id, offset: end.offset.into(), bytes: bytes.into(), expiration: expiration.into() };
        self.bodies.write(end.offset, &body)?;
        self.events.write(end.seq, head.as_bytes())?;
        Ok(LogEnd { seq: end.seq + 1, offset: end.offset + u64::from(bytes) })
    }

    /// Returns the heads of events, in the order of `seqs`.
    pub(crate) fn heads(&self, seqs: impl IntoIterator<Item = Seq>) -> Result<Vec<Head>> {
        let numbers: Vec<u64> = seqs.into_iter().map(|seq| seq.0).collect();
        let bytes = self.events.read_many(&numbers)?;
        Ok(<[Head]>::ref_from_bytes(&bytes).expect("arrays return whole records").to_vec())
    }

    /// Visits an event's packed form.
    pub(crate) fn visit<T>(&self, seq: Seq, head: &Head, visit: impl FnOnce(Packed<'_>) -> T) -> Result<T> {
        let (mut visit, mut seen) = (Some(visit), None);
        self.visit_many(&[(seq, *head)], &mut |_, packed| {
            seen = visit.take().map(|visit| visit(packed));
            ControlFlow::Break(())
        })?;
        seen.ok_or(Error::CorruptEvent(seq))
    }

    /// Visits the fixed part of an event's packed form. Its tags and content are not read, and must not be asked for.
    pub(crate) fn visit_fixed<T>(&self, seq: Seq, head: &Head, visit: impl FnOnce(Packed<'_>) -> T) -> Result<T> {
        self.visit(seq, &Head { bytes: head.bytes.get().min(FIXED_BYTES).into(), ..*head }, visit)
    }

    /// Returns the author of an event.
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method path has one lifetime, the closure any")]
    pub(crate) fn author(&self, seq: Seq) -> Result<Pubkey> {
        let head = self.heads([seq])?[0];
        self.visit_fixed(seq, &head, |packed| packed.pubkey())
    }

    /// Visits the packed forms of events, each with its index in `events`, until `Break`.
    pub(crate) fn visit_many(
        &self,
        events: &[(Seq, Head)],
        visit: &mut dyn FnMut(usize, Packed<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let runs: Vec<(u64, usize)> =
            events.iter().map(|(_, head)| (head.offset.get(), head.bytes.get() as usize)).collect();
        let (mut indices, mut damaged) = (0.., None);
        self.bodies.visit_runs(&runs, &mut |bytes| {
            let index = indices.next().expect("the range has no end");
            let (seq, head) = &events[index];
            let Some(packed) = Packed::parse(EventId(head.id), bytes) else {
                damaged = Some(*seq);
                return ControlFlow::Break(());
            };
            visit(index, packed)
        })?;
        damaged.map_or(Ok(()), |seq| Err(Error::CorruptEvent(seq)))
    }

    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method path has one lifetime, the closure any")]
    pub(crate) fn event(&self, seq: Seq) -> Result<Event> {
        let head = self.heads([seq])?[0];
        self.visit(seq, &head, |packed| packed.to_event())?.ok_or(Error::CorruptEvent(seq))
    }
}

impl Head {
    /// Returns true if the event has expired (NIP-40).
    pub(crate) fn is_expired(&self, now: u32) -> bool {
        let expiration = self.expiration.get();
        expiration != 0 && expiration <= now
    }
}
