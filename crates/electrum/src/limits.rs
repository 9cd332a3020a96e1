//! Every bound of the server: its name, its default, and what happens at it.

use std::time::Duration;

/// The bounds of one listener.
///
/// | bound | default | when it is reached |
/// |---|---|---|
/// | `connections` | 10 000 | the newcomer gets error -101 and is closed |
/// | `line_bytes` | 1 000 000 | error -101 with id null, then close |
/// | `id_bytes` | 1 000 | error -32600 with id null; the connection goes on |
/// | `batch_items` | 2 000 | one error -32600 with id null for the batch; goes on |
/// | `requests_in_flight` | 256 | reading waits until one is answered |
/// | `subscriptions` | 100 000 | the subscribe request gets error -101; goes on |
/// | `outgoing_bytes` | 8 000 000 | running and reading wait until the client has read; notifications coalesce |
/// | `reply_bytes` | 64 000 000 | error 10001 "history too large"; in a batch -101 for the items beyond |
/// | `read_threads` | 32 | reads wait their turn, in order of arrival |
/// | `node_calls` | 8 | requests to the node wait their turn |
/// | `idle` | 30 min without a byte from the client | close |
/// | `stalled_write` | 60 s without a byte taken by the client | close |
/// | `shutdown` | 3 s to finish what is in flight | connections are dropped |
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open connections.
    pub connections: usize,
    /// Bytes of a line from the client, without its end.
    pub line_bytes: usize,
    /// Bytes of a request's id, as written.
    pub id_bytes: usize,
    /// Requests in a batch.
    pub batch_items: usize,
    /// Requests of one connection that are read and not yet answered; a batch counts with its items.
    pub requests_in_flight: u32,
    /// Script hashes that one connection follows.
    pub subscriptions: usize,
    /// Bytes of replies that wait for a slow reader before its further requests wait too.
    pub outgoing_bytes: usize,
    /// Bytes of one reply line.
    pub reply_bytes: usize,
    /// Threads that read the index, for all connections.
    pub read_threads: usize,
    /// Requests to the node at one time, for all connections.
    pub node_calls: usize,
    /// Silence after which a connection is closed. Wallets ping every 1 to 5 minutes.
    pub idle: Duration,
    /// How long a client may take no byte of what is written to it.
    pub stalled_write: Duration,
    /// How long a shutdown waits for requests in flight.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            line_bytes: 1_000_000,
            id_bytes: 1_000,
            batch_items: 2_000,
            requests_in_flight: 256,
            subscriptions: 100_000,
            outgoing_bytes: 8_000_000,
            reply_bytes: 64_000_000,
            read_threads: 32,
            node_calls: 8,
            idle: Duration::from_mins(30),
            stalled_write: Duration::from_mins(1),
            shutdown: Duration::from_secs(3),
        }
    }
}
