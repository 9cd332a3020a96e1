//! Reasons for which the follower waits while it serves the chain that it knows.

use crate::names::Height;
use crate::outside::source::BlockId;

/// The reason why the index stays at its tip although the node has another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// The node will connect our blocks, or download them: it is in initial download, reindexes, or was restored.
    NodeBehind {
        /// Tip of the node.
        node: BlockId,
        /// Tip of the index.
        ours: BlockId,
    },
    /// The node does not know our tip, and its chain has no more work: it was wiped, or restored from an old copy.
    ShorterChain {
        /// Tip of the node.
        node: BlockId,
        /// Tip of the index.
        ours: BlockId,
    },
    /// The node's chain has more work, but leaves ours deeper than [`crate::Index::set_reorg_depth_max`] allows.
    DeepReorg {
        /// Tip of the node.
        node: BlockId,
        /// The last block that both chains share.
        fork: Height,
        /// Blocks that would leave the chain.
        depth: u32,
        /// The greatest depth that is followed without the operator's approval.
        depth_max: u32,
    },
    /// The node downloads the chain. The index follows it, so both tips are old.
    NodeDownloads {
        /// Height of the node's tip.
        node: Height,
        /// Height of the best header that the node knows.
        best_header: Height,
    },
    /// The node has lost blocks that the index needs next, or does not have them yet: it has pruned them, or downloads
    /// those below a UTXO snapshot.
    NodeLacksBlocks {
        /// The blocks, and the remedy.
        message: String,
    },
    /// The index is first built. Its early rows answer, so its tip is old.
    Building {
        /// Tip of the early rows.
        ours: Height,
        /// Height of the chain that is indexed.
        chain: Height,
    },
    /// The node has not answered for seconds: it is stopped, hangs, or starts.
    NodeSilent,
    /// The node is not ready for the first build: it starts, or has not all its blocks yet.
    NodeNotReady {
        /// The state of the node.
        message: String,
    },
    /// A failure that a person, more room on the disk, or the node's return may mend. The index tries again.
    Failed {
        /// The failure and its remedy.
        message: String,
    },
}

impl Waiting {
    /// Returns one word for the kind, for health checks.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NodeBehind { .. } => "node behind",
            Self::ShorterChain { .. } => "node on another chain",
            Self::DeepReorg { .. } => "deep reorg",
            Self::NodeDownloads { .. } => "node downloads",
            Self::NodeLacksBlocks { .. } => "node lacks blocks",
            Self::Building { .. } => "index builds",
            Self::NodeSilent => "node unreachable",
            Self::NodeNotReady { .. } => "node not ready",
            Self::Failed { .. } => "index failed",
        }
    }
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NodeBehind { node, ours } => match ours.height.0.checked_sub(node.height.0) {
                None | Some(0) => write!(formatter, "the node syncs another chain, at height {}", node.height),
                Some(blocks) => write!(formatter, "the node is behind ({blocks} blocks, syncing)"),
            },
            Self::ShorterChain { node, ours } => write!(
                formatter,
                "the node has another, shorter chain (its tip is at height {}); block {} of the index is unknown to it",
                node.height, ours.height
            ),
            Self::DeepReorg { node, fork, depth, depth_max } => write!(
                formatter,
                "the node's chain (tip at height {}) leaves that of the index at height {fork}, {depth} blocks below \
                 its tip, and the setting reorg-depth-max allows {depth_max}; check the node. To follow it, run \
                 `birdhouse ctl accept-reorg`, or start with a greater reorg-depth-max",
                node.height
            ),
            Self::NodeDownloads { node, best_header } if node < best_header => {
                write!(
                    formatter,
                    "the node is downloading the chain, {node} of {best_header} blocks: answers are of old blocks"
                )
            }
            Self::NodeDownloads { node, .. } => write!(
                formatter,
                "the node's tip is old, at height {node}, and it knows no later block: answers are of old blocks"
            ),
            Self::Building { ours, chain } => write!(
                formatter,
                "the index is being built, {ours} of {chain} blocks answer so far: answers are of old blocks"
            ),
            Self::NodeSilent => {
                formatter.write_str("the node does not answer: later blocks and transactions are unknown")
            }
            Self::NodeLacksBlocks { message } | Self::NodeNotReady { message } | Self::Failed { message } => {
                formatter.write_str(message)
            }
        }
    }
}
