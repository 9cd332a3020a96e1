//! Reads of rows, txids and block bytes, each charged to a [`WorkBudget`].
//!
//! Every read that answers a query goes through a [`Reader`], so a query itself never asks what it may cost.

use std::sync::Arc;

use birdhouse_store::{Array, Direction, KeyRange, Page, PageLimit, Row, Store, Table};

use crate::error::{Error, Result};
use crate::names::{Hash256, Profile, TxNum};
use crate::outside::source::BlockPart;
use crate::outside::{BlockSource, FilePosition, SourceErrorKind};
use crate::rows::txid;
use crate::rows::txpos::Span;
use crate::state::damage::Damage;
use crate::state::headers::ChainBlock;
use crate::work::WorkBudget;
use crate::work::give_way::give_way;

/// The store of an index and the source of its blocks.
pub(crate) struct Storage {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) source: Arc<dyn BlockSource>,
    /// Txids by txnum, in the full profile.
    pub(crate) txids: Option<Arc<dyn Array>>,
    /// Damage that reads have met, of all stores of an index.
    pub(crate) damage: Arc<Damage>,
    /// True where a read waits for another machine.
    pub(super) is_remote: bool,
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Storage").finish_non_exhaustive()
    }
}

/// Reads from a [`Storage`] within a budget.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    storage: &'a Storage,
    pub(super) budget: WorkBudget,
}

impl Storage {
    /// Opens the array of a profile in a store.
    pub(crate) fn open(
        store: Arc<dyn Store>,
        source: Arc<dyn BlockSource>,
        profile: Profile,
        damage: Arc<Damage>,
    ) -> Result<Self> {
        let txids = match profile {
            Profile::Full => Some(store.array(txid::ARRAY)?),
            Profile::Lean => None,
        };
        let is_remote = store.is_remote();
        Ok(Self { store, source, txids, damage, is_remote })
    }

    pub(super) fn reader(&self, budget: WorkBudget) -> Reader<'_> {
        Reader { storage: self, budget }
    }
}

// === impl Reader: rows ===

impl Reader<'_> {
    /// Looks up one row.
    pub(crate) fn get(self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.get_many(table, &[key])?.pop().flatten())
    }

    /// Looks up rows; the values stand in the order of `keys`.
    pub(crate) fn get_many(self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        give_way()?;
        self.storage.damage.noted(self.storage.store.get_many(table, keys))
    }

    /// Visits all rows whose key starts with `prefix`, ascending.
    pub(crate) fn scan(
        self,
        table: Table,
        prefix: &[u8],
        visit: impl FnMut((&[u8], &[u8])) -> Result<()>,
    ) -> Result<()> {
        self.scan_range(table, KeyRange::prefix(prefix, Direction::Forward), visit)
    }

    /// Visits all rows of a range, in its direction.
    pub(crate) fn scan_range(
        self,
        table: Table,
        range: KeyRange,
        mut visit: impl FnMut((&[u8], &[u8])) -> Result<()>,
    ) -> Result<()> {
        let mut next = Some(range);
        while let Some(range) = next {
            let limit = self.budget.page_limit();
            let page = self.scan_many(table, &[range], limit)?.pop().unwrap_or_default();
            self.budget.charge_page(&page)?;
            page.rows.iter().try_for_each(|(key, value)| visit((key, value)))?;
            next = page.rest;
        }
        Ok(())
    }

    /// At most `rows` rows of a range, in its direction, and the rest of the range.
    pub(crate) fn page(self, table: Table, range: KeyRange, rows: usize) -> Result<(Vec<Row>, Option<KeyRange>)> {
        let limit = PageLimit { rows, ..self.budget.page_limit() };
        let page = self.scan_many(table, &[range], limit)?.pop().unwrap_or_default();
        self.budget.charge_rows(&page)?;
        Ok((page.rows, page.rest))
    }

    /// The first page of rows of each range.
    pub(crate) fn first_pages(self, table: Table, ranges: &[KeyRange]) -> Result<Vec<Vec<Row>>> {
        let pages = self.scan_many(table, ranges, self.budget.page_limit())?;
        pages.iter().try_for_each(|page| self.budget.charge_page(page))?;
        Ok(pages.into_iter().map(|page| page.rows).collect())
    }

    fn scan_many(self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        give_way()?;
        self.storage.damage.noted(self.storage.store.scan_many(table, ranges, limit))
    }
}

// === impl Reader: txids and block bytes ===

impl Reader<'_> {
    /// The txids of transactions; `None` in the lean profile, which hashes them from the blocks.
    pub(crate) fn txids(self, txnums: &[TxNum]) -> Result<Option<Vec<Hash256>>> {
        self.budget.charge_entries(txnums.len())?;
        let Some(array) = &self.storage.txids else {
            if !txnums.is_empty() {
                self.budget.charge_unbounded()?;
            }
            return Ok(None);
        };
        let numbers: Vec<u64> = txnums.iter().map(|txnum| txnum.0).collect();
        Ok(Some(hashes(&self.storage.damage.noted(array.read_many(&numbers))?)))
    }

    /// The txids of a block, in its order; `None` in the lean profile.
    pub(crate) fn block_txids(self, block: &ChainBlock) -> Result<Option<Vec<Hash256>>> {
        self.budget.charge_unbounded()?;
        let Some(array) = &self.storage.txids else { return Ok(None) };
        let read = array.read_run(block.first_txnum.0, block.tx_count as usize);
        Ok(Some(hashes(&self.storage.damage.noted(read)?)))
    }

    /// The bytes that lie in a span of the block at `position` now, unproved; `None` if too few lie there or the source
    /// has no positions.
    pub(crate) fn peek(self, position: FilePosition, span: Span) -> Result<Option<Vec<u8>>> {
        self.budget.charge_transaction(span.len as usize)?;
        Ok(self.storage.source.peek(position, span.offset, span.len)?)
    }

    /// The bytes in a span of a block, from its file or from the node.
    ///
    /// # Errors
    /// [`Error::Removed`] if the node has removed the block, and it can be fetched.
    pub(crate) fn block_part(self, block: &ChainBlock, span: Span) -> Result<Vec<u8>> {
        self.budget.charge_unbounded()?;
        let (source, hash) = (&self.storage.source, block.block_hash());
        source.read_part(hash, block.position, span.offset, span.len).map_err(|error| match error.kind {
            SourceErrorKind::NotFound if source.fetches_removed() => {
                Error::Removed { parts: vec![BlockPart { block: hash, offset: span.offset, len: span.len }] }
            }
            _ => error.into(),
        })
    }
}

fn hashes(bytes: &[u8]) -> Vec<Hash256> {
    bytes.as_chunks::<32>().0.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_range_ends_before_the_next_prefix() {
        let end = |prefix: &[u8]| KeyRange::prefix(prefix, Direction::Forward).end;
        assert_eq!(end(&[1, 2]), [1, 3]);
        assert_eq!(end(&[1, 255]), [2]);
        assert_eq!(end(&[255, 255]), Vec::<u8>::new());
    }
}
