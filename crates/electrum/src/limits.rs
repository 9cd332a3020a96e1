//! Settings that bound the server: name, default, and effect of each. The tables of the manual are made from this file,
//! and a test of the server keeps them equal.

mod manual;

use std::time::Duration;

use birdhouse_clients::bounds;

bounds! {
    /// The bounds of one listener.
    Limits, given as LimitsGiven {
        /// Open connections.
        connections: usize => "the newcomer is closed, over plain TCP with error -101",
        /// Open connections of one client: an IPv4 address, an IPv6 network, or a Tor circuit.
        client_connections: Option<usize> => "the newcomer is closed, over plain TCP with error -101",
        /// Time that may be spent on one client at once: of processors, of the node, and a little for every byte.
        client_work: Option<Duration> =>
            "its requests get error -101 that says when to ask again, and it is not listened to for a second",
        /// What of that is forgiven as time passes: percent of one processor.
        client_work_percent: u32 => "as `client-work`",
        /// From the accepted connection to the moment when messages can come: PROXY header, TLS, WebSocket upgrade.
        handshake: Duration => "the connection is closed",
        /// From the handshake to the first message.
        first_message: Duration => "the connection is closed",
        /// From the first byte of a message to its last.
        message: Duration => "the connection is closed",
        /// Silence of a client. Wallets ping every 1 to 5 minutes.
        idle: Duration => "the connection is closed",
        /// Time in which a client takes no byte of what is written to it.
        stalled_write: Duration => "the connection is closed",
        /// Bytes of a message from the client, without its end.
        line_bytes: usize => "error -101 with id null, then the connection is closed",
        /// Bytes of a request's id, as written.
        id_bytes: usize => "error -32600 with id null",
        /// Requests in a batch.
        batch_items: usize => "one error -32600 with id null for the batch",
        /// Requests of one connection that are read and not yet answered; a batch counts with its items.
        requests_in_flight: u32 => "reading waits until one is answered",
        /// Scripts and outpoints that one connection follows.
        subscriptions: usize => "the request gets error -101",
        /// Scripts and outpoints that one client follows, over all of its connections.
        client_subscriptions: Option<usize> => "the request gets error -101",
        /// Bytes of replies that one client has not taken, over all of its connections; of unfinished batches too.
        client_unsent_bytes: Option<usize> => "as `unsent-bytes`, for its connections alone",
        /// Bytes of replies that wait for a slow reader.
        outgoing_bytes: usize =>
            "its further requests wait until it has read; notifications coalesce to the latest state",
        /// Bytes of one reply.
        reply_bytes: usize => "error 10001 \"history too large\"; in a batch -101 for the items beyond",
    }
}

bounds! {
    /// The bounds that all listeners share.
    ServerLimits, given as ServerLimitsGiven {
        /// Processors that work for clients, two turns each; 0: as many as the machine has.
        processors: u16 => "requests wait for their turn; one client has at most half of the turns",
        /// Threads that wait for the disk, at least 1.
        read_threads: u16 => "reads wait for their turn; one client has at most half of the threads",
        /// Requests to the node at one time, at least 1.
        node_calls: u16 => "they wait for their turn; one client has at most half of them",
        /// Scripts and outpoints that all connections follow.
        subscriptions: usize => "the request gets error -101",
        /// Memory for the beginnings of messages, beyond a few kilobytes a connection.
        unfinished_bytes: usize => "who needs more gets error -101 with id null and is closed",
        /// Memory for replies that clients have not taken, those of unfinished batches too.
        unsent_bytes: usize =>
            "each connection may hold 64 kB, beyond that its requests wait; in a batch -101 for the items beyond",
        /// Time for requests in flight when the server ends.
        shutdown: Duration => "the connections are dropped",
    }
}

impl Limits {
    /// For clients that are strangers.
    pub fn public() -> Self {
        Self {
            connections: 10_000,
            client_connections: Some(50),
            client_work: Some(Duration::from_mins(5)),
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
            client_subscriptions: Some(200_000),
            client_unsent_bytes: Some(64_000_000),
            outgoing_bytes: 8_000_000,
            reply_bytes: 64_000_000,
        }
    }

    /// For the operator's own clients: nothing is counted by client. What keeps the server itself in bounds stays.
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
            unfinished_bytes: 256_000_000,
            unsent_bytes: 256_000_000,
            shutdown: Duration::from_secs(3),
        }
    }
}

impl ServerLimits {
    /// [`Self::processors`], with those of the machine put in for 0.
    pub(crate) fn processors(&self) -> usize {
        match self.processors {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            processors => processors.into(),
        }
    }

    /// How many threads at most wait for disk and node, or work for clients.
    pub fn blocking_threads(&self) -> usize {
        2 * self.processors() + usize::from(self.read_threads) + usize::from(self.node_calls)
    }
}
