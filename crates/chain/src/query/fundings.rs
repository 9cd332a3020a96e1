//! The transactions that funded spent outputs: inputs name them by txid, rows by txnum.
//!
//! The height in the undo data chooses among equal hashes of txids, so no txid is read.

use std::collections::HashMap;

use bitcoin::Txid;
use bitcoin::hashes::Hash as _;

use crate::error::{Error, Result};
use crate::names::{Hash256, Height, TxNum};
use crate::state::{Headers, Snapshot};
use crate::work::parallel;

/// Transactions that one thread looks up at a time.
const LOOKUPS: usize = 256;

/// A funding transaction as an input and its undo data name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Funding {
    pub(crate) txid: Hash256,
    /// The height of its block, where undo data tells and can be relied on.
    pub(crate) height: Option<Height>,
}

impl Funding {
    /// False if the block at that height does not have the transaction.
    pub(crate) fn may_be(&self, txnum: TxNum, headers: &Headers) -> bool {
        self.height.is_none_or(|height| headers.get(height).is_some_and(|block| block.has(txnum)))
    }
}

/// The txnums of transactions by txid, of those that the chain of `snapshot` has.
pub(crate) fn look_up(snapshot: &Snapshot, mut fundings: Vec<Funding>) -> Result<HashMap<Hash256, TxNum>> {
    fundings.sort_by_cached_key(|funding| snapshot.shared.keyer.txid(&funding.txid));
    fundings.dedup();
    let found = find(snapshot, &fundings)?;
    Ok(fundings.into_iter().zip(found).filter_map(|(funding, txnum)| Some((funding.txid, txnum?))).collect())
}

/// Finds transactions on several threads. In the order of their rows, neighbours are found in the blocks of rows that
/// were just read.
pub(crate) fn find(snapshot: &Snapshot, fundings: &[Funding]) -> Result<Vec<Option<TxNum>>> {
    parallel::in_chunks(snapshot.shared.runtime.threads(), fundings, LOOKUPS, |some| {
        snapshot.find_txnums_in(&some.iter().map(|funding| (funding.txid, funding.height)).collect::<Vec<_>>())
    })
}

/// The txnum that was looked up for a txid.
pub(crate) fn known(looked_up: &HashMap<Hash256, TxNum>, txid: &Hash256) -> Result<TxNum> {
    let unknown = || Error::UnknownTransaction { txid: Txid::from_byte_array(*txid) };
    looked_up.get(txid).copied().ok_or_else(unknown)
}
