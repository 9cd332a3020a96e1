//! A blocking HTTP client for the node, with keep-alive and bounds.
//!
//! A connection carries one request at a time, because Core's HTTP server delays a pipelined one until its next poll.
//! Proxies are never used. Every answer has a largest size and every step a time limit.
//!
//! From Core 32 on a node keeps 16 connections open (`rpcmaxconnections`), idle ones included; others wait unseen until
//! one ends ([`init.cpp`, `-rpcmaxconnections`](https://github.com/bitcoin/bitcoin/pull/35730)). So all clients of one
//! node share their connections and divide 14 of them: the index has [`CONNECTIONS_MAX`] and one for a long poll, what
//! clients ask for has the rest. Two are left for `bitcoin-cli` and others.

use std::io;
use std::time::Duration;

use birdhouse_chain::source::{SourceError, SourceResult};
use parking_lot::{Condvar, Mutex};
use ureq::Agent;

use crate::error::{permanent, transient};

/// Number of concurrent requests of the index, by RPC and REST together.
pub(crate) const CONNECTIONS_MAX: usize = 5;
/// Number of idle connections that are kept.
const IDLE_CONNECTIONS_MAX: usize = 14;
/// Time limit of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit of an answer, body included. Verbose blocks take seconds on small machines.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_mins(2);
/// Idle time after which a connection is dropped; Core closes it after 30 s.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// The kind of connection that a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// One of the bounded connections.
    Bounded,
    /// A connection of its own, for a long poll that would hold a bounded one too long.
    Own,
}

/// An answer of the node.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// An HTTP client of one server.
#[derive(Debug)]
pub(crate) struct Http {
    agent: Agent,
    address: String,
    free: Mutex<usize>,
    freed: Condvar,
}

impl Http {
    /// Returns a client of the server at `host:port`, with [`CONNECTIONS_MAX`] requests at a time. It sends nothing
    /// yet.
    pub(crate) fn new(address: &str) -> Self {
        let config = Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .max_idle_connections(IDLE_CONNECTIONS_MAX)
            .max_idle_connections_per_host(IDLE_CONNECTIONS_MAX)
            .max_idle_age(IDLE_MAX)
            .build();
        Self::of(Agent::new_with_config(config), address, CONNECTIONS_MAX)
    }

    /// Returns a client of the same server with this many requests of its own at a time, at least one. Both reuse each
    /// other's idle connections, so no more are open than requests may be under way.
    pub(crate) fn beside(&self, requests: usize) -> Self {
        Self::of(self.agent.clone(), &self.address, requests)
    }

    fn of(agent: Agent, address: &str, requests: usize) -> Self {
        Self { agent, address: address.to_owned(), free: Mutex::new(requests.max(1)), freed: Condvar::new() }
    }

    /// Returns `host:port` of the server.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Gets `path`. An answer of more than `limit` bytes is an error.
    pub(crate) fn get(&self, path: &str, limit: u64) -> SourceResult<Reply> {
        let _slot = self.slot(Lane::Bounded);
        let url = format!("http://{}{path}", self.address);
        self.with_retry(|| {
            let request = self.agent.get(&url).config().timeout_global(Some(ANSWER_TIMEOUT)).build();
            read(request.call()?, limit)
        })
    }

    /// Posts JSON to `/`. An answer of more than `limit` bytes is an error.
    pub(crate) fn post(
        &self,
        authorization: &str,
        body: &[u8],
        limit: u64,
        timeout: Duration,
        lane: Lane,
    ) -> SourceResult<Reply> {
        let _slot = self.slot(lane);
        let url = format!("http://{}/", self.address);
        self.with_retry(|| {
            let request = self.agent.post(&url).config().timeout_global(Some(timeout)).build();
            let request = request.header("Authorization", authorization).content_type("application/json");
            read(request.send(body)?, limit)
        })
    }

    /// Sends a request, and sends it again when the node had closed the kept connection.
    fn with_retry(&self, ask: impl Fn() -> Result<Reply, ureq::Error>) -> SourceResult<Reply> {
        match ask() {
            Err(ureq::Error::Io(e)) if is_stale(&e) => ask(),
            other => other,
        }
        .map_err(|e| self.unreachable(&e))
    }

    fn unreachable(&self, error: &ureq::Error) -> SourceError {
        let address = &self.address;
        match error {
            ureq::Error::Io(e) if e.kind() == io::ErrorKind::ConnectionRefused => transient(format!(
                "failed to connect to {address}: nothing listens there; is bitcoind running with server=1, and is this its \
                 rpcport?"
            )),
            ureq::Error::Timeout(_) => {
                transient(format!("failed to get an answer from the node at {address}: it took too long"))
            }
            ureq::Error::HostNotFound => {
                permanent(format!("failed to connect to {address}: the host is unknown; check --rpc-addr"))
            }
            ureq::Error::BodyExceedsLimit(limit) => permanent(format!(
                "failed to read the answer of {address}: it exceeds {limit} bytes; is this a Bitcoin node?"
            )),
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
                permanent(format!("failed to connect to {address}: {error}; give host:port in --rpc-addr"))
            }
            // Core before 32 says 403 instead.
            ureq::Error::Io(e) if is_stale(e) => transient(format!(
                "failed to ask the node at {address}: it closed the connection without an answer; is the address of this \
                 server in its rpcallowip?"
            )),
            _ => transient(format!("failed to ask the node at {address}: {error}")),
        }
    }

    fn slot(&self, lane: Lane) -> Option<Slot<'_>> {
        if lane == Lane::Own {
            return None;
        }
        let mut free = self.free.lock();
        while *free == 0 {
            self.freed.wait(&mut free);
        }
        *free -= 1;
        Some(Slot(self))
    }
}

/// The right to use a bounded connection; dropping it returns the right.
struct Slot<'a>(&'a Http);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

fn read(response: ureq::http::Response<ureq::Body>, limit: u64) -> Result<Reply, ureq::Error> {
    let status = response.status().as_u16();
    let body = response.into_body().into_with_config().limit(limit).read_to_vec()?;
    Ok(Reply { status, body })
}

fn is_stale(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}
