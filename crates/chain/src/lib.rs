//! Bitcoin: block bytes -> rows -> history.
//!
//! Reading order: [`txnum`] and [`scripthash`] name things; [`source`] says where blocks come from; `block` turns
//! one into what it touches; `rows` draws the tables; [`build`] makes them for a whole chain and `ingest` for one
//! block at the tip; `mempool` holds what no block has yet, `mirror` keeps it like the node's, `follow` shows both; `query`
//! and `live` answer from them, through an [`Index`] and its [`Snapshot`]s; `read_budget` says which answers need no thread
//! of their own.

mod answer;
mod block;
mod build;
mod bytes;
mod follow;
mod headers;
mod index;
mod ingest;
mod live;
mod manifest;
mod mempool;
mod merkle;
mod mirror;
mod prefix;
mod query;
mod read_budget;
mod rows;
mod scripthash;
mod sha;
pub mod source;
mod spent;
mod status;
mod txid_cache;
mod txnum;
mod undo;
mod verify;

use std::path::Path;

use birdhouse_store::{ArraySpec, Table};
use bitcoin::{BlockHash, Txid};

pub use answer::{
    Balance, Confirmation, ConfirmedTransaction, FoundOutput, HistoryEntry, MerkleBranch, UnconfirmedEntry, Unspent,
};
pub use block::BlockError;
pub use build::{BuildOptions, BuildReport, Phase, Progress};
pub use bytes::Malformed;
pub use index::{Index, Syncing, Touched, Update};
pub use manifest::Profile;
pub use mempool::{Mempool, MempoolTransaction};
pub use prefix::Secret;
pub use query::Snapshot;
pub use rows::TABLES;
pub use scripthash::{InvalidScriptHash, ScriptHash};
pub use sha::{Hash256, sha256d, sha256d_many};
pub use txnum::{Height, TxNum};
pub use undo::UndoOwner;
pub use verify::VerifyReport;

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
    /// A block, or what it spends, is not what its header commits to.
    #[error("block {height} cannot be indexed: {error}")]
    Block {
        /// Its height.
        height: Height,
        /// What is wrong.
        error: BlockError,
    },
    /// A transaction spends an output that its script never received.
    #[error("transaction number {} spends an output that no block funded", txnum.0)]
    UnknownCoin {
        /// The spending transaction.
        txnum: TxNum,
    },
    /// A block spends an output of a transaction that is not in the index.
    #[error("the index lacks transaction {txid}, which a new block spends: verify it, or build it anew")]
    UnknownTransaction {
        /// The funding transaction.
        txid: Txid,
    },
    /// The store holds the index of another chain.
    #[error(
        "the data folder holds the index of another network (genesis block {found}, not {expected}): use another --data-dir"
    )]
    WrongChain {
        /// Genesis hash in the store or the files.
        found: BlockHash,
        /// Genesis hash asked for.
        expected: BlockHash,
    },
    /// The store holds an index of another profile.
    #[error(
        "the index was built with profile {found:?}, not {expected:?}: keep that profile, or build into another --data-dir"
    )]
    WrongProfile {
        /// Profile in the store.
        found: Profile,
        /// Profile asked for.
        expected: Profile,
    },
    /// Rows or files of the index are damaged.
    #[error("the index is damaged ({place}: {reason}): verify the disk, remove the data folder and build it anew")]
    Damaged {
        /// The table or file.
        place: String,
        /// What was found.
        reason: String,
    },
    /// The chain has no block.
    #[error("the node's chain has no block")]
    NoBlocks,
    /// The first build is not done.
    #[error("the index is not built yet")]
    NotReady,
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The answer is none that [`Snapshot::within_budget`] gives, which keeps this to itself.
    #[error("the answer is not a short one")]
    Long,
}

/// The result of an index call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn malformed(table: Table) -> impl Fn(Malformed) -> Self {
        move |malformed| Self::Damaged { place: format!("table {}", table.name), reason: malformed.to_string() }
    }

    fn missing(table: Table, what: &str) -> Self {
        Self::Damaged { place: format!("table {}", table.name), reason: format!("{what} is missing") }
    }

    fn short_array(array: ArraySpec, found: u64, needed: u64) -> Self {
        Self::Damaged { place: format!("array {}", array.name), reason: format!("it has {found} of {needed} records") }
    }

    fn damaged(path: &Path, malformed: Malformed) -> Self {
        Self::Damaged { place: path.display().to_string(), reason: malformed.to_string() }
    }

    fn damaged_manifest(malformed: Malformed) -> Self {
        Self::Damaged { place: "manifest".into(), reason: malformed.to_string() }
    }

    fn unreadable_block(malformed: Malformed) -> Self {
        Self::Damaged { place: "the node's block files".into(), reason: malformed.to_string() }
    }
}

/// Entry points for the fuzz targets: every decoder of outside bytes. Not for use.
#[doc(hidden)]
pub mod fuzzing {
    use crate::block::BlockTouches;
    use crate::source::SpentBytes;

    /// Parses a block with undo data, and with the answer of `/rest/spenttxouts`.
    pub fn block(block: &[u8], spent: &[u8]) {
        let _ = BlockTouches::of(block, SpentBytes::Undo(spent));
        let _ = BlockTouches::of(block, SpentBytes::TxOuts(spent));
    }

    /// Decodes undo data for transactions with these numbers of inputs.
    pub fn spent(bytes: &[u8], inputs: &[u8]) {
        let total = inputs.iter().map(|count| usize::from(*count)).sum();
        for bytes in [SpentBytes::Undo(bytes), SpentBytes::TxOuts(bytes)] {
            let counts = inputs.iter().map(|count| usize::from(*count));
            let _ = crate::spent::SpentOutputs::decode(bytes, counts, total);
        }
    }
}
