//! The log: every accepted event, numbered, once.
//!
//! ```text
//! array `event`  at seq: id[32] | offset u64 LE | bytes u32 LE | expiration u32 LE (0: none)     48 bytes
//! array `body`   at offset: the event without its id, packed (see `packed`)
//! ```
//!
//! Invariant: what lies before the published lengths is never written again, so that it can be shown where it lies.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use birdhouse_store::{Array, ArraySpec, Store};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Error, Result};
use crate::event::{Event, EventId};
use crate::packed::{self, Packed};
use crate::posting::seconds;

const EVENT: ArraySpec = ArraySpec { name: "event", record_bytes: size_of::<Head>() };
const BODY: ArraySpec = ArraySpec { name: "body", record_bytes: 1 };
const _: () = assert!(size_of::<Head>() == 48);

/// An event's number in the log, by acceptance. Below 2^48.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

/// What is known of an event without its body.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Head {
    pub(crate) id: [u8; 32],
    offset: U64,
    bytes: U32,
    expiration: U32,
}

/// How long the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LogEnd {
    /// The next event's number.
    pub(crate) seq: u64,
    /// Where the next body comes.
    pub(crate) offset: u64,
}

/// The arrays of the log.
pub(crate) struct Log {
    events: Arc<dyn Array>,
    bodies: Arc<dyn Array>,
}

// === impl Log ===

impl Log {
    /// Opens the log and cuts what was not published.
    pub(crate) fn open(store: &dyn Store, end: LogEnd) -> Result<Self> {
        let log = Self { events: store.array(EVENT)?, bodies: store.array(BODY)? };
        log.events.truncate(end.seq)?;
        log.bodies.truncate(end.offset)?;
        Ok(log)
    }

    /// Writes an event at the end and says where the log ends then. It counts when that end is published.
    pub(crate) fn append(&self, end: LogEnd, event: &Event) -> Result<LogEnd> {
        let mut body = Vec::new();
        packed::encode(event, &mut body);
        let bytes = u32::try_from(body.len()).expect("an event has a bound far below");
        let expiration = event.expiration().map_or(0, |at| seconds(at).max(1));
        let id = event.id.0;
        let head = Head { id, offset: end.offset.into(), bytes: bytes.into(), expiration: expiration.into() };
        self.bodies.write(end.offset, &body)?;
        self.events.write(end.seq, head.as_bytes())?;
        Ok(LogEnd { seq: end.seq + 1, offset: end.offset + u64::from(bytes) })
    }

    /// The heads of events, in the order asked.
    pub(crate) fn heads(&self, seqs: impl IntoIterator<Item = Seq>) -> Result<Vec<Head>> {
        let numbers: Vec<u64> = seqs.into_iter().map(|seq| seq.0).collect();
        let bytes = self.events.read_many(&numbers)?;
        Ok(<[Head]>::ref_from_bytes(&bytes).expect("arrays give whole records").to_vec())
    }

    /// Shows an event's packed form.
    pub(crate) fn view<T>(&self, seq: Seq, head: &Head, view: impl FnOnce(Packed<'_>) -> T) -> Result<T> {
        let (mut view, mut seen) = (Some(view), None);
        self.view_many(&[(seq, *head)], &mut |_, packed| {
            seen = view.take().map(|view| view(packed));
            ControlFlow::Break(())
        })?;
        seen.ok_or(Error::CorruptEvent(seq))
    }

    /// Shows the packed forms of events, and which of them each is, until it is enough.
    pub(crate) fn view_many(
        &self,
        events: &[(Seq, Head)],
        view: &mut dyn FnMut(usize, Packed<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let runs: Vec<(u64, usize)> =
            events.iter().map(|(_, head)| (head.offset.get(), head.bytes.get() as usize)).collect();
        let (mut places, mut damaged) = (0.., None);
        self.bodies.view_runs(&runs, &mut |bytes| {
            let place = places.next().expect("there is no end of numbers");
            let (seq, head) = &events[place];
            let Some(packed) = Packed::parse(EventId(head.id), bytes) else {
                damaged = Some(*seq);
                return ControlFlow::Break(());
            };
            view(place, packed)
        })?;
        damaged.map_or(Ok(()), |seq| Err(Error::CorruptEvent(seq)))
    }

    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method alone is for one lifetime only")]
    pub(crate) fn event(&self, seq: Seq) -> Result<Event> {
        let head = self.heads([seq])?[0];
        self.view(seq, &head, |packed| packed.to_event())?.ok_or(Error::CorruptEvent(seq))
    }
}

impl Head {
    /// Whether it is not to be shown any more (NIP-40).
    pub(crate) fn is_expired(&self, now: u32) -> bool {
        let expiration = self.expiration.get();
        expiration != 0 && expiration <= now
    }
}

// === impl Seq ===

impl Seq {
    pub(crate) fn to_bytes(self) -> [u8; 6] {
        *self.0.to_le_bytes().first_chunk().expect("eight bytes are more than six")
    }

    pub(crate) fn from_bytes(bytes: [u8; 6]) -> Self {
        let mut whole = [0; 8];
        whole[..6].copy_from_slice(&bytes);
        Self(u64::from_le_bytes(whole))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
