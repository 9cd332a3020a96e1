//! Every bound of the relay: name, default and consequence. The tables of `docs/LIMITS.md` are generated from this
//! file; a test of `crates/server` keeps them equal.

use std::time::Duration;

use birdhouse_clients::{ACCOUNTS_KEPT, Bound as _, Rate, bounds, fixed};
use birdhouse_events::{EventLimits, FilterLimits, UnknownKeys};
use birdhouse_net::{Bounds, ClientBounds, HEAD_BYTES};

bounds! {
    /// The bounds of the relay.
    Limits, given as LimitsGiven {
        /// Open connections.
        connections: usize => "a new connection waits to be accepted",
        /// Open connections of one client.
        client_connections: Option<usize> => "a new connection gets HTTP status 429",
        /// Processor time that one client may use in a burst, with a small charge for every byte.
        client_work: Option<Duration> =>
            "its REQ and COUNT get CLOSED `rate-limited`, its events OK false `rate-limited`, both with when to retry",
        /// Rate at which used `client-work` comes back, in percent of one processor.
        client_work_percent: u32 => "as `client-work`",
        /// Rate of events that one client publishes.
        client_events: Option<Rate> => "OK false `rate-limited`, with when to retry",
        /// Rate of events of one author, whoever publishes them.
        author_events: Option<Rate> => "OK false `rate-limited`, with when to retry",
        /// Bytes of a message from the client, compressed and uncompressed.
        message_bytes: usize => "the connection is closed with status 1009",
        /// Time from the first byte of a message to its last.
        message_timeout: Duration => "the connection is closed with status 1008",
        /// Memory for partial messages of all connections, beyond 4 kB each.
        partial_message_bytes: usize => "a connection that needs more is closed with status 1013",
        /// Memory for messages of all connections that clients have not read.
        unsent_bytes: usize => "each connection may hold 64 kB: its pages of stored events become smaller",
        /// Bytes of messages that one client has not read, over all of its connections.
        client_unsent_bytes: Option<usize> => "as `unsent-bytes`, for its connections alone",
        /// Subscriptions of one connection.
        subscriptions: usize => "CLOSED `rate-limited`",
        /// Characters of a subscription id; NIP-01 has 64.
        subscription_id_chars: usize => "CLOSED `invalid`",
        /// Filters of one REQ or COUNT.
        filters: usize => "CLOSED `invalid`",
        /// Ids, authors, kinds and tag values of one filter, in total.
        filter_values: usize => "CLOSED `invalid`",
        /// Tag conditions of one filter: one for each `#` letter, and one for each value of an `&` letter.
        filter_tag_conditions: usize => "CLOSED `invalid`",
        /// Bytes of a filter's `search`.
        filter_search_bytes: usize => "CLOSED `invalid`",
        /// Time that an event's `created_at` may lie in the future.
        created_at_ahead: Duration => "OK false `invalid`",
        /// Time that an event's `created_at` may lie in the past.
        created_at_behind: Option<Duration> => "OK false `invalid`",
        /// Tags of one event.
        tags: usize => "OK false `invalid`",
        /// Bytes of a value by which events are found, the first of a tag with a name of one letter: in an event, and
        /// in a filter.
        tag_value_bytes: usize => "OK false `invalid`; CLOSED `invalid`",
        /// Bytes of one event's content.
        content_bytes: usize => "OK false `invalid`",
        /// Least difficulty of an event: leading zero bits of its id to which its author committed (NIP-13).
        difficulty: u32 => "OK false `pow` for less",
        /// Unanswered events of one connection.
        events_in_flight: usize => "its socket is not read until one is answered",
        /// Live events queued for one connection behind the stored events that it asked for.
        live_queue_events: usize => "the connection is closed with status 1008; the client can ask again",
        /// Time in which the client reads nothing of what is written to it.
        write_timeout: Duration => "the connection is closed",
        /// Time without a message from the client. A client that answers pings may stay idle for ever.
        idle_timeout: Duration => "the client gets a ping",
        /// Time without a message from the client after that ping.
        ping_timeout: Duration => "the connection is closed",
        /// Negentropy sessions of one connection (NIP-77).
        sync_sessions: usize => "NEG-ERR `blocked`",
        /// Ids of one negentropy session, 40 bytes each.
        sync_ids: usize => "NEG-ERR `blocked`",
        /// Ids of all negentropy sessions of all connections.
        sync_ids_all: usize => "NEG-ERR `blocked`",
        /// Time that a negentropy session waits for the client's next message.
        sync_idle_timeout: Duration => "NEG-ERR `closed`",
        /// Time for the plugin to judge an event.
        plugin_timeout: Duration =>
            "the event is treated as `relay-plugin-broken` says; a plugin that is silent for so long is restarted",
        /// Processor time of the stored events of one REQ or COUNT.
        slow_query: Option<Duration> =>
            "the shape of its filters is logged: the number of values of each kind, never the values",
    }
}

/// Readers of private messages: kinds 4, 1059 and 21059, which reveal who writes to whom.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PrivateMessages {
    /// Their author and recipients, once authenticated (NIP-42).
    #[default]
    ForParticipants,
    /// All clients.
    ForEveryone,
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
            message_timeout: Duration::from_mins(2),
            partial_message_bytes: 256_000_000,
            unsent_bytes: 256_000_000,
            client_unsent_bytes: Some(64_000_000),
            subscriptions: 64,
            subscription_id_chars: 64,
            filters: 32,
            filter_values: filter.values_max,
            filter_tag_conditions: filter.tag_conditions_max,
            filter_search_bytes: filter.search_bytes_max,
            created_at_ahead: Duration::from_secs(event_limits.ahead_seconds_max),
            created_at_behind: event_limits.behind_seconds_max.map(Duration::from_secs),
            tags: event_limits.tags_max,
            tag_value_bytes: event_limits.tag_value_bytes_max,
            content_bytes: event_limits.content_bytes_max,
            difficulty: event_limits.difficulty_min,
            events_in_flight: 64,
            live_queue_events: 4096,
            write_timeout: Duration::from_mins(1),
            idle_timeout: Duration::from_mins(5),
            ping_timeout: Duration::from_mins(1),
            sync_sessions: 8,
            sync_ids: 500_000,
            sync_ids_all: 2_000_000,
            sync_idle_timeout: Duration::from_mins(2),
            plugin_timeout: Duration::from_secs(10),
            slow_query: Some(Duration::from_millis(500)),
        }
    }
}

impl Limits {
    /// Bounds of one client.
    pub(crate) fn client(&self) -> ClientBounds {
        ClientBounds {
            connections: self.client_connections,
            work: self.client_work,
            work_percent: self.client_work_percent,
            unsent_bytes: self.client_unsent_bytes,
        }
    }

    /// Bounds of a connection's messages.
    pub(crate) fn incoming(&self) -> Bounds {
        let Self { message_bytes, message_timeout: message, idle_timeout: idle, .. } = *self;
        Bounds { message_bytes, message, first_message: idle, idle }
    }

    /// Bounds that admission checks for each event.
    pub(crate) fn event_limits(&self) -> EventLimits {
        EventLimits {
            ahead_seconds_max: self.created_at_ahead.as_secs(),
            behind_seconds_max: self.created_at_behind.map(|behind| behind.as_secs()),
            tags_max: self.tags,
            tag_value_bytes_max: self.tag_value_bytes,
            content_bytes_max: self.content_bytes,
            difficulty_min: self.difficulty,
        }
    }

    /// Bounds that parsing checks for each filter.
    pub(crate) fn filter(&self, unknown_keys: UnknownKeys) -> FilterLimits {
        FilterLimits {
            values_max: self.filter_values,
            tag_conditions_max: self.filter_tag_conditions,
            tag_value_bytes_max: self.tag_value_bytes,
            search_bytes_max: self.filter_search_bytes,
            unknown_keys,
        }
    }

    /// Returns the tables of `docs/LIMITS.md`, in Markdown.
    pub fn manual() -> String {
        let relay = Self::rows(&[Self::default()]);
        let fixed = fixed_rows();
        format!(
            "| of the relay | | default | when it is reached |\n|---|---|---|---|\n{relay}\n\
             | fixed, of the relay | | when it is reached |\n|---|---|---|\n{fixed}"
        )
    }
}

/// Concurrent queries of one connection; at the bound its socket is not read.
pub(crate) const QUERIES_RUNNING: usize = 128;
/// Events of one page: between two pages the connection handles its client's other messages.
pub(crate) const PAGE_ROWS: usize = 500;
/// Bytes of a page's messages; the last one may go beyond. With half and with twice this size, pages of follow lists
/// took a fifth more CPU time.
pub(crate) const PAGE_BYTES: usize = 512 * 1024;
/// A page that took longer has waited for the disk, or read much: pages of the next second are offloaded.
pub(crate) const LONG_PAGE: Duration = Duration::from_millis(10);
/// A longer message is parsed on a thread without other tasks: this many bytes take some hundred microseconds.
pub(crate) const INLINE_MESSAGE_BYTES: usize = 64 * 1024;
/// Bytes of live events that are enough for one write.
pub(crate) const WRITE_BYTES: usize = 64 * 1024;
/// Live events sent before the connection handles its client's other messages.
pub(crate) const LIVE_TOGETHER: usize = 256;
/// Default number of results of a search (NIP-50): the best ones, where the filter has no `limit`.
pub(crate) const SEARCH_ROWS: usize = 100;
/// Largest number of results of a search.
pub(crate) const SEARCH_ROWS_MAX: usize = 500;
/// Events that COUNT takes in one turn.
pub(crate) const COUNT_ROWS: usize = 5000;
/// Bytes of a negentropy message of ours, before hexadecimal encoding; clients bound messages, too.
pub(crate) const SYNC_FRAME_BYTES: u64 = 128 * 1024;
/// Events that one commit makes durable.
pub(crate) const BATCH_EVENTS: usize = 512;
/// Events of all connections that wait for admission; at the bound their senders wait.
pub(crate) const WAITING_EVENTS: usize = 4 * BATCH_EVENTS;
/// Pubkeys that one connection may authenticate.
pub(crate) const AUTHENTICATED_MAX: usize = 32;
/// Largest difference between the `created_at` of an AUTH event and our clock, seconds (NIP-42: about ten minutes).
pub(crate) const AUTH_SECONDS: u64 = 600;
/// Time for everything before the first message.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Clients or authors that one rate remembers.
pub(crate) const RATED_MAX: usize = 100_000;
/// Events handed to the plugin and not judged yet.
pub(crate) const PLUGIN_IN_FLIGHT: usize = 256;
/// Bytes queued for the plugin; the last event may go beyond.
pub(crate) const PLUGIN_UNWRITTEN_BYTES: usize = 1 << 20;
/// Bytes of one line of the plugin's output.
pub(crate) const PLUGIN_LINE_BYTES: usize = 64 * 1024;

/// Rows for the bounds that are constants of the code rather than settings.
fn fixed_rows() -> String {
    let bounds = [
        (
            "Concurrent REQ and COUNT of one connection",
            QUERIES_RUNNING.to_text(),
            "its socket is not read until one is answered",
        ),
        ("Stored events of one page", PAGE_ROWS.to_text(), "the next page follows when the client has read this one"),
        (
            "Bytes of one page; its last event may go beyond",
            PAGE_BYTES.to_text(),
            "the next page follows when the client has read this one",
        ),
        ("Live events sent in one turn", LIVE_TOGETHER.to_text(), "the rest follows after the client's other messages"),
        (
            "Results of a search whose filter has no `limit`",
            SEARCH_ROWS.to_text(),
            "the best are sent; EOSE says `more`",
        ),
        ("Results of a search", SEARCH_ROWS_MAX.to_text(), "the best are sent; EOSE says `more`"),
        ("Events that wait for admission", WAITING_EVENTS.to_text(), "their senders wait"),
        ("Pubkeys that one connection may authenticate", AUTHENTICATED_MAX.to_text(), "OK false `restricted`"),
        ("Seconds between the `created_at` of an AUTH event and now", AUTH_SECONDS.to_text(), "OK false `invalid`"),
        ("Bytes of an HTTP request's head", HEAD_BYTES.to_text(), "HTTP status 431"),
        (
            "Time from accepting a connection until it can carry messages: PROXY header, TLS, WebSocket upgrade",
            HANDSHAKE_TIMEOUT.to_text(),
            "the connection is closed",
        ),
        (
            "Disconnected clients whose use is remembered",
            ACCOUNTS_KEPT.to_text(),
            "the half that used least is forgotten",
        ),
        (
            "Clients or authors that one rate remembers",
            RATED_MAX.to_text(),
            "the half that published least is forgotten",
        ),
        ("Events handed to the plugin and not judged yet", PLUGIN_IN_FLIGHT.to_text(), "their senders wait"),
        (
            "Bytes queued for the plugin; the last event may go beyond",
            PLUGIN_UNWRITTEN_BYTES.to_text(),
            "their senders wait",
        ),
        ("Bytes of one line of the plugin's output", PLUGIN_LINE_BYTES.to_text(), "the plugin is restarted"),
    ];
    fixed(&bounds)
}
