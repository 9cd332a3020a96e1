//! Every bound of the relay: name, default and consequence. The tables of `docs/LIMITS.md` are generated from this
//! file; a test of `crates/server` keeps them equal.

use std::time::Duration;

use birdhouse_clients::{ACCOUNTS_KEPT, PlaceBounds, Rate, bounds, fixed_bounds};
use birdhouse_events::{EventLimits, FilterLimits, UnknownKeys};
use birdhouse_net::{Bounds, ClientBounds, HEAD_BYTES, Patience};

bounds! {
    /// The bounds of the relay.
    Limits, given as LimitsGiven {
        /// Open connections.
        connections: usize = 10_000 => "for a new one, the connection without traffic for longest, of the largest network, is closed with status 1013",
        /// Sockets of one address (IPv6: a /64) on which no WebSocket is open yet.
        half_open_connections: Option<usize> = Some(100) => "a new one is closed",
        /// Connections of one network: an IPv4 /24 or IPv6 /48. An IPv6 /32 has four times as many.
        network_connections: Option<usize> = Some(1000) =>
            "for a new one, its connection without traffic for longest is closed with status 1013",
        /// Open connections of one client.
        client_connections: Option<usize> = Some(50) => "a new connection gets HTTP status 429",
        /// Processor time that one client may use in a burst, with a small charge for every byte.
        client_work: Option<Duration> = Some(Duration::from_mins(5)) =>
            "its REQ and COUNT get CLOSED `rate-limited`, its events OK false `rate-limited`, both with when to retry; \
             a REQ of which events were sent goes on as work comes back",
        /// Rate at which used `client-work` comes back, in percent of one processor.
        client_work_percent: u32 = 50 => "as `client-work`",
        /// Pause between two messages that are read from a client that has used up its `client-work`.
        overdrawn_pause: Duration = Duration::from_secs(2) => "its sockets are not read meanwhile",
        /// Rate of events that one client publishes.
        client_events: Option<Rate> = Some(Rate::per_minute(3000)) => "OK false `rate-limited`, with when to retry",
        /// Rate of events of one author, whoever publishes them.
        author_events: Option<Rate> = None => "OK false `rate-limited`, with when to retry",
        /// Rate of requests of one client to join or to leave, where the relay has members (NIP-43).
        client_joins: Option<Rate> = Some(Rate::per_minute(10)) => "OK false `rate-limited`, with when to retry",
        /// Bytes of a message from the client, compressed and uncompressed.
        message_bytes: usize = 1 << 20 => "the connection is closed with status 1009",
        /// Time from the first byte of a message to its last.
        message_timeout: Duration = Duration::from_mins(2) => "the connection is closed with status 1008",
        /// Memory for partial messages of all connections, beyond 4 kB each.
        partial_message_bytes: usize = 256_000_000 => "a connection that needs more is closed with status 1013",
        /// Memory for messages of all connections that clients have not read.
        unsent_bytes: usize = 256_000_000 => "each connection may hold 64 kB: its pages of stored events become smaller",
        /// Bytes of messages that one client has not read, over all of its connections.
        client_unsent_bytes: Option<usize> = Some(64_000_000) => "as `unsent-bytes`, for its connections alone",
        /// Subscriptions of one connection.
        subscriptions: usize = 64 => "CLOSED `rate-limited`",
        /// Values of the filters of one client's subscriptions and running queries, and one for each filter.
        client_subscription_values: Option<usize> = Some(200_000) => "CLOSED or NEG-ERR `rate-limited`",
        /// Those values of all clients.
        subscription_values: usize = 2_000_000 => "CLOSED or NEG-ERR `rate-limited`",
        /// Characters of a subscription id; NIP-01 has 64.
        subscription_id_chars: usize = 64 => "CLOSED `invalid`",
        /// Filters of one REQ or COUNT.
        filters: usize = 32 => "CLOSED `invalid`",
        /// Ids, authors, kinds and tag values of one filter, in total.
        filter_values: usize = FilterLimits::default().values_max => "CLOSED `invalid`",
        /// Tag conditions of one filter: one for each `#` letter, and one for each value of an `&` letter.
        filter_tag_conditions: usize = FilterLimits::default().tag_conditions_max => "CLOSED `invalid`",
        /// Bytes of a filter's `search`.
        filter_search_bytes: usize = FilterLimits::default().search_bytes_max => "CLOSED `invalid`",
        /// Time that an event's `created_at` may lie in the future.
        created_at_ahead: Duration = Duration::from_secs(EventLimits::default().ahead_seconds_max) =>
            "OK false `invalid`",
        /// Time that an event's `created_at` may lie in the past.
        created_at_behind: Option<Duration> = EventLimits::default().behind_seconds_max.map(Duration::from_secs) =>
            "OK false `invalid`",
        /// Tags of one event.
        tags: usize = EventLimits::default().tags_max => "OK false `invalid`",
        /// Bytes of a value by which events are found, the first of a tag with a name of one letter: in an event, and
        /// in a filter.
        tag_value_bytes: usize = EventLimits::default().tag_value_bytes_max => "OK false `invalid`; CLOSED `invalid`",
        /// Bytes of one event's content.
        content_bytes: usize = EventLimits::default().content_bytes_max => "OK false `invalid`",
        /// Least difficulty of an event: leading zero bits of its id to which its author committed (NIP-13).
        difficulty: u32 = EventLimits::default().difficulty_min => "OK false `pow` for less",
        /// Unanswered events of one connection.
        events_in_flight: usize = 64 => "its socket is not read until one is answered",
        /// Bytes of events that wait to be judged and stored, of all clients, and 1 kB for each event.
        waiting_event_bytes: usize = 64_000_000 => "the sockets of those who send more are not read",
        /// Those bytes of one client.
        client_waiting_event_bytes: Option<usize> = Some(16_000_000) => "its sockets are not read",
        /// Bytes that stay free on the disk of the events. Deletion and vanish requests are taken down to half of them.
        disk_free_bytes: Option<u64> = Some(500_000_000) => "OK false `error`, until an eighth more is free",
        /// Live events queued for one connection behind the stored events that it asked for.
        live_queue_events: usize = 4096 =>
            "the queue is emptied and the connection closed with status 1008; the client can ask again",
        /// Bytes of those events, each counted once. An event that waits alone may have more.
        live_queue_bytes: usize = 8_000_000 => "as `live-queue-events`",
        /// Bytes of the live events queued for all connections, each counted once.
        live_queue_bytes_all: usize = 256_000_000 =>
            "the connection with the most bytes in its queue is closed with status 1008",
        /// Time in which the client reads nothing of what is written to it.
        write_timeout: Duration = Duration::from_mins(1) => "the connection is closed",
        /// The same, while `unsent-bytes` or `client-unsent-bytes` is used up.
        crowded_write_timeout: Duration = Duration::from_secs(5) => "the connection is closed",
        /// Time without a message from the client. A client that answers pings may stay idle for ever.
        idle_timeout: Duration = Duration::from_mins(5) => "the client gets a ping",
        /// Time without a message from the client after that ping.
        ping_timeout: Duration = Duration::from_mins(1) => "the connection is closed",
        /// Negentropy sessions of one connection (NIP-77).
        sync_sessions: usize = 8 => "NEG-ERR `blocked`",
        /// Ids of one negentropy session, 40 bytes each.
        sync_ids: usize = 500_000 => "NEG-ERR `blocked`",
        /// Ids of all negentropy sessions of one client. 40 bytes of a message that waits count as one.
        client_sync_ids: Option<usize> = Some(1_000_000) => "NEG-ERR `blocked`",
        /// Ids of all negentropy sessions of all connections, counted in the same way.
        sync_ids_all: usize = 2_000_000 => "NEG-ERR `blocked`",
        /// Time that a negentropy session waits for the client's next message.
        sync_idle_timeout: Duration = Duration::from_mins(2) => "NEG-ERR `closed`",
        /// Time for the plugin to judge an event.
        plugin_timeout: Duration = Duration::from_secs(10) =>
            "the event is treated as `relay-plugin-broken` says; a plugin that is silent for so long is restarted",
        /// Processor time of the stored events of one REQ or COUNT.
        slow_query: Option<Duration> = Some(Duration::from_millis(500)) =>
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

    /// Bounds of addresses and networks.
    pub(crate) fn places(&self) -> PlaceBounds {
        let bound = |most: Option<usize>| most.unwrap_or(usize::MAX);
        PlaceBounds { half_open: bound(self.half_open_connections), network: bound(self.network_connections) }
    }

    /// Times in which a client must read something.
    pub(crate) fn patience(&self) -> Patience {
        Patience { usual: self.write_timeout, crowded: self.crowded_write_timeout.min(self.write_timeout) }
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
        let (relay, fixed) = (Self::rows(&[Self::default()]), fixed_rows());
        format!(
            "| of the relay | | default | when it is reached |\n|---|---|---|---|\n{relay}\n\
             | fixed, of the relay | | when it is reached |\n|---|---|---|\n{fixed}"
        )
    }
}

fixed_bounds! {
    /// Concurrent REQ and COUNT of one connection.
    QUERIES_RUNNING: usize = 128 => "its socket is not read until one is answered",
    /// Stored events of one page.
    PAGE_ROWS: usize = 500 => "the next page follows when the client has read this one",
    // With half and with twice this size, pages of follow lists took a fifth more CPU time.
    /// Bytes of one page; its last event may go beyond.
    PAGE_BYTES: usize = 512 * 1024 => "the next page follows when the client has read this one",
    /// Live events sent in one turn.
    LIVE_TOGETHER: usize = 256 => "the rest follows after the client's other messages",
    // An event's work is one for each 64 bytes, and where its words are compared one more for each 8 bytes.
    /// Work for one page: one for each entry of a posting list, eight or more for each event, by its bytes.
    PAGE_WORK: u64 = 32_768 => "the search goes on in the client's next turn",
    /// Results of a search whose filter has no `limit`.
    SEARCH_ROWS: usize = 100 => "the best are sent; EOSE says `more`",
    /// Results of a search.
    SEARCH_ROWS_MAX: usize = 500 => "the best are sent; EOSE says `more`",
    /// Pubkeys that one connection may authenticate.
    AUTHENTICATED_MAX: usize = 32 => "OK false `restricted`",
    // NIP-42 says about ten minutes.
    /// Seconds between the `created_at` of an AUTH event and now.
    AUTH_SECONDS: u64 = 600 => "OK false `invalid`",
    /// Time from accepting a connection until it can carry messages: PROXY header, TLS, WebSocket upgrade.
    HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10) => "the connection is closed",
    /// Clients or authors that one rate remembers.
    RATED_MAX: usize = 100_000 => "the half that published least is forgotten",
    /// Rules about authors, events, kinds and clients that the operator made while the relay ran.
    RULES_MAX: usize = 100_000 => "a further rule is refused",
    /// Members (NIP-43) up to which requests to join are taken, and that the relay's list of them has, the earliest.
    MEMBERS_MAX: usize = 5000 => "OK false `restricted`; later ones are members and not in the list",
    /// Roles of members.
    ROLES_MAX: usize = 100 => "the change is refused",
    /// Roles of one member.
    ROLES_OF_MEMBER: usize = 16 => "the change is refused",
    /// Bytes of a role's id.
    ROLE_ID_BYTES: usize = 64 => "the change is refused",
    /// Bytes of a role's label, and of its description.
    ROLE_TEXT_BYTES: usize = 256 => "the change is refused",
    /// Invites that are not used up, expired ones among them.
    INVITES_MAX: usize = 10_000 => "none is made, CLOSED `error`",
    /// Those of them that are left to the operator.
    INVITES_OF_OPERATOR: usize = 1000 => "a member gets none, CLOSED `error`",
    /// Those of one member that have not expired.
    INVITES_OF_MEMBER: usize = 20 => "it gets its newest one again",
    /// Seconds until an invite that a member asks for expires.
    INVITE_SECONDS: u64 = 7 * 86_400 => "OK false `restricted`",
    /// Seconds for which an expired invite is remembered.
    INVITE_EXPIRED_SECONDS: u64 = 30 * 86_400 => "its code is invalid, no longer expired",
    /// Seconds between the `created_at` of a request to join or leave and now.
    MEMBER_REQUEST_SECONDS: u64 = 300 => "OK false `invalid`",
    /// Requests that have made or ended a membership, remembered for as long as they are valid.
    MEMBER_REQUESTS_USED: usize = 10_000 => "OK false `rate-limited` until some expire",
    /// Bytes of the reason of a rule, and of a text of the information document that the operator changes.
    RULE_TEXT_BYTES: usize = 1024 => "the change is refused",
    /// Seconds since 1970 of a rule's end, in the year 2106.
    RULE_END_MAX: u64 = u32::MAX as u64 => "the change is refused",
    /// Bytes of the audit log.
    AUDIT_BYTES: usize = 4_000_000 => "the oldest entries are dropped",
    /// Bytes of a request of the management API (NIP-86).
    MANAGEMENT_BYTES: usize = 16 * 1024 => "HTTP status 413",
    /// Seconds between the `created_at` of an authorization for it (NIP-98) and now.
    MANAGEMENT_SECONDS: u64 = 60 => "HTTP status 401",
    /// Authorizations that are remembered as used, until they expire.
    MANAGEMENT_USED: usize = 10_000 => "HTTP status 401 until some expire",
    /// Reports (NIP-56) that a list for the operator reads, the newest.
    REPORTS_READ: usize = 5000 => "older ones are not counted",
    /// Events and authors in that list.
    REPORTED_MAX: usize = 200 => "those with fewer reporters are left out",
    /// Texts of reporters about each of them.
    REPORT_TEXTS: usize = 3 => "the newest are shown",
    /// Characters of such a text, and of a reported event.
    REPORT_TEXT_CHARS: usize = 500 => "its beginning is shown",
    /// Characters of the type of a report.
    REPORT_TYPE_CHARS: usize = 32 => "its beginning is shown",
    /// Bits of the shortest prefix of IPv4 networks that a rule bans.
    BANNED_PREFIX_V4: u32 = 8 => "the rule is refused",
    /// Those of IPv6 networks.
    BANNED_PREFIX_V6: u32 = 16 => "the rule is refused",
    /// Events handed to the plugin and not judged yet.
    PLUGIN_IN_FLIGHT: usize = 256 => "their senders wait",
    /// Bytes queued for the plugin; the last event may go beyond.
    PLUGIN_UNWRITTEN_BYTES: usize = 1 << 20 => "their senders wait",
    /// Bytes of one line of the plugin's output.
    PLUGIN_LINE_BYTES: usize = 64 * 1024 => "the plugin is restarted";
    "Bytes of an HTTP request's head": HEAD_BYTES => "HTTP status 431",
    "Disconnected clients whose use is remembered": ACCOUNTS_KEPT => "the half that used least is forgotten",
}

/// A longer message is parsed on a thread without other tasks: this many bytes take some hundred microseconds.
pub(crate) const INLINE_MESSAGE_BYTES: usize = 64 * 1024;
/// Bytes of live events that are enough for one write.
pub(crate) const WRITE_BYTES: usize = 64 * 1024;
/// Events that COUNT takes in one turn.
pub(crate) const COUNT_ROWS: usize = 5000;
/// Bytes of a negentropy message of ours, before hexadecimal encoding. Clients bound messages, and go-nostr answers one
/// with up to fourteen times its bytes, which must fit a message of ours: nostr-tools and nostr-sdk take as many.
pub(crate) const SYNC_FRAME_BYTES: u64 = 60_000;
/// Bytes of a negentropy message that count as one id, which takes as many.
pub(crate) const SYNC_ID_BYTES: usize = 40;
/// Events that one commit makes durable.
pub(crate) const BATCH_EVENTS: usize = 512;
/// Work after which a batch is committed: targets of deletion requests, and a sixteenth of other tags. Other clients
/// wait for a batch; this one takes some ten milliseconds.
pub(crate) const BATCH_WORK: usize = 4096;
/// Bytes that a waiting event counts for beside those of its message.
pub(crate) const WAITING_EVENT_BYTES: usize = 1024;
/// Rules that end in one change: their entries have room in the audit log, whatever their reasons.
pub(crate) const ENDED_TOGETHER: usize = 256;
