//! One subscription: its blocks, what its client has received, and what is due. Pure: times are arguments.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use birdhouse_chain::Found;
use bitcoin::BlockHash;
use serde_json::value::RawValue;

use super::cursor::Cursor;
use super::notification;
use super::piece::PIECE_BLOCKS;
use super::registry::Permits;
use super::sent::Sent;
use super::shared_key::SharedKey;
use crate::protocol::SilentId;

/// Time from the response to the first notification. Sparrow drops what comes before another of its threads has read
/// the response, and then waits for ever. In a model of its reader on a loaded machine, 2 % were still dropped after
/// 20 ms, and none of 40 after 100 ms.
pub(crate) const FIRST_NOTIFICATION: Duration = Duration::from_millis(250);
/// Time from the end of a history to an empty notification that repeats it, for a reader that has dropped the first.
const REPETITION: Duration = Duration::from_secs(5);
/// Time without a notification after which the progress of a history is sent.
const PROGRESS: Duration = Duration::from_secs(5);

/// Progress of a history that is not over: 1 ends it.
const NEARLY: f64 = 0.9999;

/// A subscription as its request asks for it.
pub(crate) struct Entry {
    pub(crate) address: String,
    /// The response.
    pub(crate) object: Box<RawValue>,
    pub(crate) extent: Extent,
    /// The first block after the tip at the request, where a history that ends goes on.
    pub(crate) first_live: Cursor,
    pub(crate) key: Arc<SharedKey>,
    /// Those that an earlier subscription to this address does not hold.
    pub(crate) permits: Permits,
}

/// The blocks of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u32,
    /// Height after the last one, if the request says one; later blocks are those that come after the request.
    pub(crate) end: Option<u32>,
}

/// A subscription.
pub(super) struct Subscription {
    pub(super) id: SilentId,
    pub(super) entry: Entry,
    /// Set when the subscription ends, for threads that scan for it.
    cancelled: Arc<AtomicBool>,
    sent: Sent,
    pub(super) phase: Phase,
    /// The scan that ends its history is under way: updates may come that neither it nor the notifier scans.
    is_ending: bool,
    cursor: Cursor,
    /// Time of the last notification, or from which the first may be sent.
    notified: Instant,
    /// Time before which it is not scanned.
    pub(super) not_before: Option<Instant>,
    /// Rows that are scanned, as part of 1.
    progress: f64,
}

/// State of a subscription.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    /// Its response is not in the outbox yet.
    Admitted,
    /// Its response waits to be written.
    Settled,
    /// Its history is scanned.
    History,
    /// Its history is sent.
    Live(Live),
}

/// State of a subscription whose history is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Live {
    /// Transactions of the mempool with lower numbers were scanned.
    mempool_from: u64,
    /// Time at which the end of the history is repeated.
    pub(super) repeat_at: Option<Instant>,
}

/// A part of a scan that is to be done now.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) id: SilentId,
    pub(crate) key: Arc<SharedKey>,
    extent: Extent,
    first_live: Cursor,
    cursor: Cursor,
    /// Transactions of the mempool with lower numbers were scanned.
    pub(crate) mempool_from: u64,
    is_live: bool,
    cancelled: Arc<AtomicBool>,
}

/// Blocks of a history.
pub(crate) struct Shares {
    pub(crate) done: Range<u32>,
    pub(crate) all: Range<u32>,
}

/// Result of a part of a scan.
pub(crate) struct Progress {
    /// The blocks that are scanned now.
    pub(crate) cursor: Cursor,
    pub(crate) found: Vec<Found>,
    /// Rows of the history that are scanned, as part of 1.
    pub(crate) rows: f64,
}

/// Notifications for a client.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    pub(crate) notifications: Vec<Vec<u8>>,
    /// Transactions in them.
    pub(crate) transactions: usize,
}

/// Result of a scan up to a tip and its mempool.
pub(crate) struct CaughtUp {
    pub(crate) cursor: Cursor,
    pub(crate) found: Vec<Found>,
    /// Number of the next transaction that enters the mempool.
    pub(crate) mempool_from: u64,
}

impl Extent {
    /// Returns the blocks of both histories: to subscribe again never narrows.
    pub(crate) fn joined(self, before: Option<Self>) -> Self {
        let Some(before) = before else { return self };
        Self { start: self.start.min(before.start), end: self.end.zip(before.end).map(|(a, b)| a.max(b)) }
    }
}

impl Subscription {
    pub(super) fn new(id: SilentId, entry: Entry, now: Instant) -> Self {
        Self {
            id,
            cursor: Cursor::new(entry.extent.start),
            entry,
            cancelled: Arc::default(),
            sent: Sent::default(),
            phase: Phase::Admitted,
            is_ending: false,
            notified: now,
            not_before: None,
            progress: 0.0,
        }
    }

    /// Takes note that the response is written.
    pub(super) fn written(&mut self, now: Instant) {
        self.phase = Phase::History;
        self.notified = now + FIRST_NOTIFICATION;
        self.not_before = Some(self.notified);
    }

    /// Takes note that the scan which ends its history begins.
    pub(super) fn ends(&mut self) {
        self.is_ending = self.phase == Phase::History;
    }

    /// Returns true while the scan that ends its history is under way.
    pub(super) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Scans for it at this time at the earliest; the scan under way has found nothing.
    pub(super) fn put_off(&mut self, until: Instant) {
        self.not_before = Some(until);
        self.is_ending = false;
    }

    /// Returns what to scan next.
    pub(super) fn job(&self) -> Job {
        Job {
            id: self.id,
            key: Arc::clone(&self.entry.key),
            extent: Extent {
                // Once it is live all blocks are new, also those that take the heights of older ones.
                end: self.entry.extent.end.filter(|_| self.phase == Phase::History),
                ..self.entry.extent
            },
            first_live: self.entry.first_live.clone(),
            cursor: self.cursor.clone(),
            mempool_from: if let Phase::Live(live) = self.phase { live.mempool_from } else { 0 },
            is_live: self.is_live(),
            cancelled: Arc::clone(&self.cancelled),
        }
    }

    /// Returns true if its history is sent.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live(_))
    }

    /// Returns the time at which something is due without a scan.
    pub(super) fn due_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Admitted | Phase::Settled => None,
            Phase::History => Some(self.notified + PROGRESS),
            Phase::Live(live) => live.repeat_at,
        }
    }

    /// Returns the notifications that are due without a scan.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Vec<u8>> {
        if self.due_at().is_none_or(|due| due > now) {
            return Vec::new();
        }
        self.notified = now;
        let progress = match &mut self.phase {
            Phase::Live(live) => {
                live.repeat_at = None;
                1.0
            }
            _ => self.progress,
        };
        notification::pages(&self.entry.object, &[], progress, progress)
    }

    /// Takes the result of a part of its history. Returns the notifications of what is new.
    pub(super) fn advance(&mut self, scanned: Progress, now: Instant) -> Sending {
        let Progress { cursor, found, rows } = scanned;
        self.cursor = cursor;
        // A reorg may set it back, and a client sees it as a bar.
        self.progress = self.progress.max(rows).min(NEARLY);
        let new = self.unsent(found);
        if new.is_empty() {
            return Sending::default();
        }
        self.notified = now;
        let progress = if self.is_live() { 1.0 } else { self.progress };
        self.sending(&new, progress, progress)
    }

    /// Takes the result of a scan up to the tip and its mempool, which ends the history. Returns the notifications of
    /// what is new; those that end a history are sent in any case.
    pub(super) fn catch_up(&mut self, scanned: CaughtUp, now: Instant) -> Sending {
        let CaughtUp { cursor, found, mempool_from } = scanned;
        self.cursor = cursor;
        let (was_live, new) = (self.is_live(), self.unsent(found));
        let repeat_at = match self.phase {
            Phase::Live(live) => live.repeat_at,
            _ => Some(now + REPETITION),
        };
        self.phase = Phase::Live(Live { mempool_from, repeat_at });
        self.is_ending = false;
        self.not_before = None;
        self.entry.permits.scan = None;
        if was_live && new.is_empty() {
            return Sending::default();
        }
        self.sending(&new, 1.0, if was_live { 1.0 } else { NEARLY })
    }

    /// Returns the notifications of these transactions, the last one with `progress` and the others with `before`.
    fn sending(&self, new: &[Found], progress: f64, before: f64) -> Sending {
        let notifications = notification::pages(&self.entry.object, new, progress, before);
        Sending { notifications, transactions: new.len() }
    }

    /// Returns those of the transactions that the client has not received.
    fn unsent(&mut self, found: Vec<Found>) -> Vec<Found> {
        found.into_iter().filter(|found| self.sent.is_new(found.txid, found.height)).collect()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl Job {
    /// Returns true once the subscription has ended.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Returns true if the history is sent.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    /// Returns the blocks to scan next, on a chain of `len` blocks with these hashes, where nothing is below `least`;
    /// `None` if all are scanned.
    pub(crate) fn blocks(
        &self,
        len: u32,
        least: u32,
        hash_at: impl Fn(u32) -> Option<BlockHash>,
    ) -> Option<Range<u32>> {
        let mut next = self.cursor.next_on(self.extent.start, &hash_at).max(least);
        let mut end = len;
        match self.extent.end {
            Some(range_end) if next < range_end => end = len.min(range_end),
            Some(range_end) => next = next.max(self.first_live.next_on(range_end, &hash_at)),
            None => {}
        }
        (next < end).then(|| next..end.min(next.saturating_add(PIECE_BLOCKS)))
    }

    /// Returns the blocks of the history, and those that are scanned once the block before `next` is, on a chain of
    /// `len` blocks; `None` if the history is sent.
    pub(crate) fn shares(&self, next: u32, len: u32, least: u32) -> Option<Shares> {
        let start = self.extent.start.max(least);
        let end = self.extent.end.unwrap_or(len).min(len).max(start);
        (!self.is_live).then(|| Shares { done: start..next.clamp(start, end), all: start..end })
    }
}
