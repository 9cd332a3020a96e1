//! Every bound of the server: name, default and consequence. The tables of `docs/LIMITS.md` are generated from this
//! file; a test of `crates/server` keeps them equal.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_clients::{ACCOUNTS_KEPT, Bound, OldAnswers, bounds, fixed_bounds};
use birdhouse_net::{Reads, V2_REST_BYTES_MAX};

/// Most requests to the node at a time. Core answers with 16 threads and queues 64.
const NODE_CALLS_MAX: u16 = 32;

/// Scan keys of silent payments that a listener takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum ScanKeys {
    /// None.
    Off,
    /// Those that nobody on the way can read: over TLS, or from a private address.
    Encrypted,
    /// All.
    Any,
}

impl Bound for ScanKeys {
    fn expected() -> String {
        "\"off\", \"encrypted\" or \"any\"".into()
    }

    fn to_text(&self) -> String {
        <&str>::from(self).into()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

bounds! {
    /// The bounds of one listener.
    Limits, given as LimitsGiven {
        /// Open connections.
        connections: usize = 10_000 => "for a new one, the connection without traffic for longest, of the largest network, is closed",
        /// Open connections of one network: an IPv4 /24 or IPv6 /48. An IPv6 /32 has four times as many.
        network_connections: Option<usize> = Some(1000) =>
            "for a new one, its connection without traffic for longest is closed",
        /// Open connections of one client: an IPv4 address, an IPv6 network, or a Tor circuit.
        client_connections: Option<usize> = Some(50) =>
            "a new connection is closed; over plain TCP it gets error -101 first",
        /// Processor and node time that one client may use in a burst, with a small charge for every byte.
        client_work: Option<Duration> = Some(Duration::from_mins(5)) =>
            "its requests get error -101, which says when to retry, and its socket is not read for a second",
        /// Rate at which used `client-work` comes back, in percent of one processor.
        client_work_percent: u32 = 50 => "as `client-work`",
        /// Time from accepting a connection until it can carry messages: PROXY header, TLS, WebSocket upgrade.
        handshake_timeout: Duration = Duration::from_secs(10) => "the connection is closed",
        /// Time from the handshake to the first message.
        first_message_timeout: Duration = Duration::from_mins(1) => "the connection is closed",
        /// Time from the first byte of a message to its last.
        message_timeout: Duration = Duration::from_mins(2) => "the connection is closed",
        /// Time without a message from the client. Wallets ping every 1 to 5 minutes.
        idle_timeout: Duration = Duration::from_mins(30) => "the connection is closed",
        /// Time in which the client reads nothing of what is written to it.
        write_timeout: Duration = Duration::from_mins(1) => "the connection is closed",
        /// Time to read the replies to a message. A client that reads slowly keeps replaced files on disk at most this
        /// long.
        reply_timeout: Duration = Duration::from_hours(1) => "the connection is closed",
        /// Bytes of a message from the client, without its line end.
        message_bytes: usize = 1_000_000 => "error -101 with id null, then the connection is closed",
        /// Bytes of a request's id, as written.
        request_id_bytes: usize = 1_000 => "error -32600 with id null",
        /// Requests in a batch.
        batch_items: usize = 2_000 => "one error -32600 with id null for the batch",
        /// Unanswered requests of one connection; a batch counts with its items.
        requests_in_flight: u32 = 256 => "the socket is not read until one is answered",
        /// Scripts and outpoints that one connection subscribes to.
        subscriptions: usize = 100_000 => "the request gets error -101",
        /// Scripts and outpoints that one client subscribes to, over all of its connections.
        client_subscriptions: Option<usize> = Some(200_000) => "the request gets error -101",
        /// Bytes of replies that one client has not read, over all of its connections; includes unfinished batches, and
        /// transactions that wait to be broadcast.
        client_unsent_bytes: Option<usize> = Some(64_000_000) => "as `unsent-bytes`, for its connections alone",
        /// Bytes of replies that one connection has not read.
        outgoing_bytes: usize = 8_000_000 =>
            "its further requests wait until it has read; only the latest state of a subscription is sent",
        /// Scan keys of silent payments that clients may send: "off", "encrypted" (over TLS, or from a private
        /// address), "any". A key shows all payments to its address.
        scan_keys: ScanKeys = ScanKeys::Off =>
            "off: the methods do not exist; encrypted: a key sent in clear gets error -32602",
        /// Subscriptions of one connection to silent payments.
        silent_subscriptions: usize = 100 => "the request gets error -32602",
        /// Subscriptions of one client to silent payments, over all of its connections.
        client_silent_subscriptions: Option<usize> = Some(200) => "the request gets error -32602",
        /// Histories of silent payments of one client that are scanned, or wait for their turn.
        client_silent_scans: Option<usize> = Some(20) => "the request gets error -32602",
        /// Answers of an index that is first built, or more than 1000 blocks behind a node that downloads the chain:
        /// "serve" (as of the block that it has reached), "refuse".
        answer_while_building: OldAnswers = OldAnswers::Refuse => "refuse: error -102 \"indexing, .. %\"",
        /// Bytes of the blocks of tweaks (Cake Wallet's dialect) that one request asks for, several blocks together, as
        /// long as none is left out.
        tweak_stream_bytes: Option<usize> = Some(256_000_000) =>
            "error -32602 with \"exceeds\" and \"cap\"; the wallet asks for half",
        /// Bytes of one reply.
        reply_bytes: usize = 64_000_000 => "error 10001 \"history too large\"; in a batch -101 for the items beyond",
    }
}

bounds! {
    /// The bounds that all listeners share.
    ServerLimits, given as ServerLimitsGiven {
        /// Processors that work for clients of all protocols, two turns each; 0 takes all of them.
        processors: u16 = 0 => "requests wait for their turn; one client holds at most one turn for each processor and, while others ask, one for every second processor, at least one",
        /// Threads of all protocols that read from disk, at least 1.
        read_threads: u16 = 32 => "reads wait for their turn; one client has at most half of the threads",
        /// Concurrent requests to the node, 1 to 32.
        node_calls: u16 = 6 => "requests of wallets and of REST wait for their turn; one client has at most half of the calls; Core 32 and later keep 16 connections (`rpcmaxconnections`), of which the index takes 8",
        /// Scripts and outpoints that all connections subscribe to.
        subscriptions: usize = 5_000_000 => "the request gets error -101",
        /// Subscriptions of all connections to silent payments.
        silent_subscriptions: usize = 10_000 => "the request gets error -32602",
        /// Histories of silent payments that are scanned, or wait for their turn.
        silent_scans: usize = 1_000 => "the request gets error -32602",
        /// Memory for partial messages of all connections, beyond a few kilobytes each.
        partial_message_bytes: usize = 256_000_000 =>
            "a connection that needs more gets error -101 with id null and is closed",
        /// Memory for replies that clients have not read, including unfinished batches.
        unsent_bytes: usize = 256_000_000 =>
            "each connection may hold 64 kB, beyond that its requests wait; in a batch -101 for the items beyond, and for replies beyond twice this; transactions to broadcast get -101",
        /// Time for requests in flight when the server stops.
        shutdown_timeout: Duration = Duration::from_secs(3) => "the connections are dropped",
    }
}

fixed_bounds! {
    // A difficulty period.
    /// Headers in one answer.
    HEADERS_MAX: u32 = 2016 => "fewer are sent than were asked for",
    // Core's `MAX_PACKAGE_COUNT`.
    /// Transactions in a package.
    PACKAGE_TRANSACTIONS_MAX: usize = 25 => "error 1",
    // As many as the largest transaction that fits a block has.
    /// Digits in a reply to `server.ping`.
    PONG_DIGITS_MAX: u32 = 8_000_000 => "error 1",
    // While nobody can know their script, each is looked up again at every update.
    /// Outpoints of one connection's subscriptions that have neither `spk_hint` nor a funding transaction.
    UNOWNED_OUTPOINTS_MAX: usize = 100 => "the request gets error -101",
    // A client may name the same script for all of them, and then each is looked up when that one is touched.
    /// Outpoints of one connection's subscriptions that have `spk_hint` and no funding transaction.
    HINTED_OUTPOINTS_MAX: usize = 1000 => "the request gets error -101",
    // Frigate's, whose clients know its error.
    /// Labels in a subscription to silent payments.
    SILENT_LABELS_MAX: usize = 10 => "error -32602",
    // Each multiplies points for its keys and labels, a third of a millisecond, while updates wait for the connection.
    /// Requests about silent payments in a batch.
    SILENT_BATCH_MAX: usize = 10 => "the request gets error -101",
    // Each holds the rows of 16 blocks, up to some megabytes.
    /// Histories of silent payments whose blocks are in memory at once.
    SILENT_PIECES_MAX: usize = 64 => "others wait until one has scanned its blocks",
    // Wallets wait for 30 s or more.
    /// Time in which blocks that a pruned node has removed are fetched from its peers, each time.
    FETCH_PATIENCE: Duration = Duration::from_secs(25) => "error -102; the fetch goes on",
    // As many transactions as a script has whose counts are not in the index.
    /// Transactions of such blocks that are fetched at once for one request.
    FETCHED_PARTS_MAX: usize = 512 => "error -102",
    /// Transactions of such blocks that are fetched ahead for one connection, where `prefetch-removed-blocks` is on.
    PREFETCHED_PARTS_MAX: usize = 512 => "further ones are fetched when the client asks for them",
    // What it needs may show only when it is read again.
    /// Times that blocks are fetched for one request.
    FETCHES_MAX: u32 = 8 => "error -102",
    // Each spender is read, some 50 us if spent.
    /// Taproot outputs of the blocks that one request for tweaks asks for with their spenders: version 1, historical.
    TWEAK_OUTPUTS_MAX: u64 = 25_000 => "error -32602 with \"exceeds\" and \"cap\"; the wallet asks for half",
    /// Streams of tweaks of one connection, which are sent one after the other.
    TWEAK_STREAMS_MAX: usize = 10 => "the request gets error -101",
    /// Peers in the list.
    PEERS_MAX: usize = 200 => "the new peer is not listed",
    // So that no network takes the whole list.
    /// Peers of one network (16 bits of the address, 32 for IPv6), listed or pending.
    PEERS_PER_NETWORK: usize = 2 => "the new peer is not listed; `server.add_peer` returns false",
    /// Announced peers that were not probed yet.
    WAITING_MAX: usize = 32 => "`server.add_peer` returns false";
    "Bytes of a PROXY header of version 2, beyond the first 16": V2_REST_BYTES_MAX => "the connection is closed",
    "Disconnected clients whose use is remembered": ACCOUNTS_KEPT => "the half that used least is forgotten",
}

impl Limits {
    /// Defaults for unknown clients.
    pub fn public() -> Self {
        Self::default()
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
            network_connections: None,
            client_connections: None,
            client_work: None,
            client_subscriptions: None,
            client_unsent_bytes: None,
            client_silent_subscriptions: None,
            client_silent_scans: None,
            tweak_stream_bytes: None,
            scan_keys: ScanKeys::Encrypted,
            answer_while_building: OldAnswers::Serve,
            ..Self::public()
        }
    }

    /// Returns the tables of the manual, in Markdown.
    pub fn manual() -> String {
        let listener = Self::rows(&[Self::public(), Self::private()]);
        let (server, fixed) = (ServerLimits::rows(&[ServerLimits::default()]), fixed_rows());
        format!(
            "| of a listener | | public | private | when it is reached |\n|---|---|---|---|---|\n{listener}\n\
             | of the server | | default | when it is reached |\n|---|---|---|---|\n{server}\n\
             | fixed | | when it is reached |\n|---|---|---|\n{fixed}"
        )
    }
}

impl ServerLimits {
    /// Returns [`Self::processors`], with 0 replaced by the machine's number of processors.
    fn processors(&self) -> usize {
        match self.processors {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            processors => processors.into(),
        }
    }

    /// Returns [`Self::node_calls`] within its bounds.
    pub fn node_calls(&self) -> u16 {
        self.node_calls.clamp(1, NODE_CALLS_MAX)
    }

    /// Makes the turns of reads and node calls, for all servers of a process.
    pub fn reads(&self) -> Arc<Reads> {
        Arc::new(Reads::new(self.processors(), self.read_threads, self.node_calls()))
    }

    /// Returns the largest number of threads that wait for disk and node or work for clients.
    pub fn blocking_threads(&self) -> usize {
        2 * self.processors() + usize::from(self.read_threads) + usize::from(self.node_calls())
    }
}
