//! HTTP for programs of the operator, and pages for the operator: watched wallets, streams of their changes, invoices.
//!
//! Routes, JSON and the categories of changes are those of Bitcoin Wallet Tracker (`bwt`), as its documentation has
//! them, so that its clients work; a wallet has the checksum of its descriptor as its name, and here that of its watch,
//! too. Invoices, labels and pages are additions.
//!
//! A request passes `entrance` (bounds, token), `routes`, and an endpoint, which answers from one snapshot. `change`
//! has the difference of two snapshots; `feed` makes items of it, which leave as server-sent events or by `socket`.
//! `invoice_book` makes invoices and follows them.
//!
//! Invariants: every answer but the page of an invoice needs the token; what a client asks for is not logged; a stream
//! misses nothing over a restart, a reorg, or its own slowness.
//!
//! Source: <https://github.com/bwt-dev/bwt#http-api>

mod auth;
mod change;
mod endpoints;
mod entrance;
mod failure;
mod feed;
mod history;
mod invoice_book;
mod item;
mod missing;
mod params;
mod parts;
mod payments;
mod portions;
mod reply;
mod routes;
mod service;
mod socket;
mod wallets;
mod wish;

use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_chain::Index;
use birdhouse_chain::source::Node;
use birdhouse_net::{ConnectionInfo, Listener, SeatCounts};
use tokio::net::TcpListener;

pub use self::auth::{TOKEN_CHARS_MIN, Token};
pub use self::service::Settings;
pub use self::wallets::{Branch, BranchScripts, Following, Origin, Wallets};
use crate::error::Result;
use crate::state::State;

/// The server of the API. Clones are handles on the same one.
#[derive(Clone)]
pub struct Api {
    service: Arc<service::Service>,
}

/// State of the server, without single connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// Connections that are open, by listener.
    pub connections: Vec<(String, usize)>,
    /// Connections that were closed to make room for others.
    pub refused_connections: SeatCounts,
}

impl Api {
    /// Creates a server of these wallets. Without a node it cannot broadcast, nor estimate fees.
    ///
    /// # Errors
    /// Failures of the file of the watches.
    pub fn new(
        index: Arc<Index>,
        node: Option<Arc<dyn Node>>,
        wallets: Arc<dyn Wallets>,
        state: State,
        settings: Settings,
    ) -> Result<Self> {
        Ok(Self { service: Arc::new(service::Service::new(index, node, wallets, state, settings)?) })
    }

    /// Returns the state of the server.
    pub fn overview(&self) -> Overview {
        Overview {
            connections: self.service.registry.by_listener(),
            refused_connections: self.service.refused.counts(),
        }
    }

    /// Returns every connection, the oldest first.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        self.service.registry.list(Instant::now())
    }

    /// Ends a connection. Returns false if there is none of this number.
    pub fn disconnect(&self, id: u64) -> bool {
        self.service.registry.disconnect(id)
    }

    /// Serves clients on every socket, and follows invoices, until `shutdown` completes. Requests in flight then have
    /// `grace` to be answered.
    pub async fn serve(
        self,
        sockets: Vec<(TcpListener, Listener<()>)>,
        grace: Duration,
        shutdown: impl Future<Output = ()>,
    ) {
        let Self { service } = self;
        let (invoices, index) = (Arc::clone(&service.invoices), Arc::clone(&service.index));
        let (wallets, clock) = (Arc::clone(&service.wallets), service.settings.clock);
        let following = tokio::spawn(invoice_book::follow(invoices, index, wallets, clock));
        entrance::serve(service, sockets, grace, shutdown).await;
        following.abort();
    }
}
