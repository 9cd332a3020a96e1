//! The index at one tip, with one state of the mempool.
//!
//! A snapshot is a header chain, the packs and deltas that hold its rows, and a mempool. It holds no lock and no
//! snapshot of the engine: rows are only inserted and txnums never reused, so a snapshot ignores every row whose
//! transaction is in no block of its chain. A merge replaces packs and deltas; it empties the old ones when no snapshot
//! holds them.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use bitcoin::BlockHash;
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::names::{Height, Keyer, ScriptKey, TxNum};
use crate::outside::{BlockId, Node, Runtime};
use crate::state::headers::Headers;
use crate::state::height_index::HeightIndex;
use crate::state::manifest::TxNumRange;
use crate::state::mempool::Mempool;
use crate::state::reader::{Reader, Storage};
use crate::state::slots::Tables;
use crate::state::status_cache::StatusCache;
use crate::state::txid_cache::TxidCache;
use crate::work::WorkBudget;

/// State that all snapshots of an index share.
pub(crate) struct Shared {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) storage: Arc<Storage>,
    /// The node that is asked on behalf of clients, once it is set.
    pub(crate) node_of_clients: OnceLock<Arc<dyn Node>>,
    pub(crate) keyer: Keyer,
    pub(crate) status_cache: StatusCache,
    pub(crate) txid_cache: TxidCache,
    /// Blocks whose coinbase a later one with the same txid overwrote; those of mainnet unless set before the first
    /// answer.
    pub(crate) overwritten: OnceLock<Vec<(Height, BlockHash)>>,
    /// The scripts that overwritten coinbases pay, once read; `None` where nobody knows them.
    pub(crate) overwritten_scripts: Mutex<HashMap<TxNum, Option<Vec<ScriptKey>>>>,
    /// The output of the genesis block, once it was asked for; `None` on an unknown chain.
    pub(crate) genesis_output: OnceLock<Option<GenesisOutput>>,
    pub(crate) heights: HeightIndex,
    /// True once an index of silent payments is kept: unconfirmed transactions then have their tweaks.
    pub(crate) has_tweaks: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// The output of the genesis block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GenesisOutput {
    pub(crate) script: ScriptKey,
    /// Satoshis.
    pub(crate) value: u64,
}

/// The index at one tip, with one state of the mempool. All answers of one snapshot agree. It is cheap to hold.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) shared: Arc<Shared>,
    /// The store that the snapshot reads: that of the index, or the published state that a front end follows.
    pub(crate) storage: Arc<Storage>,
    pub(crate) headers: Arc<Headers>,
    /// The packs and deltas of its manifest.
    pub(crate) tables: Arc<Tables>,
    /// Txnums that its packs have and a reorg made stale.
    pub(crate) stale: Vec<TxNumRange>,
    /// The unconfirmed transactions.
    pub(crate) mempool: Mempool,
    /// The number of the installed version: a later snapshot has a higher one.
    pub(crate) version: u64,
    /// The bound on what one answer reads.
    pub(crate) budget: WorkBudget,
    /// The output of the genesis block, if answers count it.
    pub(crate) genesis: Option<GenesisOutput>,
}

impl Snapshot {
    /// Height and hash of the tip.
    pub fn tip(&self) -> BlockId {
        self.headers.tip().expect("a snapshot has a genesis block")
    }

    /// The mempool at the time of the snapshot.
    pub fn mempool(&self) -> &Mempool {
        &self.mempool
    }

    /// Asks `question` of this snapshot within the small work budget (`work::budget`). Returns
    /// `None` if the answer needs more, or if any read waits for another machine; ask the snapshot itself then, on a
    /// thread that may wait.
    ///
    /// # Errors
    /// The errors of `question`, except [`Error::Cancelled`].
    pub fn within_budget<T>(&self, question: impl FnOnce(&Self) -> Result<T>) -> Result<Option<T>> {
        if self.storage.is_remote {
            return Ok(None);
        }
        match question(&Self { budget: WorkBudget::Small, ..self.clone() }) {
            Err(Error::Cancelled) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Charges a step of a computation that reads nothing: at most some hundred microseconds of work that the client
    /// decides on, such as the derivation of a script.
    ///
    /// As in a read of the index, the answer may wait here for a turn that others hold: a caller that holds a lock on
    /// which they wait would wait for ever.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if the answer must end, or needs more than the small budget.
    pub fn charge_step(&self) -> Result<()> {
        Ok(self.budget.charge_step()?)
    }

    /// Reads within the budget of this snapshot.
    pub(crate) fn reader(&self) -> Reader<'_> {
        self.storage.reader(self.budget)
    }
}
