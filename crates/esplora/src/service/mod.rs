//! State that all requests share: index, node, settings, and the turns to use them.

mod caller;
mod known_ends;
mod paused;
mod settings;
mod stale_blocks;

pub use self::caller::Way;
pub(crate) use self::caller::{Caller, Switching};
pub(crate) use self::known_ends::KnownEnds;
pub(crate) use self::paused::PausedAnswers;
pub use self::settings::{Listener, Settings};
pub use self::stale_blocks::StaleBlock;
pub(crate) use self::stale_blocks::StaleBlocks;

use std::hash::RandomState;
use std::sync::Arc;

use birdhouse_chain::source::Node;
use birdhouse_chain::{Index, Snapshot, Syncing};
use birdhouse_clients::{OldAnswers, Slowest};
use birdhouse_net::{PartialMessages, Pool, Reads, Registry, SeatCounters};

use crate::fees::{Fees, KnownBlockFees, Projections};
use crate::limits::{LIVE_PARTIAL_BYTES, PAUSED_ANSWERS};
use crate::wire::Failure;

/// State of the server behind every connection.
pub(crate) struct Service {
    pub(crate) index: Arc<Index>,
    node: Option<Arc<dyn Node>>,
    pub(crate) settings: Settings,
    pub(crate) fees: Fees,
    pub(crate) projections: Projections,
    pub(crate) block_fees: KnownBlockFees,
    pub(crate) stale_blocks: Arc<StaleBlocks>,
    /// Ends of the blocks in files of tweaks.
    pub(crate) known_ends: KnownEnds,
    /// The key of values that links carry.
    pub(crate) link_key: RandomState,
    pub(crate) registry: Arc<Registry>,
    /// Connections that found no place or had to leave theirs.
    pub(crate) refused: Arc<SeatCounters>,
    /// Turns to read the index and to call the node.
    pub(crate) reads: Arc<Reads>,
    /// Long answers that gave their turns back.
    pub(crate) paused: PausedAnswers,
    /// Bytes that wait to be written, of all clients.
    pub(crate) unsent: Pool,
    /// Memory for messages that are not whole yet.
    pub(crate) partial: PartialMessages,
    /// The slowest endpoints and pages.
    pub(crate) slowest: Slowest,
}

impl Service {
    pub(crate) fn new(index: Arc<Index>, node: Option<Arc<dyn Node>>, settings: Settings) -> Self {
        let limits = &settings.limits;
        Self {
            index,
            node,
            fees: Fees::default(),
            projections: Projections::default(),
            block_fees: KnownBlockFees::default(),
            stale_blocks: Arc::default(),
            known_ends: KnownEnds::default(),
            link_key: RandomState::new(),
            registry: Registry::new(settings.keying, settings.connections.clone()),
            refused: Arc::default(),
            reads: Arc::clone(&settings.reads),
            paused: PausedAnswers::new(PAUSED_ANSWERS),
            unsent: Pool::new(limits.unsent_bytes),
            partial: PartialMessages::new(LIVE_PARTIAL_BYTES),
            slowest: Slowest::default(),
            settings,
        }
    }

    /// Returns the snapshot that a client may see.
    ///
    /// # Errors
    /// The index is being built, or its answers are too old for clients that do not come over loopback.
    pub(crate) fn snapshot(&self, caller: &Caller) -> Result<Arc<Snapshot>, Syncing> {
        let refuses = self.settings.limits.answer_while_building == OldAnswers::Refuse && caller.pages.is_none();
        let refused = self.index.downloading().filter(|_| refuses);
        // As Esplora's server counts it.
        refused.map_or_else(|| Ok(Arc::new(self.index.snapshot()?.counting_genesis())), Err)
    }

    /// Returns the node.
    ///
    /// # Errors
    /// The server has none.
    pub(crate) fn node(&self) -> Result<&dyn Node, Failure> {
        self.node.as_deref().ok_or_else(Failure::no_node)
    }
}
