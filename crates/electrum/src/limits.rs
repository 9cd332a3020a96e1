//! Every bound of the server: name, default and consequence. The tables of `docs/LIMITS.md` are generated from this
//! file; a test of `crates/server` keeps them equal.

mod manual;

use std::time::Duration;

use birdhouse_clients::bounds;

bounds! {
    /// The bounds of one listener.
    Limits, given as LimitsGiven {
        /// Open connections.
        connections: usize => "a new connection is closed; over plain TCP it gets error -101 first",
        /// Open connections of one client: an IPv4 address, an IPv6 network, or a Tor circuit.
        client_connections: Option<usize> => "a new connection is closed; over plain TCP it gets error -101 first",
        /// Processor and node time that one client may use in a burst, with a small charge for every byte.
        client_work: Option<Duration> =>
            "its requests get error -101, which says when to retry, and its socket is not read for a second",
        /// Rate at which used `client-work` comes back, in percent of one processor.
        client_work_percent: u32 => "as `client-work`",
        /// Time from accepting a connection until it can carry messages: PROXY header, TLS, WebSocket upgrade.
        handshake_timeout: Duration => "the connection is closed",
        /// Time from the handshake to the first message.
        first_message_timeout: Duration => "the connection is closed",
        /// Time from the first byte of a message to its last.
        message_timeout: Duration => "the connection is closed",
        /// Time without a message from the client. Wallets ping every 1 to 5 minutes.
        idle_timeout: Duration => "the connection is closed",
        /// Time in which the client reads nothing of what is written to it.
        write_timeout: Duration => "the connection is closed",
        /// Bytes of a message from the client, without its line end.
        message_bytes: usize => "error -101 with id null, then the connection is closed",
        /// Bytes of a request's id, as written.
        request_id_bytes: usize => "error -32600 with id null",
        /// Requests in a batch.
        batch_items: usize => "one error -32600 with id null for the batch",
        /// Unanswered requests of one connection; a batch counts with its items.
        requests_in_flight: u32 => "the socket is not read until one is answered",
        /// Scripts and outpoints that one connection subscribes to.
        subscriptions: usize => "the request gets error -101",
        /// Scripts and outpoints that one client subscribes to, over all of its connections.
        client_subscriptions: Option<usize> => "the request gets error -101",
        /// Bytes of replies that one client has not read, over all of its connections; includes unfinished batches.
        client_unsent_bytes: Option<usize> => "as `unsent-bytes`, for its connections alone",
        /// Bytes of replies that one connection has not read.
        outgoing_bytes: usize =>
            "its further requests wait until it has read; only the latest state of a subscription is sent",
        /// Bytes of one reply.
        reply_bytes: usize => "error 10001 \"history too large\"; in a batch -101 for the items beyond",
    }
}

bounds! {
    /// The bounds that all listeners share.
    ServerLimits, given as ServerLimitsGiven {
        /// Processors that work for clients, two turns each; 0 takes all of the machine's.
        processors: u16 => "requests wait for their turn; one client has at most half of the turns",
        /// Threads that read the index from disk, at least 1.
        read_threads: u16 => "reads wait for their turn; one client has at most half of the threads",
        /// Concurrent requests to the node, at least 1.
        node_calls: u16 => "requests wait for their turn; one client has at most half of the calls",
        /// Scripts and outpoints that all connections subscribe to.
        subscriptions: usize => "the request gets error -101",
        /// Memory for partial messages of all connections, beyond a few kilobytes each.
        partial_message_bytes: usize =>
            "a connection that needs more gets error -101 with id null and is closed",
        /// Memory for replies that clients have not read, including unfinished batches.
        unsent_bytes: usize =>
            "each connection may hold 64 kB, beyond that its requests wait; in a batch -101 for the items beyond",
        /// Time for requests in flight when the server stops.
        shutdown_timeout: Duration => "the connections are dropped",
    }
}

impl Limits {
    /// Defaults for unknown clients.
    pub fn public() -> Self {
        Self {
            connections: 10_000,
            client_connections: Some(50),
            client_work: Some(Duration::from_mins(5)),
            client_work_percent: 50,
            handshake_timeout: Duration::from_secs(10),
            first_message_timeout: Duration::from_mins(1),
            message_timeout: Duration::from_mins(2),
            idle_timeout: Duration::from_mins(30),
            write_timeout: Duration::from_mins(1),
            message_bytes: 1_000_000,
            request_id_bytes: 1_000,
            batch_items: 2_000,
            requests_in_flight: 256,
            subscriptions: 100_000,
            client_subscriptions: Some(200_000),
            client_unsent_bytes: Some(64_000_000),
            outgoing_bytes: 8_000_000,
            reply_bytes: 64_000_000,
        }
    }

    /// The bounds of a connection's messages.
    pub(crate) fn incoming(&self) -> birdhouse_net::Bounds {
        birdhouse_net::Bounds {
            message_bytes: self.message_bytes,
            message: self.message_timeout,
            first_message: self.first_message_timeout,
            idle: self.idle_timeout,
        }
    }

    /// Defaults for the operator's own clients: no bounds per client. The bounds that protect the server stay.
    pub fn private() -> Self {
        Self {
            client_connections: None,
            client_work: None,
            client_subscriptions: None,
            client_unsent_bytes: None,
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
            processors: 0,
            read_threads: 32,
            node_calls: 8,
            subscriptions: 5_000_000,
            partial_message_bytes: 256_000_000,
            unsent_bytes: 256_000_000,
            shutdown_timeout: Duration::from_secs(3),
        }
    }
}

impl ServerLimits {
    /// Returns [`Self::processors`], with 0 replaced by the machine's number of processors.
    pub(crate) fn processors(&self) -> usize {
        match self.processors {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            processors => processors.into(),
        }
    }

    /// Returns the largest number of threads that wait for disk and node or work for clients.
    pub fn blocking_threads(&self) -> usize {
        2 * self.processors() + usize::from(self.read_threads) + usize::from(self.node_calls)
    }
}
