//! Bitcoin: block bytes -> rows -> history.

mod index;
mod scripthash;
pub mod source;
mod txnum;

pub use index::{ConfirmedTransaction, HistoryEntry, Index, MerkleBranch, Snapshot, Syncing, Unspent, Update};
pub use scripthash::{InvalidScriptHash, ScriptHash};
pub use txnum::{Height, TxNum};

/// What can go wrong in the index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] birdhouse_store::Error),
    /// The node or its files failed.
    #[error(transparent)]
    Source(#[from] source::SourceError),
}

/// The result of an index call.
pub type Result<T, E = Error> = std::result::Result<T, E>;
