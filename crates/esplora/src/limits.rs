//! Every bound of the REST API: name, default and consequence. The tables of `docs/LIMITS.md` are generated from this
//! file; a test of `crates/server` keeps them equal.

use std::time::Duration;

use birdhouse_clients::{Bound as _, bounds, fixed};
use birdhouse_net::ClientBounds;

bounds! {
    /// The bounds of the REST API.
    Limits, given as LimitsGiven {
        /// Open connections.
        connections: usize => "a new connection waits to be accepted",
        /// Open connections of one client.
        client_connections: Option<usize> => "a new connection is closed",
        /// Processor and node time that one client may use in a burst, with a small charge for every byte.
        client_work: Option<Duration> => "its requests get status 429, which says when to retry",
        /// Rate at which used `client-work` comes back, in percent of one processor.
        client_work_percent: u32 => "as `client-work`",
        /// Time from accepting a connection until it can carry requests: PROXY header, TLS.
        handshake_timeout: Duration => "the connection is closed",
        /// Time until a request's head is whole: from the connection's start, or from the last answer.
        head_timeout: Duration => "the connection is closed",
        /// Time from a request's head to the end of its body.
        body_timeout: Duration => "status 408",
        /// Time in which the client reads nothing of what is written to it.
        write_timeout: Duration => "the connection is closed",
        /// Bytes of a request's body.
        body_bytes: usize => "status 413",
        /// Unspent outputs in one answer.
        unspent: usize => "status 400 `Too many unspent outputs`",
        /// Threads that read the index from disk, at least 1.
        read_threads: u16 => "reads wait for their turn; one client has at most half of the threads",
        /// Concurrent requests to the node, at least 1.
        node_calls: u16 => "requests wait for their turn; one client has at most half of the calls",
        /// Memory for answers that clients have not read.
        unsent_bytes: usize => "status 503 for requests that read the index",
        /// Bytes of answers that one client has not read, over all of its connections.
        client_unsent_bytes: Option<usize> => "as `unsent-bytes`, for its connections alone",
    }
}

/// Bytes of a request's head.
pub(crate) const HEAD_BYTES: usize = 16 * 1024;
/// Transactions on a page of a block or of confirmed transactions.
pub(crate) const PAGE: usize = 25;
/// Transactions of the mempool on a page.
pub(crate) const MEMPOOL_PAGE: usize = 50;
/// Blocks on a page.
pub(crate) const BLOCKS_PAGE: u32 = 10;
/// Blocks on a page of `/v1/blocks`.
pub(crate) const BLOCKS_PAGE_V1: usize = 15;
/// Entries of a page of `txs/summary`.
pub(crate) const SUMMARY_PAGE: usize = 5000;
/// Txids on a page of the mempool's.
pub(crate) const TXIDS_PAGE: usize = 10_000;
/// Transactions whose outputs one request asks about.
pub(crate) const OUTSPENDS_TXIDS: usize = 50;
/// Transactions of a package, or of a test by the node.
pub(crate) const PACKAGE: usize = 25;
/// Addresses of one request.
pub(crate) const ADDRESSES: usize = 300;
/// Bytes of a block that are read and sent together.
pub(crate) const BLOCK_PIECE_BYTES: u32 = 256 * 1024;

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            client_connections: Some(50),
            client_work: Some(Duration::from_mins(5)),
            client_work_percent: 50,
            handshake_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_mins(1),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_mins(1),
            body_bytes: 1_000_000,
            unspent: 500,
            read_threads: 32,
            node_calls: 8,
            unsent_bytes: 256_000_000,
            client_unsent_bytes: Some(64_000_000),
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

    /// Returns the largest number of threads that wait for disk and node or work for clients.
    pub fn blocking_threads(&self) -> usize {
        2 * processors() + usize::from(self.read_threads) + usize::from(self.node_calls)
    }

    /// Returns the tables of `docs/LIMITS.md`, in Markdown.
    pub fn manual() -> String {
        let rest = Self::rows(&[Self::default()]);
        let fixed = fixed_rows();
        format!(
            "| of REST | | default | when it is reached |\n|---|---|---|---|\n{rest}\n\
             | fixed, of REST | | when it is reached |\n|---|---|---|\n{fixed}"
        )
    }
}

/// Returns the number of processors of the machine.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Rows for the bounds that are constants of the code rather than settings.
fn fixed_rows() -> String {
    let next = "the next page follows from its last entry";
    let bounds = [
        ("Bytes of a request's head", HEAD_BYTES.to_text(), "status 431"),
        ("Transactions on a page of a block or of confirmed transactions", PAGE.to_text(), next),
        ("Transactions of the mempool on a page", MEMPOOL_PAGE.to_text(), "older ones are left out"),
        ("Blocks on a page", BLOCKS_PAGE.to_text(), next),
        ("Blocks on a page of `/v1/blocks`", BLOCKS_PAGE_V1.to_text(), next),
        ("Entries of a page of `txs/summary`", SUMMARY_PAGE.to_text(), next),
        ("Txids on a page of the mempool's", TXIDS_PAGE.to_text(), next),
        ("Transactions of `/txs/outspends`", OUTSPENDS_TXIDS.to_text(), "status 400 `Too many txids requested`"),
        ("Transactions of a package or a test", PACKAGE.to_text(), "status 400 `Exceeded maximum of 25 transactions`"),
        ("Addresses of one request", ADDRESSES.to_text(), "status 422 `body too long`"),
    ];
    fixed(&bounds)
}
