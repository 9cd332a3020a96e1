//! Transactions that a client is shown before the follower has found them.
//!
//! Invariant: what one answer shows, every later one shows. So a transaction that the node has is added to the mirror
//! before an answer has it, or the answer does not have it.
//!
//! One that cannot be added yet, because the index lacks blocks of the node, is refused.

use std::time::Duration;

use bitcoin::Txid;

use crate::error::{Error, Result};
use crate::names::TouchedScripts;
use crate::outside::Node;
use crate::tip::index::Index;
use crate::tip::mirror::Mirror;

/// The longest wait for the follower: about a block of mainnet.
const WAIT_MAX: Duration = Duration::from_secs(1);

impl Index {
    /// Adds a transaction that the node has in its mempool and the mirror lacks, with its unconfirmed parents. Returns
    /// true if every later answer shows the transaction. That is false while the follower works for longer than
    /// [`WAIT_MAX`], waits for the node, or has blocks of the node still to index, as in the first build.
    ///
    /// # Errors
    /// Failures of the node or the store.
    pub fn admit(&self, node: &dyn Node, txid: Txid) -> Result<bool> {
        if let Some(mut mirror) = self.mirror.try_lock_for(WAIT_MAX)
            && self.following.waiting().is_none()
            && self.is_ready()
        {
            self.admit_to(&mut mirror, node, txid)?;
        }
        let is_known = self.snapshot().map_err(|_| Error::NotReady)?.confirmation(txid)?.is_some();
        if !is_known {
            self.following.want_look();
        }
        Ok(is_known)
    }

    fn admit_to(&self, mirror: &mut Mirror, node: &dyn Node, txid: Txid) -> Result<()> {
        let at = self.built()?;
        if at.mempool.get(&txid).is_some() {
            return Ok(());
        }
        let mut touched = TouchedScripts::new();
        let Some(mut mempool) = mirror.admit(node, &at, txid, &mut touched)? else { return Ok(()) };
        if mempool.get(&txid).is_none() {
            // Its parents are missing too, or the node has just moved to another tip.
            let Some(listed) = mirror.list(node, &at, &mut touched)? else { return Ok(()) };
            mempool = listed;
        }
        self.install_mempool(&at, mempool, touched);
        Ok(())
    }
}
