//! The running process, as its operator's tools see it: metrics, health and `birdhouse ctl` all look through this.

use std::sync::Arc;
use std::time::Instant;

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{Index, Syncing};
use birdhouse_electrum::{Monitor, Overview};
use birdhouse_node::CallCounts;
use birdhouse_node::Rpc;
use birdhouse_relay::Relay;
use birdhouse_store::RocksStore;
use bitcoin::Network;
use tokio::sync::Notify;

use crate::health::{Health, NodeSeen};
use crate::log::Level;
use crate::node_watch::NodeWatch;
use crate::usage::{self, Usage};

/// Handles on every part of the process.
pub(crate) struct Control {
    pub(crate) started: Instant,
    pub(crate) level: Level,
    /// `None` where there is the relay alone.
    pub(crate) bitcoin: Option<Bitcoin>,
    pub(crate) relay: Option<Arc<Relay>>,
    /// Told when the operator wants the process to end.
    pub(crate) stop: Notify,
}

/// Handles on what wallets use.
pub(crate) struct Bitcoin {
    pub(crate) network: Network,
    pub(crate) monitor: Monitor,
    pub(crate) index: Arc<Index>,
    pub(crate) store: Arc<RocksStore>,
    /// `None` where there is no node.
    pub(crate) node: Option<(Arc<Rpc>, Arc<NodeWatch>)>,
}

/// The process at one moment.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) health: Health,
    pub(crate) bitcoin: Option<BitcoinSeen>,
    pub(crate) relay: Option<birdhouse_relay::Overview>,
    pub(crate) usage: Option<Usage>,
}

/// What wallets use, at one moment.
#[derive(Debug)]
pub(crate) struct BitcoinSeen {
    pub(crate) network: Network,
    pub(crate) electrum: Overview,
    pub(crate) tip: Option<BlockId>,
    pub(crate) sync_percent: u8,
    pub(crate) node: Option<NodeSeen>,
    pub(crate) node_calls: Option<CallCounts>,
    pub(crate) cache_bytes: u64,
}

impl Control {
    /// How the server is.
    pub(crate) fn health(&self) -> Health {
        self.bitcoin.as_ref().map_or(Health::RelayAlone, |bitcoin| bitcoin.judge().0)
    }

    /// Looks at everything once.
    pub(crate) fn see(&self) -> Seen {
        let (health, bitcoin) = self.bitcoin.as_ref().map(Bitcoin::see).unzip();
        Seen {
            health: health.unwrap_or(Health::RelayAlone),
            bitcoin,
            relay: self.relay.as_ref().map(|relay| relay.overview()),
            usage: usage::now().ok(),
        }
    }
}

impl Bitcoin {
    fn see(&self) -> (Health, BitcoinSeen) {
        let (health, tip, node) = self.judge();
        let seen = BitcoinSeen {
            network: self.network,
            electrum: self.monitor.overview(),
            tip: tip.ok(),
            sync_percent: tip.map_or_else(|syncing| syncing.percent, |_| 100),
            node,
            node_calls: self.node.as_ref().map(|(rpc, _)| rpc.calls()),
            cache_bytes: self.store.cache_bytes(),
        };
        (health, seen)
    }

    /// What is judged, and the judgement.
    fn judge(&self) -> (Health, Result<BlockId, Syncing>, Option<NodeSeen>) {
        let tip = self.index.snapshot().map(|snapshot| snapshot.tip());
        let node = self.node.as_ref().map(|(_, watch)| watch.seen());
        (Health::judge(tip, node, Instant::now()), tip, node)
    }
}
