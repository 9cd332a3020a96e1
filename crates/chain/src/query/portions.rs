//! Transactions of a page, read in portions: a page of large ones is never in memory as a whole.

use bitcoin::Txid;

use crate::error::Result;
use crate::names::TxNum;
use crate::state::ResolvedTransaction;
use crate::state::Snapshot;

/// Bytes of transactions after which a portion ends. Nearly every page is one portion.
const PORTION_BYTES: usize = 1_000_000;

/// The transactions of a page that are not read yet, in the order of the page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageList {
    /// Those of the mempool, which come first.
    pub(super) unconfirmed: Vec<Txid>,
    pub(super) confirmed: Vec<TxNum>,
}

impl PageList {
    /// Appends the confirmed transactions of another list.
    #[must_use]
    pub fn then(mut self, confirmed: Self) -> Self {
        self.confirmed.extend(confirmed.confirmed);
        self
    }
}

impl Snapshot {
    /// Reads the next transactions of a page, one at least; none at its end.
    pub fn next_portion(&self, list: &mut PageList) -> Result<Vec<ResolvedTransaction>> {
        self.portion(list, PORTION_BYTES)
    }

    /// Reads the transactions of a page.
    pub(super) fn whole_page(&self, mut list: PageList) -> Result<Vec<ResolvedTransaction>> {
        let mut found = self.portion(&mut list, usize::MAX)?;
        found.extend(self.portion(&mut list, usize::MAX)?);
        Ok(found)
    }

    fn portion(&self, list: &mut PageList, bytes_max: usize) -> Result<Vec<ResolvedTransaction>> {
        if list.unconfirmed.is_empty() {
            let found = self.resolved_within(&list.confirmed, bytes_max)?;
            list.confirmed.drain(..found.len());
            return Ok(found);
        }
        let mut bytes = 0;
        let fits = |txid: &&Txid| {
            let has_room = bytes < bytes_max;
            bytes = self.mempool.get(txid).map_or(0, |found| found.raw.len()).saturating_add(bytes);
            has_room
        };
        let count = list.unconfirmed.iter().take_while(fits).count();
        let found = self.resolved_in_mempool(&list.unconfirmed[..count])?;
        list.unconfirmed.drain(..count);
        Ok(found)
    }
}
