//! What all connections share: the index, the node, the settings, and the turns to use them.

use std::sync::Arc;

use birdhouse_chain::source::Node;
use birdhouse_chain::{Index, Snapshot, Syncing};
use bitcoin::BlockHash;
use tokio::sync::Semaphore;

use crate::fee_cache::FeeCache;
use crate::followers::Followers;
use crate::outbox::Unsent;
use crate::settings::Settings;

/// The server behind every connection.
pub(crate) struct Service {
    pub(crate) index: Arc<Index>,
    pub(crate) node: Option<Arc<dyn Node>>,
    pub(crate) settings: Settings,
    pub(crate) fees: FeeCache,
    pub(crate) followers: Followers,
    /// One permit for each thread that may read the index.
    pub(crate) reads: Arc<Semaphore>,
    /// One permit for each request that may wait for the node.
    pub(crate) asks: Arc<Semaphore>,
    /// One permit for each byte of messages that have not arrived whole.
    pub(crate) unfinished: Arc<Semaphore>,
    /// What waits to be written to all clients.
    pub(crate) unsent: Arc<Unsent>,
}

/// What one request, or one batch, sees.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) snapshot: Result<Arc<Snapshot>, Syncing>,
}

impl Service {
    pub(crate) fn new(index: Arc<Index>, node: Option<Arc<dyn Node>>, settings: Settings) -> Self {
        let limits = &settings.limits;
        Self {
            index,
            node,
            fees: FeeCache::default(),
            followers: Followers::default(),
            reads: Arc::new(Semaphore::new(limits.read_threads.max(1))),
            asks: Arc::new(Semaphore::new(limits.node_calls.max(1))),
            unfinished: Arc::new(Semaphore::new(limits.unfinished_bytes.min(Semaphore::MAX_PERMITS))),
            unsent: Arc::new(Unsent::new(limits.unsent_bytes)),
            settings,
        }
    }

    /// The present.
    pub(crate) fn view(&self) -> View {
        View { snapshot: self.index.snapshot() }
    }
}

impl View {
    /// The tip that is seen; none before the index is built.
    pub(crate) fn tip_hash(&self) -> Option<BlockHash> {
        self.snapshot.as_ref().ok().map(|snapshot| snapshot.tip().hash)
    }
}
