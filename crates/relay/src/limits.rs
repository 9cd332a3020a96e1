//! Every bound of the relay: its name, its default, and what happens at it. The tables of the manual are made from this file, and
//! a test of the server keeps them equal.

use std::time::Duration;

use birdhouse_clients::{ACCOUNTS_KEPT, Bound as _, Rate, bounds, fixed};
use birdhouse_events::{EventLimits, FilterLimits, UnknownKeys};

bounds! {
    /// What clients may do.
    Limits, given as LimitsGiven {
        /// Open connections.
        connections: usize => "the newcomer waits to be accepted",
        /// Open connections of one client.
        client_connections: Option<usize> => "the newcomer gets HTTP status 429",
        /// Time of processors that may be spent on one client at once, with a little for every byte.
        client_work: Option<Duration> =>
            "its REQ and COUNT get CLOSED `rate-limited`, its events OK false `rate-limited`, both with when to try again",
        /// What of that is forgiven as time passes: percent of one processor.
        client_work_percent: u32 => "as `client-work`",
        /// Events that one client publishes.
        client_events: Option<Rate> => "OK false `rate-limited`, with when to try again",
        /// Events of one author, whoever publishes them.
        author_events: Option<Rate> => "OK false `rate-limited`, with when to try again",
        /// Bytes of a message from the client, compressed and not.
        message_bytes: usize => "the connection is closed with status 1009",
        /// From the first byte of a message to its last.
        message: Duration => "the connection is closed with status 1008",
        /// Memory for messages of all connections that are not whole, beyond 4 kB a connection.
        unfinished_bytes: usize => "who needs more is closed with status 1013",
        /// Subscriptions of one connection.
        subscriptions: usize => "CLOSED `rate-limited`",
        /// Characters of a subscription's name; NIP-01 has 64.
        subscription_chars: usize => "CLOSED `invalid`",
        /// Filters of one REQ or COUNT.
        filters: usize => "CLOSED `invalid`",
        /// Ids, authors, kinds and values of tags of one filter, all together.
        filter_values: usize => "CLOSED `invalid`",
        /// Conditions on tags of one filter: one for each `#` letter, and one for each value of an `&` letter.
        filter_tag_conditions: usize => "CLOSED `invalid`",
        /// Bytes of one value of a tag in a filter.
        filter_tag_value_bytes: usize => "CLOSED `invalid`",
        /// Bytes of a filter's `search`.
        filter_search_bytes: usize => "CLOSED `invalid`",
        /// How far an event's `created_at` may lie in the future.
        created_at_ahead: Duration => "OK false `invalid`",
        /// How far it may lie in the past.
        created_at_behind: Option<Duration> => "OK false `invalid`",
        /// Tags of one event.
        tags: usize => "OK false `invalid`",
        /// Bytes of one event's content.
        content_bytes: usize => "OK false `invalid`",
        /// Least difficulty of an event: zero bits that its id begins with, and that its author committed to (NIP-13).
        difficulty: u32 => "OK false `pow` for less",
        /// Events of one connection that are taken in and not yet answered.
        events_in_flight: usize => "its socket is not read until one is answered",
        /// New events that wait to be told to one connection, behind the stored ones that it asked for.
        untold: usize => "the connection is closed with status 1008: it can ask again",
        /// Time in which a client takes nothing of what is written to it.
        stalled_write: Duration => "the connection is closed",
        /// Silence of a client. Subscriptions may be silent for ever.
        silence: Duration => "it is asked whether it is there, by a ping",
        /// Silence after that ping.
        pong: Duration => "the connection is closed",
        /// Negentropy sessions of one connection (NIP-77).
        sync_sessions: usize => "NEG-ERR `blocked`",
        /// Ids of one such session, 40 bytes each.
        sync_ids: usize => "NEG-ERR `blocked`",
        /// Ids of the sessions of all connections.
        sync_ids_all: usize => "NEG-ERR `blocked`",
        /// How long a session waits for the client's next message.
        sync_silence: Duration => "NEG-ERR `closed`",
        /// How long the plugin may take to judge an event.
        plugin_answer: Duration => "the event is treated as `relay-plugin-broken` says; a plugin that is silent for so long is started again",
        /// Time of a processor that the stored events of one REQ or COUNT may take.
        slow_query: Option<Duration> => "the shape of its filters is logged: how much was asked for, and never what",
    }
}

/// Who may read messages of kinds 4, 1059 and 21059, which say who writes to whom.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PrivateMessages {
    /// Their author and recipients, when they have proved who they are (NIP-42).
    #[default]
    ForTheirPeople,
    /// Everybody.
    ForEverybody,
}

impl Default for Limits {
    fn default() -> Self {
        let (filter, event_limits) = (FilterLimits::default(), EventLimits::default());
        Self {
            connections: 10_000,
            client_connections: Some(50),
            client_work: Some(Duration::from_mins(5)),
            client_work_percent: 50,
            client_events: Some(Rate::per_minute(3000)),
            author_events: None,
            message_bytes: 1 << 20,
            message: Duration::from_mins(2),
            unfinished_bytes: 256_000_000,
            subscriptions: 64,
            subscription_chars: 64,
            filters: 32,
            filter_values: filter.values_max,
            filter_tag_conditions: filter.tag_conditions_max,
            filter_tag_value_bytes: filter.tag_value_bytes_max,
            filter_search_bytes: filter.search_bytes_max,
            created_at_ahead: Duration::from_secs(event_limits.ahead_seconds_max),
            created_at_behind: event_limits.behind_seconds_max.map(Duration::from_secs),
            tags: event_limits.tags_max,
            content_bytes: event_limits.content_bytes_max,
            difficulty: event_limits.difficulty_min,
            events_in_flight: 64,
            untold: 4096,
            stalled_write: Duration::from_mins(1),
            silence: Duration::from_mins(5),
            pong: Duration::from_mins(1),
            sync_sessions: 8,
            sync_ids: 500_000,
            sync_ids_all: 2_000_000,
            sync_silence: Duration::from_mins(2),
            plugin_answer: Duration::from_secs(10),
            slow_query: Some(Duration::from_millis(500)),
        }
    }
}

impl Limits {
    /// What is asked of events.
    pub(crate) fn event_limits(&self) -> EventLimits {
        EventLimits {
            ahead_seconds_max: self.created_at_ahead.as_secs(),
            behind_seconds_max: self.created_at_behind.map(|behind| behind.as_secs()),
            tags_max: self.tags,
            content_bytes_max: self.content_bytes,
            difficulty_min: self.difficulty,
        }
    }

    /// What is asked of filters.
    pub(crate) fn filter(&self, unknown_keys: UnknownKeys) -> FilterLimits {
        FilterLimits {
            values_max: self.filter_values,
            tag_conditions_max: self.filter_tag_conditions,
            tag_value_bytes_max: self.filter_tag_value_bytes,
            search_bytes_max: self.filter_search_bytes,
            unknown_keys,
        }
    }

    /// The tables of the manual, in Markdown.
    pub fn manual() -> String {
        let relay = Self::rows(&[Self::default()]);
        let fixed = fixed_rows();
        format!(
            "| of the relay | | default | when it is reached |\n|---|---|---|---|\n{relay}\n\
             | fixed, of the relay | | when it is reached |\n|---|---|---|\n{fixed}"
        )
    }
}

/// Queries of one connection that are being answered; then its socket is not read.
pub(crate) const QUERIES_RUNNING: usize = 128;
/// Events of one page: between two pages a client's other messages are looked at.
pub(crate) const PAGE_ROWS: usize = 500;
/// Bytes of its messages, but for the last one. With half as many and with twice as many, pages of follow lists took a fifth more CPU time.
pub(crate) const PAGE_BYTES: usize = 512 * 1024;
/// New events that are told before a connection's other messages are looked at.
pub(crate) const NEWS_TOGETHER: usize = 256;
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
/// Clients or authors whose events are remembered for one rate.
pub(crate) const RATED_MAX: usize = 100_000;
/// Events that the plugin has been given and has not judged.
pub(crate) const PLUGIN_IN_FLIGHT: usize = 256;
/// Bytes that wait to be written to the plugin; an event more goes beyond.
pub(crate) const PLUGIN_UNWRITTEN_BYTES: usize = 1 << 20;
/// Bytes of one line that the plugin says.
pub(crate) const PLUGIN_LINE_BYTES: usize = 64 * 1024;

/// Bounds that are no settings.
fn fixed_rows() -> String {
    let bounds = [
        (
            "REQ and COUNT of one connection that are being answered",
            QUERIES_RUNNING.to_text(),
            "its socket is not read until one is answered",
        ),
        ("Stored events that are shown at a stretch", PAGE_ROWS.to_text(), "the rest when the client took them"),
        ("Their bytes, but for the last one", PAGE_BYTES.to_text(), "the rest when the client took them"),
        (
            "New events that are told at a stretch",
            NEWS_TOGETHER.to_text(),
            "the rest after the client's other messages",
        ),
        (
            "Events that a search shows whose filter has no `limit`",
            SEARCH_ROWS.to_text(),
            "the best are shown, EOSE says `more`",
        ),
        ("Events that a search shows", SEARCH_ROWS_MAX.to_text(), "the best are shown, EOSE says `more`"),
        ("Events that wait to be taken in", WAITING_EVENTS.to_text(), "who sends more waits"),
        ("Authors that one connection can prove to be", AUTHENTICATED_MAX.to_text(), "OK false `restricted`"),
        ("Seconds between `created_at` of such a proof and now", AUTH_SECONDS.to_text(), "OK false `invalid`"),
        ("Bytes of the head of a request", HEAD_BYTES.to_text(), "HTTP status 431"),
        ("Time for the head of a request", HEAD_TIMEOUT.to_text(), "the connection is closed"),
        (
            "Clients that left and are remembered for what they used",
            ACCOUNTS_KEPT.to_text(),
            "half of them are forgotten, those that used least",
        ),
        (
            "Clients or authors whose events are remembered for one rate",
            RATED_MAX.to_text(),
            "half of them are forgotten, those that published least",
        ),
        (
            "Events that the plugin has been given and has not judged",
            PLUGIN_IN_FLIGHT.to_text(),
            "who sends more waits",
        ),
        (
            "Bytes that wait to be written to the plugin, but for the last event",
            PLUGIN_UNWRITTEN_BYTES.to_text(),
            "who sends more waits",
        ),
        ("Bytes of one line that the plugin says", PLUGIN_LINE_BYTES.to_text(), "it is started again"),
    ];
    fixed(&bounds)
}
