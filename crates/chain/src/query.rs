//! Answers at one tip.
//!
//! A snapshot is a chain of headers and the number of the packed rows that go with it. Rows of transactions that are
//! in no block of that chain are invisible to it, so no other lock or version is needed: rows are only ever
//! inserted, and txnums never reused.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use birdhouse_store::{Array, Direction, KeyRange, PageLimit, Row, Store, Table};
use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, Txid};

use crate::answer::{Confirmation, ConfirmedTransaction, HistoryEntry, MerkleBranch, Unspent};
use crate::block::{Block, txid_of};
use crate::headers::{ChainBlock, Headers};
use crate::manifest::Packed;
use crate::mempool::Mempool;
use crate::merkle;
use crate::prefix::{Keyer, ScriptKey};
use crate::read_budget::{self, ReadBudget};
use crate::rows::script::Found;
use crate::rows::{
    Coin, TxOutNum, bucket_key, bucket_of, history, recent, recent_txnum, restored, script, summary, txnum,
    txnum_bytes, txpos, unspent,
};
use crate::scripthash::ScriptHash;
use crate::sha::Hash256;
use crate::source::{BlockId, BlockSource};
use crate::status::Statuses;
use crate::txid_cache::TxidCache;
use crate::txnum::{Height, TxNum};
use crate::{Error, Result};

/// Rows of [`recent`] with their txnums, ascending.
pub(crate) type RecentRows = Vec<(TxNum, recent::Recent)>;

/// One page of a scan.
pub(crate) const PAGE: PageLimit = PageLimit { rows: 4096, bytes: 4 << 20 };

/// What all snapshots of an index share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) source: Arc<dyn BlockSource>,
    pub(crate) keyer: Keyer,
    /// Txids by txnum, in the full profile.
    pub(crate) txids: Option<Arc<dyn Array>>,
    pub(crate) statuses: Statuses,
    pub(crate) txid_cache: TxidCache,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// The index at one tip, with one state of the mempool. All answers of one snapshot agree. Cheap to hold.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) shared: Arc<Shared>,
    pub(crate) headers: Arc<Headers>,
    pub(crate) packed: Packed,
    /// Whether a reorg has taken back packed blocks.
    pub(crate) cut_into_packed: bool,
    /// What no block holds yet.
    pub(crate) mempool: Mempool,
    /// Counts what this index has shown; a later snapshot has a higher one.
    pub(crate) serial: u64,
    /// How far it goes for an answer.
    pub(crate) budget: ReadBudget,
}

// === impl Snapshot: headers ===

impl Snapshot {
    /// Height and hash of the tip.
    pub fn tip(&self) -> BlockId {
        self.headers.tip().expect("a snapshot has a genesis block")
    }

    /// The header at a height; `None` beyond the tip.
    pub fn header(&self, height: Height) -> Option<[u8; 80]> {
        self.headers.get(height).map(|block| block.header)
    }

    /// Up to `count` consecutive headers; fewer at the tip.
    pub fn headers(&self, start: Height, count: u32) -> Vec<[u8; 80]> {
        let heights = start.0..start.0.saturating_add(count);
        heights.map_while(|height| self.header(Height(height))).collect()
    }

    /// The hash of the block at a height; `None` beyond the tip.
    pub fn block_hash(&self, height: Height) -> Option<BlockHash> {
        self.headers.get(height).map(ChainBlock::block_hash)
    }

    /// Transactions of all blocks up to the tip.
    pub fn transaction_count(&self) -> u64 {
        let blocks = (0..self.headers.len()).filter_map(|height| self.headers.get(Height(height)));
        blocks.map(|block| u64::from(block.tx_count)).sum()
    }

    /// Scripts in the packed rows.
    pub fn packed_script_count(&self) -> Result<u64> {
        let mut scripts = 0;
        self.scan(script::TABLE, &self.packed.generation.to_be_bytes(), |(_, value)| {
            scripts += script::scripts(value).map_err(Error::malformed(script::TABLE))?;
            Ok(())
        })?;
        Ok(scripts)
    }

    /// The branch from the block hash at `height` to the merkle root over block hashes `0..=cp_height`.
    /// `None` unless `height <= cp_height <= tip`.
    pub fn header_branch(&self, height: Height, cp_height: Height) -> Option<MerkleBranch> {
        let (siblings, root) = self.headers.branch(height, cp_height)?;
        Some(MerkleBranch { siblings, position: height.0, root })
    }
}

// === impl Snapshot: scripts ===

impl Snapshot {
    /// Confirmed history in chain order, no transaction twice.
    pub fn history(&self, scripthash: &ScriptHash) -> Result<Vec<HistoryEntry>> {
        let txnums = self.script_txnums(self.key_of(scripthash)?, TxNum(0))?;
        let history = self.entries(&txnums)?;
        self.shared.txid_cache.remember(self.headers.end_txnum(), &history, &txnums);
        Ok(history)
    }

    /// The confirmed history of these heights, in chain order.
    pub fn history_between(&self, scripthash: &ScriptHash, heights: Range<Height>) -> Result<Vec<HistoryEntry>> {
        let key = self.key_of(scripthash)?;
        let Some(first) = self.headers.get(heights.start) else { return Ok(Vec::new()) };
        let end = self.headers.get(heights.end).map_or(self.headers.end_txnum(), |block| block.first_txnum);
        let txnums = self.script_txnums(key, first.first_txnum)?;
        let until = txnums.partition_point(|txnum| *txnum < end);
        self.entries(&txnums[..until])
    }

    /// The confirmed history from a txnum on.
    pub(crate) fn history_since(&self, scripthash: &ScriptHash, from: TxNum) -> Result<Vec<HistoryEntry>> {
        self.entries(&self.script_txnums(self.key_of(scripthash)?, from)?)
    }

    /// The first transaction of a script in a block.
    pub(crate) fn first_confirmed(&self, scripthash: &ScriptHash) -> Result<Option<HistoryEntry>> {
        let txnums = self.script_txnums(self.key_of(scripthash)?, TxNum(0))?;
        Ok(self.entries(&txnums[..txnums.len().min(1)])?.pop())
    }

    fn entries(&self, txnums: &[TxNum]) -> Result<Vec<HistoryEntry>> {
        let txids = self.txids_of(txnums)?;
        let entries = txids.into_iter().zip(self.heights_of(txnums));
        Ok(entries.map(|(txid, height)| HistoryEntry { txid: Txid::from_byte_array(txid), height }).collect())
    }

    /// Sum of the outputs that no block spends, satoshis.
    pub(crate) fn confirmed_balance(&self, scripthash: &ScriptHash) -> Result<u64> {
        let key = self.key_of(scripthash)?;
        let packed = self.packed(key)?;
        if let (Some(Found::Long), false) = (&packed, self.cut_into_packed) {
            return self.balance_of_long(key);
        }
        let coins = self.coins(key, packed.as_ref(), &self.recent(key, TxNum(0))?)?;
        Ok(coins.iter().map(|coin| coin.value).sum())
    }

    /// The outputs that no block spends, in chain order.
    pub(crate) fn confirmed_unspent(&self, scripthash: &ScriptHash) -> Result<Vec<Unspent>> {
        let coins = self.script_coins(self.key_of(scripthash)?)?;
        let txnums: Vec<TxNum> = coins.iter().map(|coin| coin.out.txnum).collect();
        let txids = self.txids_of(&txnums)?;
        let heights = self.heights_of(&txnums);
        let unspent = coins.iter().zip(txids).zip(heights).map(|((coin, txid), height)| Unspent {
            txid: Txid::from_byte_array(txid),
            vout: coin.out.vout,
            confirmation: Confirmation::Confirmed(height),
            value: coin.value,
        });
        Ok(unspent.collect())
    }

    /// What the rows of a script are found by: every answer about a script begins here.
    fn key_of(&self, scripthash: &ScriptHash) -> Result<ScriptKey> {
        self.within_mempool(scripthash)?;
        Ok(self.shared.keyer.script(scripthash))
    }

    /// The live transactions that touch a script from a txnum on, ascending.
    pub(crate) fn script_txnums(&self, key: ScriptKey, from: TxNum) -> Result<Vec<TxNum>> {
        let packed = if from < self.packed.end { self.packed(key)? } else { None };
        let mut txnums = self.txnums(key, packed.as_ref(), &self.recent(key, from)?)?;
        txnums.drain(..txnums.partition_point(|txnum| *txnum < from));
        Ok(txnums)
    }

    /// The unspent outputs of a script, ascending.
    pub(crate) fn script_coins(&self, key: ScriptKey) -> Result<Vec<Coin>> {
        let packed = self.packed(key)?;
        self.coins(key, packed.as_ref(), &self.recent(key, TxNum(0))?)
    }

    pub(crate) fn txnums(&self, key: ScriptKey, packed: Option<&Found>, recent: &RecentRows) -> Result<Vec<TxNum>> {
        let mut txnums = match packed {
            None => Vec::new(),
            Some(Found::Inline { txnums, .. }) => txnums.clone(),
            Some(Found::Long) => self.long_txnums(key)?,
        };
        if self.cut_into_packed {
            txnums.retain(|txnum| self.is_live(*txnum));
        }
        txnums.extend(recent.iter().map(|(txnum, _)| *txnum));
        Ok(txnums)
    }

    pub(crate) fn coins(&self, key: ScriptKey, packed: Option<&Found>, recent: &RecentRows) -> Result<Vec<Coin>> {
        let mut coins = match packed {
            None => Vec::new(),
            Some(Found::Inline { coins, .. }) => coins.clone(),
            Some(Found::Long) => self.long_coins(key)?,
        };
        if self.cut_into_packed {
            coins.extend(self.restored(key)?);
            coins.retain(|coin| self.is_live(coin.out.txnum));
            coins.sort_unstable();
            coins.dedup_by_key(|coin| coin.out);
        }
        let mut spent: HashSet<TxOutNum> = HashSet::new();
        for (txnum, row) in recent {
            let funded = row.funded.iter();
            coins.extend(
                funded.map(|(vout, value)| Coin { out: TxOutNum { txnum: *txnum, vout: *vout }, value: *value }),
            );
            spent.extend(&row.spent);
        }
        coins.retain(|coin| !spent.contains(&coin.out));
        Ok(coins)
    }

    /// From the summary, and what came after: never reads the packed coins.
    fn balance_of_long(&self, key: ScriptKey) -> Result<u64> {
        let mut balance = self.summary(key)?.balance();
        let mut values = Vec::new();
        let mut spent = Vec::new();
        for (txnum, row) in self.recent(key, TxNum(0))? {
            for (vout, value) in row.funded {
                balance += value;
                values.push(Coin { out: TxOutNum { txnum, vout }, value });
            }
            spent.extend(row.spent);
        }
        if spent.is_empty() {
            return Ok(balance);
        }
        values.extend(self.long_coins(key)?);
        let spent: HashSet<TxOutNum> = spent.into_iter().collect();
        let gone: u64 = values.iter().filter(|coin| spent.contains(&coin.out)).map(|coin| coin.value).sum();
        Ok(balance - gone)
    }

    /// What the packed rows know of a script.
    pub(crate) fn packed(&self, key: ScriptKey) -> Result<Option<Found>> {
        let bucket = self.bucket(bucket_of(key.prefix, self.packed.script_bits))?;
        self.packed_in(bucket.as_deref(), key)
    }

    /// The row of a bucket of scripts.
    pub(crate) fn bucket(&self, bucket: u32) -> Result<Option<Vec<u8>>> {
        self.get(script::TABLE, &bucket_key(self.packed.generation, bucket))
    }

    /// What its bucket's row knows of a script.
    pub(crate) fn packed_in(&self, bucket: Option<&[u8]>, key: ScriptKey) -> Result<Option<Found>> {
        let Some(value) = bucket else { return Ok(None) };
        script::find(value, key, self.packed.script_bits).map_err(Error::malformed(script::TABLE))
    }

    pub(crate) fn summary(&self, key: ScriptKey) -> Result<summary::Summary> {
        let value = self.get(summary::TABLE, &summary::key(key))?;
        let value = value.ok_or_else(|| Error::missing(summary::TABLE, "a long script's row"))?;
        summary::decode(&value).map_err(Error::malformed(summary::TABLE))
    }

    fn long_txnums(&self, key: ScriptKey) -> Result<Vec<TxNum>> {
        let mut txnums = Vec::new();
        self.scan(history::TABLE, &key.to_bytes(), |(key, value)| {
            history::decode(key, value, &mut txnums).map_err(Error::malformed(history::TABLE))
        })?;
        Ok(txnums)
    }

    fn long_coins(&self, key: ScriptKey) -> Result<Vec<Coin>> {
        let mut coins = Vec::new();
        self.scan(unspent::TABLE, &key.to_bytes(), |(key, value)| {
            unspent::decode(key, value, &mut coins).map_err(Error::malformed(unspent::TABLE))
        })?;
        Ok(coins)
    }

    /// Live rows of the blocks at the tip from a txnum on, ascending.
    pub(crate) fn recent(&self, script: ScriptKey, from: TxNum) -> Result<RecentRows> {
        let mut rows = Vec::new();
        if self.headers.end_txnum() <= self.packed.end {
            return Ok(rows); // no block came after the build
        }
        let mut range = KeyRange::prefix(&script.prefix.to_be_bytes(), Direction::Forward);
        range.start.extend(txnum_bytes(from));
        self.scan_range(recent::TABLE, range, |(key, value)| {
            let (owner, txnum) = recent::decode_key(key).map_err(Error::malformed(recent::TABLE))?;
            if owner == script && self.is_live(txnum) {
                rows.push((txnum, recent::decode(value).map_err(Error::malformed(recent::TABLE))?));
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// Outputs whose packed spender is stale.
    fn restored(&self, script: ScriptKey) -> Result<Vec<Coin>> {
        let mut coins = Vec::new();
        self.scan(restored::TABLE, &script.prefix.to_be_bytes(), |(key, value)| {
            let row = restored::decode(key, value).map_err(Error::malformed(restored::TABLE))?;
            if row.script == script && !self.is_live(row.spender) {
                coins.push(row.coin);
            }
            Ok(())
        })?;
        Ok(coins)
    }
}

// === impl Snapshot: transactions ===

impl Snapshot {
    /// A confirmed transaction; `None` if no block up to the tip holds it.
    pub fn transaction(&self, txid: Txid) -> Result<Option<ConfirmedTransaction>> {
        let Some(txnum) = self.find_txnum(&txid.to_byte_array())? else { return Ok(None) };
        let (height, block) = self.block_of(txnum)?;
        let raw = self.proved(&txid.to_byte_array(), txnum, block)?;
        Ok(Some(ConfirmedTransaction { raw, block: BlockId { height, hash: block.block_hash() } }))
    }

    /// The block that holds a transaction.
    pub fn transaction_block(&self, txid: Txid) -> Result<Option<BlockId>> {
        let Some(txnum) = self.find_txnum(&txid.to_byte_array())? else { return Ok(None) };
        let (height, block) = self.block_of(txnum)?;
        Ok(Some(BlockId { height, hash: block.block_hash() }))
    }

    /// The branch from a transaction to its block's merkle root; `None` if the block at `height` lacks it.
    pub fn merkle(&self, txid: Txid, height: Height) -> Result<Option<MerkleBranch>> {
        let Some(block) = self.headers.get(height) else { return Ok(None) };
        let txids = self.block_txids(block)?;
        let position = txids.iter().position(|other| other == txid.as_byte_array());
        Ok(position.map(|position| branch_in(&txids, position)))
    }

    /// The transaction at a place in a block, with its branch; `None` beyond tip or block.
    pub fn transaction_at(&self, height: Height, position: u32) -> Result<Option<(Txid, MerkleBranch)>> {
        let Some(block) = self.headers.get(height) else { return Ok(None) };
        if position >= block.tx_count {
            return Ok(None);
        }
        let txids = self.block_txids(block)?;
        let branch = branch_in(&txids, position as usize);
        Ok(Some((Txid::from_byte_array(txids[position as usize]), branch)))
    }

    /// The txids of a block, in order.
    pub(crate) fn block_txids(&self, block: &ChainBlock) -> Result<Vec<Hash256>> {
        self.only_whole()?;
        if let Some(array) = &self.shared.txids {
            return Ok(hashes(&array.read_run(block.first_txnum.0, block.tx_count as usize)?));
        }
        let bytes = self.shared.source.read_part(block.block_hash(), block.position, 0, block.bytes)?;
        let block = Block::parse(&bytes).map_err(Error::unreadable_block)?;
        Ok(block.txids())
    }

    fn find_txnum(&self, txid: &Hash256) -> Result<Option<TxNum>> {
        match self.shared.txid_cache.find(self.headers.end_txnum(), txid) {
            Some(txnum) => Ok(Some(txnum)),
            None => Ok(self.find_txnums(&[*txid])?[0]),
        }
    }

    /// Looks transactions up; of several with one txid (BIP 30) the last.
    pub(crate) fn find_txnums(&self, txids: &[Hash256]) -> Result<Vec<Option<TxNum>>> {
        let candidates = self.candidates(txids)?;
        txids.iter().zip(candidates).map(|(txid, candidates)| self.last_with_txid(txid, candidates)).collect()
    }

    /// For each txid the txnums that rows name for it, before they are verified against the txid.
    pub(crate) fn candidates(&self, txids: &[Hash256]) -> Result<Vec<Vec<TxNum>>> {
        let hashes: Vec<u64> = txids.iter().map(|txid| self.shared.keyer.txid(txid)).collect();
        let mut candidates = self.packed_candidates(&hashes)?;
        for (all, recent) in candidates.iter_mut().zip(self.recent_candidates(&hashes)?) {
            all.extend(recent);
        }
        Ok(candidates)
    }

    fn last_with_txid(&self, txid: &Hash256, mut candidates: Vec<TxNum>) -> Result<Option<TxNum>> {
        candidates.retain(|txnum| self.is_live(*txnum));
        candidates.sort_unstable();
        for txnum in candidates.into_iter().rev() {
            if self.txids_of(&[txnum])?[0] == *txid {
                return Ok(Some(txnum));
            }
        }
        Ok(None)
    }

    fn packed_candidates(&self, hashes: &[u64]) -> Result<Vec<Vec<TxNum>>> {
        let Packed { generation, txnum_bits: bits, .. } = self.packed;
        let keys: Vec<[u8; 8]> = hashes.iter().map(|hash| bucket_key(generation, bucket_of(*hash, bits))).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
        let values = self.shared.store.get_many(txnum::TABLE, &keys)?;
        let found = values.iter().zip(hashes).map(|(value, hash)| match value {
            Some(value) => txnum::candidates(value, *hash, bits).map_err(Error::malformed(txnum::TABLE)),
            None => Ok(Vec::new()),
        });
        found.collect()
    }

    fn recent_candidates(&self, hashes: &[u64]) -> Result<Vec<Vec<TxNum>>> {
        let ranges: Vec<KeyRange> =
            hashes.iter().map(|hash| KeyRange::prefix(&hash.to_be_bytes(), Direction::Forward)).collect();
        let pages = self.shared.store.scan_many(recent_txnum::TABLE, &ranges, self.page_limit())?;
        let txnums = |rows: Vec<Row>| {
            let decoded = rows.iter().map(|(key, _)| recent_txnum::decode_key(key));
            decoded.collect::<Result<Vec<_>, _>>().map_err(Error::malformed(recent_txnum::TABLE))
        };
        pages.iter().try_for_each(|page| self.within_page(page))?;
        pages.into_iter().map(|page| txnums(page.rows)).collect()
    }

    /// The txids of live transactions.
    pub(crate) fn txids_of(&self, txnums: &[TxNum]) -> Result<Vec<Hash256>> {
        self.within(txnums.len(), read_budget::ENTRIES_MAX)?;
        if let Some(array) = &self.shared.txids {
            let numbers: Vec<u64> = txnums.iter().map(|txnum| txnum.0).collect();
            return Ok(hashes(&array.read_many(&numbers)?));
        }
        let hashed = txnums.iter().map(|txnum| {
            let (_, block) = self.block_of(*txnum)?;
            txid_of(&self.raw(*txnum, block)?).map_err(Error::unreadable_block)
        });
        hashed.collect()
    }

    /// The bytes of a live transaction. Its txid proves them: the block's header, elsewhere on the disk, need not be read.
    fn proved(&self, txid: &Hash256, txnum: TxNum, block: &ChainBlock) -> Result<Vec<u8>> {
        let (offset, len) = self.place(txnum, block)?;
        self.within(len as usize, read_budget::TRANSACTION_BYTES_MAX)?;
        if let Some(position) = block.position
            && let Some(raw) = self.shared.source.peek(position, offset, len)?
            && txid_of(&raw).is_ok_and(|found| found == *txid)
        {
            return Ok(raw);
        }
        self.only_whole()?;
        Ok(self.shared.source.read_part(block.block_hash(), block.position, offset, len)?)
    }

    /// A live transaction's bytes, with witness: from files, or from the node.
    fn raw(&self, txnum: TxNum, block: &ChainBlock) -> Result<Vec<u8>> {
        self.only_whole()?;
        let (offset, len) = self.place(txnum, block)?;
        Ok(self.shared.source.read_part(block.block_hash(), block.position, offset, len)?)
    }

    /// Offset and size of a live transaction in its block.
    fn place(&self, txnum: TxNum, block: &ChainBlock) -> Result<(u32, u32)> {
        let index = txnum.0 - block.first_txnum.0;
        let row = self.get(txpos::TABLE, &txnum_bytes(txpos::chunk_of(block.first_txnum, index)))?;
        let row = row.ok_or_else(|| Error::missing(txpos::TABLE, "a live transaction's row"))?;
        let within = usize::try_from(index % txpos::CHUNK as u64).expect("below 64");
        txpos::locate(&row, within).map_err(Error::malformed(txpos::TABLE))
    }

    /// The bytes of a live transaction.
    pub(crate) fn raw_of(&self, txnum: TxNum) -> Result<Vec<u8>> {
        self.raw(txnum, self.block_of(txnum)?.1)
    }

    fn is_live(&self, txnum: TxNum) -> bool {
        self.headers.block_of(txnum).is_some()
    }

    /// The height of a live transaction.
    pub(crate) fn height_of(&self, txnum: TxNum) -> Result<Height> {
        Ok(self.block_of(txnum)?.0)
    }

    fn block_of(&self, txnum: TxNum) -> Result<(Height, &ChainBlock)> {
        self.headers
            .block_of(txnum)
            .ok_or_else(|| Error::missing(crate::rows::header::TABLE, "a live transaction's block"))
    }

    /// Heights of ascending live txnums: neighbours are often in one block.
    fn heights_of(&self, txnums: &[TxNum]) -> Vec<Height> {
        let mut last: Option<(Height, &ChainBlock)> = None;
        let height_of = |txnum: &TxNum| {
            let known = last.filter(|(_, block)| (block.first_txnum..block.end_txnum()).contains(txnum));
            let found = known.or_else(|| self.headers.block_of(*txnum)).expect("only live txnums are asked for");
            last = Some(found);
            found.0
        };
        txnums.iter().map(height_of).collect()
    }
}

// === impl Snapshot: the store ===

impl Snapshot {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.shared.store.get_many(table, &[key])?.pop().flatten())
    }

    /// Visits all rows whose key starts with `prefix`, ascending.
    pub(crate) fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        visit: impl FnMut((&[u8], &[u8])) -> Result<()>,
    ) -> Result<()> {
        self.scan_range(table, KeyRange::prefix(prefix, Direction::Forward), visit)
    }

    fn scan_range(
        &self,
        table: Table,
        range: KeyRange,
        mut visit: impl FnMut((&[u8], &[u8])) -> Result<()>,
    ) -> Result<()> {
        let mut next = Some(range);
        while let Some(range) = next {
            let page = self.shared.store.scan_many(table, &[range], self.page_limit())?.pop().unwrap_or_default();
            self.within_page(&page)?;
            page.rows.iter().try_for_each(|(key, value)| visit((key, value)))?;
            next = page.rest;
        }
        Ok(())
    }
}

fn hashes(bytes: &[u8]) -> Vec<Hash256> {
    bytes.as_chunks::<32>().0.to_vec()
}

fn branch_in(txids: &[Hash256], position: usize) -> MerkleBranch {
    let (siblings, root) = merkle::branch(txids, position);
    MerkleBranch {
        siblings,
        position: u32::try_from(position).expect("a block holds fewer than 2^32 transactions"),
        root,
    }
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
