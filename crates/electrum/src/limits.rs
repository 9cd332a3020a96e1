//! Every bound of the server: its name, its default, and what happens at it.

use std::time::Duration;

/// The bounds of one listener.
///
/// | bound | public | private | when it is reached |
/// |---|---|---|---|
/// | `connections` | 10 000 | 10 000 | the newcomer gets error -101 and is closed |
/// | `client_work` | 5 min of work at once | none | error -101 that says when to ask again, and a pause of a second; goes on |
/// | `client_work_percent` | 50 % of one processor for ever | same | as `client_work` |
/// | `client_connections` | 50 | none | the newcomer gets error -101 and is closed |
/// | `handshake` | 10 s for PROXY header, TLS and WebSocket upgrade together | same | close |
/// | `first_message` | 60 s from the handshake to the first message | same | close |
/// | `message` | 120 s from the first byte of a message to its last | same | close |
/// | `idle` | 30 min without a byte from the client | same | close |
/// | `stalled_write` | 60 s without a byte taken by the client | same | close |
/// | `line_bytes` | 1 000 000 | 1 000 000 | error -101 with id null, then close |
/// | `id_bytes` | 1 000 | 1 000 | error -32600 with id null; the connection goes on |
/// | `batch_items` | 2 000 | 2 000 | one error -32600 with id null for the batch; goes on |
/// | `requests_in_flight` | 256 | 256 | reading waits until one is answered |
/// | `subscriptions` | 100 000 | 100 000 | the subscribe request gets error -101; goes on |
/// | `client_subscriptions` | 200 000 | none | the subscribe request gets error -101; goes on |
/// | `outgoing_bytes` | 8 000 000 | same | running and reading wait until the client has read; notifications coalesce |
/// | `reply_bytes` | 64 000 000 | same | error 10001 "history too large"; in a batch -101 for the items beyond |
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open connections.
    pub connections: usize,
    /// Open connections of one client: an IPv4 address, an IPv6 network, or a Tor circuit.
    pub client_connections: usize,
    /// Time that may be spent on one client at once: of processors, of the node, and a little for every byte.
    pub client_work: Duration,
    /// Of that, what is forgiven as time passes: percent of one processor.
    pub client_work_percent: u32,
    /// From the accepted connection to the moment when messages can come.
    pub handshake: Duration,
    /// Silence after the handshake.
    pub first_message: Duration,
    /// How long one message may take to arrive.
    pub message: Duration,
    /// Silence after which a connection is closed. Wallets ping every 1 to 5 minutes.
    pub idle: Duration,
    /// How long a client may take no byte of what is written to it.
    pub stalled_write: Duration,
    /// Bytes of a message from the client, without its end.
    pub line_bytes: usize,
    /// Bytes of a request's id, as written.
    pub id_bytes: usize,
    /// Requests in a batch.
    pub batch_items: usize,
    /// Requests of one connection that are read and not yet answered; a batch counts with its items.
    pub requests_in_flight: u32,
    /// Scripts and outpoints that one connection follows.
    pub subscriptions: usize,
    /// Script hashes that one client follows, over all of its connections.
    pub client_subscriptions: usize,
    /// Bytes of replies that wait for a slow reader before its further requests wait too.
    pub outgoing_bytes: usize,
    /// Bytes of one reply line.
    pub reply_bytes: usize,
}

/// The bounds that all listeners share.
///
/// | bound | default | when it is reached |
/// |---|---|---|
/// | `processors` | those there are | requests wait their turn; one client has at most half of the turns |
/// | `read_threads` | 32 | reads wait their turn; one client has at most half of the threads |
/// | `node_calls` | 8 | requests to the node wait their turn; one client has at most half of the calls |
/// | `subscriptions` | 5 000 000 | the subscribe request gets error -101; goes on |
/// | `unfinished_bytes` | 256 MB of messages that have not arrived whole | error -101 with id null to who would need more, then close |
/// | `unsent_bytes` | 256 MB that wait for slow readers | each connection may hold 64 kB, beyond that its requests wait |
/// | `shutdown` | 3 s to finish what is in flight | connections are dropped |
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Processors that work for clients.
    pub processors: usize,
    /// Threads that wait for the disk.
    pub read_threads: usize,
    /// Requests to the node at one time.
    pub node_calls: usize,
    /// Script hashes that all connections follow.
    pub subscriptions: usize,
    /// Memory for the beginnings of messages, beyond a few kilobytes a connection.
    pub unfinished_bytes: usize,
    /// Memory for replies that clients have not taken.
    pub unsent_bytes: usize,
    /// How long a shutdown waits for requests in flight.
    pub shutdown: Duration,
}

impl Limits {
    /// For clients that are strangers.
    pub fn public() -> Self {
        Self {
            connections: 10_000,
            client_connections: 50,
            client_work: Duration::from_mins(5),
            client_work_percent: 50,
            handshake: Duration::from_secs(10),
            first_message: Duration::from_mins(1),
            message: Duration::from_mins(2),
            idle: Duration::from_mins(30),
            stalled_write: Duration::from_mins(1),
            line_bytes: 1_000_000,
            id_bytes: 1_000,
            batch_items: 2_000,
            requests_in_flight: 256,
            subscriptions: 100_000,
            client_subscriptions: 200_000,
            outgoing_bytes: 8_000_000,
            reply_bytes: 64_000_000,
        }
    }

    /// For the operator's own clients: nothing is counted by client. What keeps the server itself in bounds stays.
    pub fn private() -> Self {
        Self {
            client_connections: usize::MAX,
            client_work: Duration::MAX,
            client_subscriptions: usize::MAX,
            ..Self::public()
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::public()
    }
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            read_threads: 32,
            node_calls: 8,
            subscriptions: 5_000_000,
            unfinished_bytes: 256_000_000,
            unsent_bytes: 256_000_000,
            shutdown: Duration::from_secs(3),
        }
    }
}
