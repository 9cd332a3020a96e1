//! Unconfirmed relatives of a transaction. Pure.

use std::sync::Arc;

use birdhouse_chain::{Mempool, MempoolTransaction};
use bitcoin::Txid;

/// Returns the unconfirmed transactions from which a transaction spends, directly or not.
pub fn ancestors(mempool: &Mempool, txid: Txid) -> Vec<Arc<MempoolTransaction>> {
    relatives(mempool, txid, |transaction| mempool.parents(transaction).collect())
}

/// Returns the unconfirmed transactions that spend from a transaction, directly or not.
pub fn descendants(mempool: &Mempool, txid: Txid) -> Vec<Arc<MempoolTransaction>> {
    relatives(mempool, txid, |transaction| mempool.children(transaction).collect())
}

/// Transactions that are reached by steps from one, without itself.
fn relatives(
    mempool: &Mempool,
    txid: Txid,
    step: impl Fn(&MempoolTransaction) -> Vec<Txid>,
) -> Vec<Arc<MempoolTransaction>> {
    let mut found: Vec<Arc<MempoolTransaction>> = Vec::new();
    let mut open = vec![txid];
    while let Some(next) = open.pop() {
        let Some(transaction) = mempool.get(&next) else { continue };
        for relative in step(transaction) {
            if relative != txid
                && found.iter().all(|known| known.txid != relative)
                && let Some(known) = mempool.get(&relative)
            {
                found.push(Arc::clone(known));
                open.push(relative);
            }
        }
    }
    found
}
