//! Every bound of the REST API: name, default and consequence. The tables of `docs/LIMITS.md` are generated from this
//! file; a test of `crates/server` keeps them equal.
//!
//! A history or a list of unspent outputs longer than its bound is refused, never cut; lists of the mempool and of
//! replacements have the newest entries.

use std::time::Duration;

use birdhouse_clients::{OldAnswers, bounds, fixed_bounds};
use birdhouse_net::ClientBounds;

bounds! {
    /// The bounds of the REST API.
    Limits, given as LimitsGiven {
        /// Open connections.
        connections: usize = 10_000 => "for a new one, the connection without traffic for longest, of the largest network, is closed",
        /// Open connections of one network: an IPv4 /24 or IPv6 /48. An IPv6 /32 has four times as many.
        network_connections: Option<usize> = Some(1000) =>
            "for a new one, its connection without traffic for longest is closed",
        /// Open connections of one client.
        client_connections: Option<usize> = Some(50) => "a new connection is closed",
        /// Processor and node time that one client may use in a burst, with a small charge for every request and byte.
        client_work: Option<Duration> = Some(Duration::from_mins(5)) => "its requests wait for a second at most, then get status 429, which says when to retry, and so does one whose answer uses it up",
        /// Rate at which used `client-work` comes back, in percent of one processor.
        client_work_percent: u32 = 50 => "as `client-work`",
        /// Time from accepting a connection until it can carry requests: PROXY header, TLS.
        handshake_timeout: Duration = Duration::from_secs(10) => "the connection is closed",
        /// Time until a request's head is whole: from the connection's start, or from the last answer.
        head_timeout: Duration = Duration::from_mins(1) => "the connection is closed",
        /// Time from a request's head to the end of its body.
        body_timeout: Duration = Duration::from_secs(30) => "status 408",
        /// Time in which the client reads nothing of what is written to it.
        write_timeout: Duration = Duration::from_mins(1) => "the connection is closed",
        /// Time to read an answer that is made meanwhile, or a message of a WebSocket. A client that reads slowly keeps
        /// replaced files on disk at most this long.
        download_timeout: Duration = Duration::from_hours(1) => "the connection is closed",
        /// Answers of an index that is first built, or more than 1000 blocks behind a node that downloads the chain:
        /// "serve" (as of the block that it has reached), "refuse". Requests over loopback are answered in any case.
        answer_while_building: OldAnswers = OldAnswers::Refuse => "refuse: status 503",
        /// Bytes of a request's body.
        body_bytes: usize = 1_000_000 => "status 413",
        /// Unspent outputs in one answer.
        unspent: usize = 500 => "status 400 `Too many unspent outputs`",
        /// Memory for answers that are made, or that clients have not read, and for bodies of requests; answers that
        /// were begun before it was used up go to twice this at most. Beyond half of it, answers are not compressed.
        unsent_bytes: usize = 256_000_000 => "status 503",
        /// Addresses and transactions that all WebSockets and streams of `/events` track.
        tracked: usize = 200_000 =>
            "further ones are not tracked: an error of `/v1/ws` says so, and status 429 of `/events`",
        /// Addresses and transactions that one client tracks over all of its WebSockets and streams of `/events`.
        client_tracked: Option<usize> = Some(2_000) => "as `tracked`",
        /// Bytes of answers that are made for one client, or that it has not read, and of requests that are not
        /// answered, over all of its connections.
        client_unsent_bytes: Option<usize> = Some(64_000_000) => "as `unsent-bytes`, for its connections alone",
    }
}

fixed_bounds! {
    /// Pause before a request of a client that has used its `client-work`.
    OVERDRAWN_PAUSE: Duration = Duration::from_secs(1) => "no further request of its connection is taken meanwhile; then the answer, or status 429",
    /// Answers that gave their turns back to other clients and wait to go on.
    PAUSED_ANSWERS: usize = 64 => "the one that has worked for longest ends: status 503, or the end of its connection",
    /// Wait for a turn to ask the node.
    NODE_PATIENCE: Duration = Duration::from_secs(5) => "fees as they were last, with their age; status 503 for what the node alone can answer",
    /// Time in which blocks that a pruned node has removed are fetched from its peers, each time.
    FETCH_PATIENCE: Duration = Duration::from_secs(5) => "status 503, which says when to ask again; the fetch goes on",
    // As many transactions as a script has whose counts are not in the index.
    /// Transactions of such blocks that are fetched at once for one answer.
    FETCHED_PARTS_MAX: usize = 512 => "status 503",
    // What it needs may show only when it is made again.
    /// Times that blocks are fetched for one answer.
    FETCHES_MAX: u32 = 8 => "status 503",
    /// Age of the node's last fee rates while it does not answer.
    FEES_AGE_MAX: Duration = birdhouse_chain::NODE_VALUE_AGE_MAX => "status 503",
    /// Bytes of a request's head.
    HEAD_BYTES: usize = 16 * 1024 => "status 431",
    /// Transactions on a page of a block or of confirmed transactions.
    PAGE: usize = 25 => "the next page follows from its last entry",
    /// Transactions of the mempool on a page.
    MEMPOOL_PAGE: usize = 50 => "older ones are left out",
    /// Blocks on a page.
    BLOCKS_PAGE: u32 = 10 => "the next page follows from its last entry",
    /// Blocks on a page of `/v1/blocks`.
    BLOCKS_PAGE_V1: usize = 15 => "the next page follows from its last entry",
    /// Entries of a page of `txs/summary`.
    SUMMARY_PAGE: usize = 5000 => "the next page follows from its last entry",
    /// Txids on a page of the mempool's.
    TXIDS_PAGE: usize = 10_000 => "the next page follows from its last entry",
    /// Transactions of `/txs/outspends`.
    OUTSPENDS_TXIDS: usize = 50 => "status 400 `Too many txids requested`",
    /// Outputs of the transactions of `/txs/outspends`, those of repeated txids each time.
    OUTSPENDS_OUTPUTS: u64 = 120_000 => "status 400 `Too many outputs requested`; no single transaction has as many",
    /// Transactions of a package or a test.
    PACKAGE: usize = 25 => "status 400 `Exceeded maximum of 25 transactions`",
    /// Addresses of one request.
    ADDRESSES: usize = 300 => "status 422 `body too long`",
    /// Txids of `/v1/transaction-times`.
    TIMES_TXIDS: usize = 100 => "status 400 `Too many txids requested`",
    /// Transactions of `/v1/replacements`.
    REPLACEMENTS_PAGE: usize = 25 => "older ones are left out",
    /// Versions of a transaction that was replaced again and again.
    VERSIONS_SHOWN: usize = 100 => "the oldest ones are left out",
    /// Blocks that a reorg took out of the chain and pages tell of.
    STALE_BLOCKS: usize = 64 => "the one that left first is forgotten",
    /// Transactions of these blocks.
    STALE_TXIDS: usize = 20_000 => "those of the blocks that left first are forgotten",
    /// Transactions on a page of `/internal/mempool/txs`.
    INTERNAL_PAGE: usize = 10_000 => "the next page follows from its last entry",
    /// Addresses and transactions of one stream of `/events`.
    WATCHED: usize = 300 => "status 400 `Exceeded maximum of 300 addresses and transactions`",
    /// Addresses and transactions that one WebSocket of `/v1/ws` tracks.
    TRACKED: usize = 300 => "an error in place of the answer; the list is not tracked",
    /// Transactions of an address that one message of a WebSocket shows, of each kind.
    TRACKED_SHOWN: usize = 100 => "older ones are left out; `/address/:address/txs` has them",
    /// Outputs of a tracked transaction whose spending is reported.
    TRACKED_OUTPUTS: usize = 256 => "further ones are left out; `/tx/:txid/outspends` has them",
    /// Blocks of `blocks` in a message of a WebSocket.
    LIVE_BLOCKS: u32 = 8 => "older ones are left out",
    /// Transactions of a projected block in a message of a WebSocket.
    PROJECTED_SHOWN: usize = 10_000 => "those with lower fee rates are left out",
    /// Time between messages of a WebSocket about what changes with every transaction.
    LIVE_PACE: Duration = Duration::from_secs(1) => "changes in between are sent together",
    /// Bytes of a message of a WebSocket's client.
    LIVE_MESSAGE_BYTES: usize = 64 * 1024 => "the WebSocket is closed with status 1009",
    /// Memory for messages of WebSockets' clients that are not whole.
    LIVE_PARTIAL_BYTES: usize = 16_000_000 => "the WebSocket is closed with status 1013",
    /// Time in which a WebSocket's client must read something while the memory for what waits is used up.
    LIVE_CROWDED: Duration = Duration::from_secs(5) => "the connection is closed",
    /// Silence after which a WebSocket's client is asked if it is there.
    LIVE_SILENCE: Duration = Duration::from_mins(1) => "a ping",
    /// Silence after that ping.
    LIVE_ANSWER: Duration = Duration::from_secs(30) => "the connection is closed",
    ;
    "Percent of the processors that do long reads for one client at a time, rounded down, at least one processor": birdhouse_net::CLIENT_PROCESSORS_PERCENT => "its reads wait for their turn",
    "Replaced transactions that are remembered": birdhouse_chain::REPLACED_MAX => "the one that was replaced first is forgotten",
}

/// Charge for a request beside its answer, also where it names nothing that exists: its head is read, and another one
/// written. On an AMD EPYC one that names nothing took 48 us of processor time alone, and 11 us among pipelined ones.
pub(crate) const REQUEST_WORK: Duration = Duration::from_micros(20);
/// Headers, or filter headers, of one file that caches may keep.
pub(crate) const HEADERS_A_FILE: u32 = 100_000;
/// Filters of one such file.
pub(crate) const FILTERS_A_FILE: u32 = 2000;
/// Blocks whose tweaks of silent payments are in one such file.
pub(crate) const TWEAKS_A_FILE: u32 = 2000;
/// Bytes of such a file that are sent together, without the last block of them.
pub(crate) const TWEAK_PIECE_BYTES: usize = 256 * 1024;
/// Bytes of a block that are read and sent together.
pub(crate) const BLOCK_PIECE_BYTES: u32 = 256 * 1024;

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

    /// Returns the largest number of threads that wait for further turns.
    pub fn blocking_threads(&self) -> usize {
        PAUSED_ANSWERS
    }

    /// Returns the tables of `docs/LIMITS.md`, in Markdown.
    pub fn manual() -> String {
        let (rest, fixed) = (Self::rows(&[Self::default()]), fixed_rows());
        format!(
            "| of REST | | default | when it is reached |\n|---|---|---|---|\n{rest}\n\
             | fixed, of REST | | when it is reached |\n|---|---|---|\n{fixed}"
        )
    }
}
