//! The traits of the world outside: the node and its blocks, and the clock and threads of the machine.
//!
//! The crate `node` implements the first, the simulation of the tests replaces both.

mod node_values;
mod runtime;
pub mod source;
mod waiting;

pub use self::node_values::{NODE_VALUE_AGE_MAX, NodeValue, NodeValues};
pub(crate) use self::runtime::Machine;
pub use self::runtime::{Runtime, Spawned};
pub(crate) use self::source::{
    BlockId, BlockMeta, BlockSource, BlockStanding, ChainView, FetchedBlock, FilePosition, MempoolChange, MempoolSize,
    MiningRules, Node, NodeProgress, NodeUpdate, Ranking, SourceError, SourceErrorKind, SourceResult, SpentBytes, Unit,
};
pub use self::waiting::Waiting;
