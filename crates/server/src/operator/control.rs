//! Handles on the running process for the operator's tools: metrics, health and `birdhouse ctl`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{DerivedProgress, Index, MergeState, Syncing, Waiting};
use birdhouse_dial::Guard;
use birdhouse_net::Reads;
use birdhouse_node::{CallCounts, FetchCounts, Rpc};
use birdhouse_relay::{Relay, RuleBook};
use birdhouse_watch::{WatchStatus, Watches};
use bitcoin::Network;
use tokio::sync::Notify;

use crate::config::Options;
use crate::index::{NodeBlocks, Pruner};
use crate::operator::health::{Halves, Health, NodeState};
use crate::operator::node_watch::NodeWatch;
use crate::operator::shown::Shown;
use crate::operator::stores::{Part, Stores};
use crate::process::{Level, Usage, usage};
use crate::services::{Overview, Rates, Service};
use crate::storage::IndexStore;

/// Handles on the parts of the process.
pub(crate) struct Control {
    pub(crate) started: Instant,
    pub(crate) level: Level,
    /// A folder of the server's data.
    pub(crate) folder: PathBuf,
    /// `None` without an index.
    pub(crate) bitcoin: Option<Bitcoin>,
    pub(crate) services: Vec<Arc<dyn Service>>,
    /// The relay among the services, for commands about its events.
    pub(crate) relay: Option<Arc<Relay>>,
    /// Connections to other relays.
    pub(crate) dial: Arc<Guard>,
    /// The operator's rules; without a relay, those about clients.
    pub(crate) rules: Arc<RuleBook>,
    /// Watches of the operator's own wallets, where there is an index.
    pub(crate) watches: Option<Watches>,
    pub(crate) stores: Stores,
    /// The turns that clients of all protocols take.
    pub(crate) reads: Arc<Reads>,
    /// Rates of the last minute.
    pub(crate) rates: Rates,
    /// The settings that the status shows.
    pub(crate) shown: Shown,
    /// The settings of flags and variables, without those of the file.
    pub(crate) flags: Options,
    /// Notified when the operator stops the server.
    pub(crate) stop: Notify,
}

/// Handles on the index and its node.
pub(crate) struct Bitcoin {
    pub(crate) network: Network,
    pub(crate) index: Arc<Index>,
    pub(crate) store: IndexStore,
    /// `None` without a node.
    pub(crate) pruner: Option<Arc<Pruner>>,
    /// `None` without a node.
    pub(crate) node: Option<(Arc<Rpc>, Arc<NodeWatch>)>,
}

/// The state of the process at one moment.
#[derive(Debug)]
pub(super) struct State {
    pub(super) health: Halves,
    pub(crate) bitcoin: Option<BitcoinState>,
    pub(super) services: Vec<ServiceState>,
    /// Turns that are waited for, by resource.
    pub(super) waiting: [(&'static str, birdhouse_clients::Waiting); 3],
    pub(super) usage: Option<Usage>,
    pub(super) disk_free_bytes: Option<u64>,
    /// `None` without a watch.
    pub(super) watches: Option<WatchStatus>,
    /// Memory of what the log of a store has alone.
    pub(super) unflushed_bytes: Vec<(Part, u64)>,
}

/// The state of a service.
#[derive(Debug)]
pub(super) struct ServiceState {
    pub(super) name: &'static str,
    pub(super) overview: Box<dyn Overview>,
}

/// The state of index and node.
#[derive(Debug)]
pub(super) struct BitcoinState {
    pub(crate) network: Network,
    pub(super) tip: Option<BlockId>,
    pub(super) sync_percent: u8,
    pub(crate) node: Option<NodeState>,
    pub(super) node_calls: Option<CallCounts>,
    /// The node's blocks on its disk, as far as they are known.
    pub(super) node_blocks: Option<NodeBlocks>,
    /// The blocks that the node had deleted and its peers have sent.
    pub(super) fetches: Option<FetchCounts>,
    pub(super) cache_bytes: u64,
    /// Bytes on disk by table and array.
    pub(super) table_bytes: Vec<(String, u64)>,
    /// `None` while the index is first built.
    pub(super) merges: Option<MergeState>,
    /// The derived indexes that are on.
    pub(super) derived: Vec<DerivedProgress>,
    /// Transactions and virtual bytes of the mempool.
    pub(super) mempool: Option<(usize, u64)>,
}

impl Control {
    /// Returns the health of the server.
    pub(crate) fn health(&self) -> Halves {
        let derived = self.bitcoin.as_ref().map(|bitcoin| bitcoin.index.derived_progress());
        self.halves(self.bitcoin.as_ref().map(|bitcoin| bitcoin.assess().0), derived.unwrap_or_default())
    }

    fn halves(&self, bitcoin: Option<Health>, derived: Vec<DerivedProgress>) -> Halves {
        Halves { bitcoin, derived, relay: self.relay.as_ref().map(|relay| relay.health()) }
    }

    /// Reads the state of every part once.
    pub(super) fn state(&self) -> State {
        let (health, bitcoin) = self.bitcoin.as_ref().map(Bitcoin::state).unzip();
        State {
            health: self.halves(health, bitcoin.as_ref().map(|state| state.derived.clone()).unwrap_or_default()),
            bitcoin,
            services: self.services.iter().map(|service| ServiceState::of(&**service)).collect(),
            waiting: self.reads.waiting(),
            usage: usage::now().ok(),
            disk_free_bytes: birdhouse_store::disk_free_bytes(&self.folder),
            watches: self.watches.as_ref().map(Watches::status).filter(|status| *status != WatchStatus::default()),
            unflushed_bytes: self.stores.unflushed_bytes(),
        }
    }
}

impl ServiceState {
    fn of(service: &dyn Service) -> Self {
        Self { name: service.name(), overview: service.overview() }
    }
}

impl Bitcoin {
    fn state(&self) -> (Health, BitcoinState) {
        let (health, tip, node) = self.assess();
        let state = BitcoinState {
            network: self.network,
            tip: tip.ok(),
            sync_percent: tip.err().or_else(|| self.index.downloading()).map_or(100, |syncing| syncing.percent),
            node,
            node_calls: self.node.as_ref().map(|(rpc, _)| rpc.calls()),
            node_blocks: self.pruner.as_ref().and_then(|pruner| pruner.blocks()),
            fetches: self.pruner.as_ref().map(|pruner| pruner.fetches.counts()),
            cache_bytes: self.store.cache_bytes(),
            // Sizes that cannot be read are left out: the state is about everything else, too.
            table_bytes: self.store.sizes().unwrap_or_default(),
            merges: self.index.merge_state(),
            derived: self.index.derived_progress(),
            mempool: self.index.snapshot().ok().map(|at| (at.mempool().len(), at.mempool().vsize())),
        };
        (health, state)
    }

    /// Returns the health, and the tips of index and node on which it rests.
    fn assess(&self) -> (Health, Result<BlockId, Syncing>, Option<NodeState>) {
        let tip = self.index.snapshot().map(|snapshot| snapshot.tip());
        let node = self.node.as_ref().map(|(_, watch)| watch.state());
        let failure = || self.store.failure().map(|message| Waiting::Failed { message });
        // The watch knows for itself, and to the second, that the node is silent.
        let waiting = self.index.waiting().filter(|reason| *reason != Waiting::NodeSilent);
        let (waiting, damage) = (waiting.or_else(failure), self.index.damage());
        (Health::assess(tip, node, waiting, damage, Instant::now()), tip, node)
    }
}
