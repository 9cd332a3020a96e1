//! The error of the index.

use std::path::Path;

use birdhouse_store::{ArraySpec, Table};
use bitcoin::{BlockHash, Txid};

use crate::block::{BlockError, Malformed};
use crate::names::{Height, Profile, TxNum};
use crate::outside::source::BlockPart;
use crate::outside::{SourceError, SourceErrorKind, Waiting};
use crate::work::OverBudget;

/// A failure of the index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] birdhouse_store::Error),
    /// The node or its files failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A block or its spent outputs contradict the block's header.
    #[error("failed to index block {height}: {error}")]
    Block {
        /// Height of the block.
        height: Height,
        /// The contradiction.
        error: BlockError,
    },
    /// A transaction spends an output that its script never received.
    #[error("failed to build the index: transaction number {} spends an output that no block funded", txnum.0)]
    UnknownCoin {
        /// The spending transaction.
        txnum: TxNum,
    },
    /// A block spends an output of a transaction that is not in the index.
    #[error("failed to find transaction {txid} in the index, though a new block spends it")]
    UnknownTransaction {
        /// The funding transaction.
        txid: Txid,
    },
    /// The store holds the index of another chain.
    #[error(
        "failed to open the index: the data folder holds the index of another network (genesis block {found}, not {expected}); use another --data-dir"
    )]
    WrongChain {
        /// Genesis hash in the store or the files.
        found: BlockHash,
        /// Genesis hash of the configured network.
        expected: BlockHash,
    },
    /// The store holds an index of another profile.
    #[error(
        "failed to open the index: it was built with profile = \"{found}\", and the settings say \"{expected}\"; set it back to profile = \"{found}\", or use another data-dir for a second index"
    )]
    WrongProfile {
        /// Profile in the store.
        found: Profile,
        /// Configured profile.
        expected: Profile,
    },
    /// The index has the format of another release.
    #[error("failed to open the index: it has format {found}, and this release reads format {known}{}", newer(*.found, *.known))]
    OtherFormat {
        /// Format of the index.
        found: u8,
        /// Format of this release.
        known: u8,
    },
    /// Rows or files of the index are damaged.
    #[error("failed to read the index: {place} is damaged ({reason}); check the disk")]
    Damaged {
        /// The table or file.
        place: String,
        /// The damage found.
        reason: String,
    },
    /// The node's chain has no block.
    #[error("failed to index the chain: the node has no block")]
    NoBlocks,
    /// A stale block that a pack holds is lost, and only the block names the outputs that it spent.
    #[error("failed to roll back block {height}: the node has lost it ({error})")]
    LostStaleBlock {
        /// Height of the block.
        height: Height,
        /// The node's answer.
        error: SourceError,
    },
    /// The node has removed blocks that an answer needs: it is pruned.
    /// [`Index::fetch_removed`](crate::Index::fetch_removed) brings parts of them back.
    #[error("the node has removed {} that the answer needs; they can be fetched from its peers", blocks_of(.parts))]
    Removed {
        /// The parts of these blocks, at least one.
        parts: Vec<BlockPart>,
    },
    /// An answer has more entries than [`Snapshot::up_to`](crate::Snapshot::up_to) allows.
    #[error("the answer has {entries} entries, more than {max}")]
    TooLong {
        /// Its entries.
        entries: usize,
        /// The bound.
        max: usize,
    },
    /// The index stays at its tip although the node has another one.
    #[error("failed to follow the node: {0}")]
    Waiting(Waiting),
    /// Another index was begun in the store that a front end follows.
    #[error("failed to follow the published index: another index has taken its place; start this process again")]
    Replaced,
    /// The first build has not finished.
    #[error("the index is not built yet")]
    NotReady,
    /// The work stopped early: [`Progress::cancel`](crate::Progress::cancel) ended the build, an answer exceeded the
    /// budget of [`Snapshot::within_budget`](crate::Snapshot::within_budget), which reports that as `None`, or its
    /// [`Pace`](crate::Pace) ended it.
    #[error("cancelled")]
    Cancelled,
}

/// The place of [`Error::Damaged`] outside the index.
const BLOCK_FILES: &str = "the node's block files";

/// The place of [`Error::Damaged`] for transactions that the node gave.
const NODES_TRANSACTIONS: &str = "the node's transactions";

fn blocks_of(parts: &[BlockPart]) -> String {
    if let [only] = parts { format!("block {}", only.block) } else { format!("the blocks of {} parts", parts.len()) }
}

/// Returns the remedy of a format that a newer release wrote; an older one is built anew.
fn newer(found: u8, known: u8) -> &'static str {
    if found > known { "; the index is good: install the newer version that wrote it" } else { "" }
}

/// Returns the advice that names the one folder which may go.
pub fn rebuild_advice(folder: &Path) -> String {
    format!(
        "to build the index anew from the node's blocks, stop birdhouse, remove the folder {} and nothing else, and \
         start it again: the events of the relay, the watches with their invoices and the certificate lie elsewhere and stay",
        folder.display()
    )
}

/// The result of an index call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns the message, with the remedy where only a new build of the index in `folder` helps.
    pub fn advised(&self, folder: &Path) -> String {
        if self.needs_rebuild() { format!("{self}; {}", rebuild_advice(folder)) } else { self.to_string() }
    }

    /// True if the node has not, or no longer, the block of a transaction in the chain.
    pub fn is_removed(&self) -> bool {
        match self {
            Self::Removed { .. } => true,
            Self::Source(error) => error.kind == SourceErrorKind::NotFound,
            _ => false,
        }
    }

    fn needs_rebuild(&self) -> bool {
        match self {
            Self::Damaged { place, .. } => ![BLOCK_FILES, NODES_TRANSACTIONS].contains(&&**place),
            Self::Store(error) => matches!(error, birdhouse_store::Error::Corrupt { .. }),
            Self::OtherFormat { found, known } => found < known,
            Self::UnknownCoin { .. } | Self::UnknownTransaction { .. } | Self::LostStaleBlock { .. } => true,
            _ => false,
        }
    }

    /// Damage in a row of `table`.
    pub(crate) fn malformed(table: Table) -> impl Fn(Malformed) -> Self {
        move |malformed| Self::Damaged { place: format!("table {}", table.name), reason: malformed.to_string() }
    }

    /// A row of `table` that must exist and does not.
    pub(crate) fn missing(table: Table, what: &str) -> Self {
        Self::Damaged { place: format!("table {}", table.name), reason: format!("{what} is missing") }
    }

    /// An array with fewer records than the manifest needs.
    pub(crate) fn truncated_array(array: ArraySpec, found: u64, needed: u64) -> Self {
        Self::Damaged { place: format!("array {}", array.name), reason: format!("it has {found} of {needed} records") }
    }

    /// Damage in a temporary file of the build.
    pub(crate) fn damaged(path: &Path, malformed: Malformed) -> Self {
        Self::Damaged { place: path.display().to_string(), reason: malformed.to_string() }
    }

    /// Damage in the manifest.
    pub(crate) fn damaged_manifest(malformed: Malformed) -> Self {
        Self::Damaged { place: "the manifest".into(), reason: malformed.to_string() }
    }

    /// Damage in a block that was indexed from the node's files.
    pub(crate) fn unreadable_block(malformed: Malformed) -> Self {
        Self::Damaged { place: BLOCK_FILES.into(), reason: malformed.to_string() }
    }

    /// Damage in a transaction that was read from the node's files or its mempool.
    pub(crate) fn unreadable_transaction() -> Self {
        Self::Damaged { place: NODES_TRANSACTIONS.into(), reason: "a transaction cannot be parsed".into() }
    }

    /// A failure of the file system while it was asked to `action` the file or folder at `path`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let action = format!("{action} {}", path.display());
        move |cause| Self::Store(birdhouse_store::Error::Io { action, cause })
    }
}

impl From<OverBudget> for Error {
    fn from(_: OverBudget) -> Self {
        Self::Cancelled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_of_another_release_is_built_anew_and_not_called_damaged() {
        let advice = Error::OtherFormat { found: 2, known: 3 }.advised(Path::new("/data/index"));
        let said = "it has format 2, and this release reads format 3; to build the index anew from the node's blocks, \
                    stop birdhouse, remove the folder /data/index and nothing else";
        assert!(advice.contains(said), "{advice}");
    }

    #[test]
    fn an_index_that_is_good_is_never_to_be_removed() {
        let good = [
            (Error::OtherFormat { found: 9, known: 3 }, "install the newer version"),
            (
                Error::WrongProfile { found: Profile::Lean, expected: Profile::Full },
                "the settings say \"full\"; set it back to profile = \"lean\"",
            ),
            (Error::unreadable_block(Malformed { what: "vout", offset: 7 }), "check the disk"),
            (Error::unreadable_transaction(), "check the disk"),
        ];
        for (error, remedy) in good {
            let advice = error.advised(Path::new("/data/index"));
            assert!(advice.contains(remedy) && !advice.contains("remove"), "{advice}");
        }
    }
}
