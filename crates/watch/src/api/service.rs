//! State that all requests share, and the turns in which they are answered.

use std::sync::Arc;

use birdhouse_chain::source::{BlockPart, Node};
use birdhouse_chain::{Index, Snapshot};
use birdhouse_net::{Connections, FetchBounds, Meter, PartialMessages, Reads, Registry, SeatCounters, offload};
use bitcoin::Network;
use tokio::time::timeout;

use crate::api::auth::Token;
use crate::api::failure::Failure;
use crate::api::invoice_book::InvoiceBook;
use crate::api::params::Params;
use crate::api::wallets::{Book, Wallets};
use crate::error::Result;
use crate::invoice::BeyondGap;
use crate::limits::{
    API_CONNECTIONS_MAX, API_FETCH_PATIENCE, API_FETCHED_PARTS_MAX, API_FETCHES_MAX, API_NODE_PATIENCE,
    API_SOCKET_MESSAGE_BYTES_MAX,
};
use crate::state::State;

/// Settings of the API.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The network, which decides the form of addresses.
    pub network: Network,
    /// The token that requests carry.
    pub token: Token,
    /// Numbers and bans of connections, shared with other servers of the process.
    pub connections: Connections,
    /// Turns of processors, of the disk and of the node.
    pub reads: Arc<Reads>,
    /// Rule for an invoice beyond the gap of its wallet.
    pub beyond_gap: BeyondGap,
    /// Returns the time, in seconds since 1970.
    pub clock: fn() -> u64,
}

/// State behind every connection.
pub(super) struct Service {
    pub(super) index: Arc<Index>,
    pub(super) node: Option<Arc<dyn Node>>,
    pub(super) wallets: Arc<dyn Wallets>,
    pub(super) state: State,
    pub(super) invoices: Arc<InvoiceBook>,
    pub(super) settings: Settings,
    pub(super) registry: Arc<Registry>,
    /// Memory for messages over WebSocket that are not whole.
    pub(super) partial: PartialMessages,
    /// Connections that found no seat or had to leave theirs.
    pub(super) refused: Arc<SeatCounters>,
}

/// A request, with the view of the index that its answer sees.
pub(super) struct Question<'a> {
    pub(super) service: &'a Service,
    pub(super) at: &'a Snapshot,
    pub(super) params: &'a Params,
}

/// The resource that an endpoint uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Index, mempool and the file of the watches.
    Index,
    /// The node.
    Node,
}

impl Question<'_> {
    /// Returns the watched wallets.
    pub(super) fn book(&self) -> Book<'_> {
        self.service.book()
    }

    pub(super) fn network(&self) -> Network {
        self.service.settings.network
    }

    /// Returns the time, in seconds since 1970.
    pub(super) fn now(&self) -> u64 {
        (self.service.settings.clock)()
    }

    /// Returns the node.
    pub(super) fn node(&self) -> Result<&dyn Node, Failure> {
        self.service.node.as_deref().ok_or_else(|| Failure::unavailable("this server has no node"))
    }
}

impl Service {
    pub(super) fn new(
        index: Arc<Index>,
        node: Option<Arc<dyn Node>>,
        wallets: Arc<dyn Wallets>,
        state: State,
        settings: Settings,
    ) -> Result<Self> {
        let invoices = Arc::new(InvoiceBook::open(state.clone(), settings.beyond_gap)?);
        let registry = Registry::new(birdhouse_clients::ClientKeying::default(), settings.connections.clone());
        let partial = PartialMessages::new(API_CONNECTIONS_MAX * API_SOCKET_MESSAGE_BYTES_MAX);
        Ok(Self { index, node, wallets, state, invoices, settings, registry, partial, refused: Arc::default() })
    }

    pub(super) fn book(&self) -> Book<'_> {
        Book::new(&*self.wallets, self.settings.network)
    }

    /// Reads in turns of the client, as [`Self::answer`] does.
    pub(super) async fn read<T>(
        &self,
        meter: &Arc<Meter>,
        read: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.answer(Lane::Index, meter, read).await
    }

    /// Asks in turns of the client. Fetches blocks that the node has removed, if the answer needs some.
    pub(super) async fn answer<T>(
        &self,
        lane: Lane,
        meter: &Arc<Meter>,
        mut ask: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        for _ in 0..API_FETCHES_MAX {
            let answer = self.once(lane, meter, &mut ask).await;
            let Err(Failure::Removed(parts)) = &answer else { return answer };
            if !self.fetch(meter, parts).await {
                return answer;
            }
        }
        self.once(lane, meter, ask).await
    }

    async fn once<T>(
        &self,
        lane: Lane,
        meter: &Arc<Meter>,
        ask: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let reads = &self.settings.reads;
        if lane == Lane::Index {
            return reads.offloaded(meter, |_| ask()).await;
        }
        let turn = timeout(API_NODE_PATIENCE, reads.node_calls.take(meter)).await;
        let _turn = turn.map_err(|_| Failure::unavailable("the node does not answer; try again later"))?;
        offload(ask)
    }

    /// Fetches parts of blocks that the node has removed. Returns true if all came in time.
    async fn fetch(&self, meter: &Arc<Meter>, parts: &[BlockPart]) -> bool {
        let bounds = FetchBounds { parts: API_FETCHED_PARTS_MAX, patience: API_FETCH_PATIENCE };
        let index = Arc::clone(&self.index);
        let fetch = move |part| index.fetch_removed(part).is_ok();
        self.settings.reads.fetch_within(meter, parts, bounds, fetch).await
    }
}
