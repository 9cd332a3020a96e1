//! State that all connections share: index, node, settings, and the turns to use them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use birdhouse_chain::source::Node;
use birdhouse_chain::{Index, Snapshot, Syncing};
use bitcoin::BlockHash;
use tokio::sync::Semaphore;

use birdhouse_clients::DiskStall;

use crate::counters::Counters;
use crate::fee_cache::FeeCache;
use crate::followers::Followers;
use crate::meter::Turns;
use crate::peers::Peers;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::unsent::Pool;

/// State of the server behind every connection.
pub(crate) struct Service {
    pub(crate) index: Arc<Index>,
    pub(crate) node: Option<Arc<dyn Node>>,
    pub(crate) settings: Settings,
    pub(crate) fees: FeeCache,
    pub(crate) followers: Followers,
    pub(crate) peers: Arc<Peers>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) counters: Arc<Counters>,
    /// Turns to use a processor, for a client's messages or for warm reads.
    pub(crate) processors: Arc<Turns>,
    /// Turns of threads that wait for the disk.
    pub(crate) disk: Arc<Turns>,
    /// Tracks whether recent inline reads waited for the disk.
    pub(crate) disk_stall: DiskStall,
    /// Turns to call the node.
    pub(crate) node_calls: Arc<Turns>,
    /// One permit for each byte of partial messages.
    pub(crate) unfinished: Arc<Semaphore>,
    /// Bytes that wait to be written, of all clients.
    pub(crate) unsent: Pool,
}

/// View of the index that one request, or one batch, sees.
#[derive(Debug)]
pub(crate) struct View {
    /// Address of the client.
    pub(crate) from: IpAddr,
    pub(crate) snapshot: Result<Arc<Snapshot>, Syncing>,
}

impl Service {
    pub(crate) fn new(index: Arc<Index>, node: Option<Arc<dyn Node>>, settings: Settings) -> Self {
        let limits = &settings.limits;
        let processors = limits.processors();
        let counters = Arc::new(Counters::default());
        Self {
            peers: Peers::new(&settings, index.genesis_hash()),
            index,
            node,
            fees: FeeCache::default(),
            followers: Followers::default(),
            sessions: Sessions::new(settings.keying, Arc::clone(&counters)),
            counters,
            // One client may use every processor, and leaves as many turns to others as it holds.
            processors: Turns::new(processors * 2, processors),
            disk: shared(limits.read_threads),
            disk_stall: DiskStall::new(Instant::now()),
            node_calls: shared(limits.node_calls),
            unfinished: Arc::new(Semaphore::new(limits.partial_message_bytes.min(Semaphore::MAX_PERMITS))),
            unsent: Pool::new(limits.unsent_bytes),
            settings,
        }
    }

    /// Returns the present view, for a client.
    pub(crate) fn view(&self, from: IpAddr) -> View {
        View { from, snapshot: self.index.snapshot() }
    }
}

/// Creates turns of which one client holds at most half.
fn shared(turns: u16) -> Arc<Turns> {
    let turns = usize::from(turns).max(1);
    Turns::new(turns, turns.div_ceil(2))
}

impl View {
    /// Returns the tip of the snapshot; `None` before the index is built.
    pub(crate) fn tip_hash(&self) -> Option<BlockHash> {
        self.snapshot.as_ref().ok().map(|snapshot| snapshot.tip().hash)
    }
}
