//! Every bound of the relay, by name.

use std::time::Duration;

use birdhouse_events::{Admission, FilterLimits};

/// What clients may do.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at one time; more wait to be accepted.
    pub connections: usize,
    /// Bytes of a message; a larger one ends the connection.
    pub message_bytes: usize,
    /// Subscriptions of one connection; more are closed with `rate-limited`.
    pub subscriptions: usize,
    /// Filters of one REQ or COUNT; more are refused.
    pub filters: usize,
    /// Of one filter.
    pub filter: FilterLimits,
    /// Characters of a subscription's name; NIP-01 has 64.
    pub subscription_chars: usize,
    /// Events of one connection that are taken in and not yet answered; then its socket is not read.
    pub events_in_flight: usize,
    /// Events that wait to be told to one connection, behind the stored ones that it asked for. One that is further behind is
    /// sent away: it can ask again.
    pub untold: usize,
    /// How long a client may take nothing of what is written to it.
    pub stalled_write: Duration,
    /// A client that says nothing for so long is asked whether it is there, by a ping. Subscriptions may be silent for ever.
    pub silence: Duration,
    /// One that says nothing to that either is gone.
    pub pong: Duration,
    /// Who may read private messages.
    pub private_messages: PrivateMessages,
    /// Negentropy sessions of one connection (NIP-77); more are refused with `blocked`.
    pub sync_sessions: usize,
    /// Ids of one session, 40 bytes each; a filter that has more is refused with `blocked`.
    pub sync_ids: usize,
    /// Ids of the sessions of all connections; beyond them sessions are refused with `blocked`.
    pub sync_ids_all: usize,
    /// How long a session waits for the client's next message before it ends.
    pub sync_silence: Duration,
    /// Which events are taken in; others are answered `OK false`.
    pub admission: Admission,
}

/// Who may read messages of kinds 4, 1059 and 21059, which say who writes to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivateMessages {
    /// Their author and recipients, when they have proved who they are (NIP-42).
    ForTheirPeople,
    /// Everybody.
    ForEverybody,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            message_bytes: 1 << 20,
            subscriptions: 64,
            filters: 32,
            filter: FilterLimits::default(),
            subscription_chars: 64,
            events_in_flight: 64,
            untold: 4096,
            stalled_write: Duration::from_mins(1),
            silence: Duration::from_mins(5),
            pong: Duration::from_mins(1),
            private_messages: PrivateMessages::ForTheirPeople,
            sync_sessions: 8,
            sync_ids: 500_000,
            sync_ids_all: 2_000_000,
            sync_silence: Duration::from_mins(2),
            admission: Admission::default(),
        }
    }
}

/// Queries of one connection that are being answered; then its socket is not read.
pub(crate) const QUERIES_RUNNING: usize = 128;
/// Events of one page: between two pages a client's other messages are looked at.
pub(crate) const PAGE_ROWS: usize = 500;
/// Events that a search shows (NIP-50), the best, unless the filter says how many.
pub(crate) const SEARCH_ROWS: usize = 100;
/// And at most.
pub(crate) const SEARCH_ROWS_MAX: usize = 500;
/// Events that are counted at a stretch.
pub(crate) const COUNT_ROWS: usize = 5000;
/// Bytes of a negentropy message of ours, before it is written as hexadecimal digits: clients bound messages, too.
pub(crate) const SYNC_FRAME_BYTES: u64 = 128 * 1024;
/// Events that are made durable together.
pub(crate) const BATCH_EVENTS: usize = 512;
/// Events of all connections that wait to be taken in; then those who send more wait.
pub(crate) const WAITING_EVENTS: usize = 4 * BATCH_EVENTS;
/// Authors that one connection can prove to be.
pub(crate) const AUTHENTICATED_MAX: usize = 32;
/// How far the clock of a client that proves who it is may be from ours, seconds (NIP-42: about ten minutes).
pub(crate) const AUTH_SECONDS: u64 = 600;
/// Bytes of the head of a request.
pub(crate) const HEAD_BYTES: usize = 16 * 1024;
/// How long a connection may take to become a WebSocket.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
