//! Transactions: txid to txnum and back, bytes, and merkle branches.

use birdhouse_store::{Direction, KeyRange};
use bitcoin::Txid;
use bitcoin::hashes::Hash as _;

use crate::block::{Block, merkle, txid_of};
use crate::error::{Error, Result};
use crate::names::{Hash256, Height, TxNum};
use crate::outside::BlockId;
use crate::outside::source::BlockPart;
use crate::rows::txpos::Span;
use crate::rows::{Delta, Pack, bucket_key, bucket_of, header, recent_txnum, txnum, txnum_bytes, txpos};
use crate::state::{ChainBlock, ConfirmedTransaction, HistoryEntry, MerkleBranch, Slot, Snapshot};

impl Snapshot {
    /// Returns a confirmed transaction; `None` if no block up to the tip holds it.
    pub fn transaction(&self, txid: Txid) -> Result<Option<ConfirmedTransaction>> {
        let Some(txnum) = self.find_txnum(&txid.to_byte_array())? else { return Ok(None) };
        let (height, block) = self.block_of(txnum)?;
        let raw = self.proven_bytes(&txid.to_byte_array(), txnum, block)?;
        Ok(Some(ConfirmedTransaction { raw, block: BlockId { height, hash: block.block_hash() } }))
    }

    /// Returns the block that holds a transaction; `None` if no block up to the tip does.
    pub fn transaction_block(&self, txid: Txid) -> Result<Option<BlockId>> {
        let Some(txnum) = self.find_txnum(&txid.to_byte_array())? else { return Ok(None) };
        let (height, block) = self.block_of(txnum)?;
        Ok(Some(BlockId { height, hash: block.block_hash() }))
    }

    /// Returns the branch from a transaction to its block's merkle root; `None` if the block at `height` lacks it.
    pub fn merkle(&self, txid: Txid, height: Height) -> Result<Option<MerkleBranch>> {
        let Some(block) = self.headers.get(height) else { return Ok(None) };
        let txids = self.block_txids(block)?;
        let position = txids.iter().position(|other| other == txid.as_byte_array());
        Ok(position.map(|position| branch_in(&txids, position)))
    }

    /// Returns the transaction at an index of a block, with its branch; `None` beyond the tip or the block.
    pub fn transaction_at(&self, height: Height, position: u32) -> Result<Option<(Txid, MerkleBranch)>> {
        let Some(block) = self.headers.get(height) else { return Ok(None) };
        if position >= block.tx_count {
            return Ok(None);
        }
        let txids = self.block_txids(block)?;
        let branch = branch_in(&txids, position as usize);
        Ok(Some((Txid::from_byte_array(txids[position as usize]), branch)))
    }

    /// The txids of a block, in its order.
    pub(super) fn block_txids(&self, block: &ChainBlock) -> Result<Vec<Hash256>> {
        if let Some(txids) = self.reader().block_txids(block)? {
            return Ok(txids);
        }
        let bytes = self.reader().block_part(block, Span { offset: 0, len: block.bytes })?;
        Ok(Block::parse(&bytes).map_err(Error::unreadable_block)?.txids())
    }

    pub(super) fn find_txnum(&self, txid: &Hash256) -> Result<Option<TxNum>> {
        match self.shared.txid_cache.find(self.headers.end_txnum(), txid) {
            Some(txnum) => Ok(Some(txnum)),
            None => Ok(self.find_txnums(&[*txid])?[0]),
        }
    }

    /// Finds transactions by txid; of several with one txid (BIP 30), the last.
    pub(crate) fn find_txnums(&self, txids: &[Hash256]) -> Result<Vec<Option<TxNum>>> {
        self.find_txnums_in(&txids.iter().map(|txid| (*txid, None)).collect::<Vec<_>>())
    }

    /// Finds transactions by txid, in the block at a height where one is given. That block must have the transaction:
    /// its only candidate is not verified against the txid, which may need the disk.
    pub(super) fn find_txnums_in(&self, wanted: &[(Hash256, Option<Height>)]) -> Result<Vec<Option<TxNum>>> {
        let txids: Vec<Hash256> = wanted.iter().map(|(txid, _)| *txid).collect();
        let mut candidates = self.candidates(&txids)?;
        for (candidates, (_, height)) in candidates.iter_mut().zip(wanted) {
            match height.map(|height| self.headers.get(height)) {
                None => candidates.retain(|txnum| self.is_live(*txnum)),
                Some(block) => candidates.retain(|txnum| block.is_some_and(|block| block.has(*txnum))),
            }
            candidates.sort_unstable();
        }
        let is_certain = |height: Option<Height>, candidates: &[TxNum]| height.is_some() && candidates.len() == 1;
        // Nearly always the last candidate is the one. Their txids are read together.
        let unproved = wanted.iter().zip(&candidates).filter(|((_, height), some)| !is_certain(*height, some));
        let last: Vec<TxNum> = unproved.filter_map(|(_, candidates)| candidates.last().copied()).collect();
        let mut last_txids = self.txids_of(&last)?.into_iter();
        let found = wanted.iter().zip(candidates).map(|((txid, height), mut candidates)| {
            let is_certain = is_certain(*height, &candidates);
            let Some(txnum) = candidates.pop() else { return Ok(None) };
            let is_found = is_certain || last_txids.next() == Some(*txid);
            if is_found { Ok(Some(txnum)) } else { self.last_with_txid(txid, &candidates) }
        });
        found.collect()
    }

    /// The txnums that rows name for each txid, before they are verified against the txid.
    pub(crate) fn candidates(&self, txids: &[Hash256]) -> Result<Vec<Vec<TxNum>>> {
        let hashes: Vec<u64> = txids.iter().map(|txid| self.shared.keyer.txid(txid)).collect();
        let mut candidates = vec![Vec::new(); txids.len()];
        for pack in &self.tables.packs {
            let asked = self.asked(Slot::Pack(pack.slot), &hashes);
            self.packed_candidates(pack, &asked, &mut candidates)?;
        }
        for delta in self.tables.deltas.iter().filter(|delta| delta.start < self.headers.end_txnum()) {
            let asked = self.asked(Slot::Delta(delta.slot), &hashes);
            self.recent_candidates(delta, &asked, &mut candidates)?;
        }
        Ok(candidates)
    }

    /// Index and hash of the txids that a pack or delta may have.
    fn asked(&self, slot: Slot, hashes: &[u64]) -> Vec<(usize, u64)> {
        let may_have = |hash: u64| self.tables.may_have_txid(slot, txnum::kept(hash, self.shared.keyer.length()));
        hashes.iter().copied().enumerate().filter(|(_, hash)| may_have(*hash)).collect()
    }

    fn last_with_txid(&self, txid: &Hash256, candidates: &[TxNum]) -> Result<Option<TxNum>> {
        for txnum in candidates.iter().rev() {
            if self.txids_of(&[*txnum])?[0] == *txid {
                return Ok(Some(*txnum));
            }
        }
        Ok(None)
    }

    fn packed_candidates(&self, pack: &Pack, asked: &[(usize, u64)], candidates: &mut [Vec<TxNum>]) -> Result<()> {
        let table = txnum::table(pack);
        let bucket = |(_, hash): &(usize, u64)| bucket_of(*hash, pack.txnum_bits);
        // Many txids at once are asked for in the order of their hashes, so those of one bucket are neighbours.
        let together: Vec<&[(usize, u64)]> = asked.chunk_by(|one, other| bucket(one) == bucket(other)).collect();
        let keys: Vec<[u8; 4]> = together.iter().map(|some| bucket_key(bucket(&some[0]))).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
        let values = self.reader().get_many(table, &keys)?;
        for (value, some) in values.iter().zip(together) {
            let Some(value) = value else { continue };
            for (index, hash) in some {
                let found = txnum::candidates(value, *hash, pack).map_err(Error::malformed(table))?;
                candidates[*index].extend(found);
            }
        }
        Ok(())
    }

    fn recent_candidates(&self, delta: &Delta, asked: &[(usize, u64)], candidates: &mut [Vec<TxNum>]) -> Result<()> {
        let table = recent_txnum::table(delta);
        let ranges: Vec<KeyRange> =
            asked.iter().map(|(_, hash)| KeyRange::prefix(&hash.to_be_bytes(), Direction::Forward)).collect();
        for (rows, (index, _)) in self.reader().first_pages(table, &ranges)?.into_iter().zip(asked) {
            for (key, _) in rows {
                candidates[*index].push(recent_txnum::decode_key(&key).map_err(Error::malformed(table))?.1);
            }
        }
        Ok(())
    }

    /// The txids of live transactions.
    pub(crate) fn txids_of(&self, txnums: &[TxNum]) -> Result<Vec<Hash256>> {
        if let Some(txids) = self.reader().txids(txnums)? {
            return Ok(txids);
        }
        let hashed = txnums.iter().map(|txnum| txid_of(&self.raw_of(*txnum)?).map_err(Error::unreadable_block));
        hashed.collect()
    }

    /// The bytes of a live transaction. Its txid proves them, so the block's header is not read: it lies elsewhere on
    /// the disk, and a cold refresh of a wallet that read it took 26 % more pages.
    pub(super) fn proven_bytes(&self, txid: &Hash256, txnum: TxNum, block: &ChainBlock) -> Result<Vec<u8>> {
        let span = self.span_in_block(txnum, block)?;
        self.proven_span(txid, block, span)
    }

    /// Returns true if the node has deleted the file that had the block at a height.
    ///
    /// # Errors
    /// The folder of the node's files cannot be read.
    pub fn is_deleted(&self, height: Height) -> Result<bool> {
        Ok(self.lies_before(height, self.shared.storage.source.first_file()?))
    }

    /// True if a block was in a file with a lower number.
    fn lies_before(&self, height: Height, file: u32) -> bool {
        self.headers.get(height).and_then(|block| block.position).is_some_and(|position| position.file < file)
    }

    /// Returns the parts of removed blocks that have transactions of a history, for
    /// [`Index::fetch_removed`](crate::Index::fetch_removed).
    pub fn removed_parts(&self, entries: &[HistoryEntry]) -> Result<Vec<BlockPart>> {
        let first_file = self.shared.storage.source.first_file()?;
        let removed = entries.iter().filter(|entry| self.lies_before(entry.height, first_file));
        let wanted: Vec<_> = removed.map(|entry| (entry.txid.to_byte_array(), Some(entry.height))).collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.find_txnums_in(&wanted)?.into_iter().flatten();
        let part = |txnum| {
            let (_, block) = self.block_of(txnum)?;
            let Span { offset, len, .. } = self.span_in_block(txnum, block)?;
            Ok(BlockPart { block: block.block_hash(), offset, len })
        };
        found.map(part).collect()
    }

    /// The bytes of the first live transactions with these txids, which prove them, up to the one with which they have
    /// `bytes_max` bytes. Their rows are looked up together.
    ///
    /// # Errors
    /// [`Error::Removed`] with all that the node has removed, so that it is fetched at once.
    pub(super) fn proven_raws(&self, txids: &[Hash256], txnums: &[TxNum], bytes_max: usize) -> Result<Vec<Vec<u8>>> {
        let (mut raws, mut removed) = (Vec::new(), Vec::new());
        for found in self.kept_raws(txids, txnums, bytes_max)? {
            match found {
                Ok(raw) => raws.push(raw),
                Err(parts) => removed.extend(parts),
            }
        }
        if removed.is_empty() { Ok(raws) } else { Err(Error::Removed { parts: removed }) }
    }

    /// The same; in place of those that the node has removed, the parts of blocks that have them.
    pub(super) fn kept_raws(
        &self,
        txids: &[Hash256],
        txnums: &[TxNum],
        bytes_max: usize,
    ) -> Result<Vec<Result<Vec<u8>, Vec<BlockPart>>>> {
        let blocks = txnums.iter().map(|txnum| Ok(self.block_of(*txnum)?.1)).collect::<Result<Vec<_>>>()?;
        let keys: Vec<_> = txnums.iter().zip(&blocks).map(|(txnum, block)| span_key(*txnum, block)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; TxNum::LEN]>::as_slice).collect();
        let rows = self.reader().get_many(txpos::TABLE, &keys)?;
        let (mut raws, mut bytes) = (Vec::with_capacity(txids.len()), 0);
        for (((txid, txnum), block), row) in txids.iter().zip(txnums).zip(blocks).zip(rows) {
            if bytes >= bytes_max {
                break;
            }
            raws.push(match self.proven_span(txid, block, span_in(row, *txnum, block)?) {
                Err(Error::Removed { parts }) => Err(parts),
                raw => Ok(raw?),
            });
            bytes += raws.last().and_then(|raw| raw.as_ref().ok()).map_or(0, Vec::len);
        }
        Ok(raws)
    }

    fn proven_span(&self, txid: &Hash256, block: &ChainBlock, span: Span) -> Result<Vec<u8>> {
        if let Some(position) = block.position
            && let Some(raw) = self.reader().peek(position, span)?
            && txid_of(&raw).is_ok_and(|found| found == *txid)
        {
            return Ok(raw);
        }
        self.reader().block_part(block, span)
    }

    /// The bytes of a live transaction with this txid, which proves them.
    pub(crate) fn proven_raw(&self, txid: &Hash256, txnum: TxNum) -> Result<Vec<u8>> {
        let (_, block) = self.block_of(txnum)?;
        self.proven_bytes(txid, txnum, block)
    }

    /// The bytes that lie where a live transaction should be; `None` if the source has no positions.
    pub(super) fn unproven_raw(&self, txnum: TxNum) -> Result<Option<Vec<u8>>> {
        let (_, block) = self.block_of(txnum)?;
        let span = self.span_in_block(txnum, block)?;
        block.position.map_or(Ok(None), |position| self.reader().peek(position, span))
    }

    /// The bytes of a live transaction, with witness, from the files or from the node.
    pub(super) fn raw_of(&self, txnum: TxNum) -> Result<Vec<u8>> {
        let (_, block) = self.block_of(txnum)?;
        self.reader().block_part(block, self.span_in_block(txnum, block)?)
    }

    /// The bytes of the transaction at an index of a block; `None` beyond the tip or the block.
    pub(crate) fn raw_at(&self, height: Height, index: u32) -> Result<Option<Vec<u8>>> {
        let Some(block) = self.headers.get(height).filter(|block| index < block.tx_count) else { return Ok(None) };
        self.raw_of(TxNum(block.first_txnum.0 + u64::from(index))).map(Some)
    }

    /// The part of its block in which a live transaction lies.
    pub(super) fn part_of(&self, txnum: TxNum) -> Result<BlockPart> {
        let (_, block) = self.block_of(txnum)?;
        let Span { offset, len } = self.span_in_block(txnum, block)?;
        Ok(BlockPart { block: block.block_hash(), offset, len })
    }

    fn span_in_block(&self, txnum: TxNum, block: &ChainBlock) -> Result<Span> {
        span_in(self.reader().get(txpos::TABLE, &span_key(txnum, block))?, txnum, block)
    }

    /// True if a block of this snapshot's chain holds the transaction.
    pub(crate) fn is_live(&self, txnum: TxNum) -> bool {
        self.headers.block_of(txnum).is_some()
    }

    /// The height of a live transaction.
    pub(super) fn height_of(&self, txnum: TxNum) -> Result<Height> {
        Ok(self.block_of(txnum)?.0)
    }

    pub(super) fn block_of(&self, txnum: TxNum) -> Result<(Height, &ChainBlock)> {
        self.headers.block_of(txnum).ok_or_else(|| Error::missing(header::TABLE, "a live transaction's block"))
    }

    /// Heights of ascending live txnums. Neighbours are often in one block, which is then not looked up again.
    pub(super) fn heights_of(&self, txnums: &[TxNum]) -> Vec<Height> {
        let mut last: Option<(Height, &ChainBlock)> = None;
        let height_of = |txnum: &TxNum| {
            let known = last.filter(|(_, block)| block.has(*txnum));
            let found = known.or_else(|| self.headers.block_of(*txnum)).expect("only live txnums are asked for");
            last = Some(found);
            found.0
        };
        txnums.iter().map(height_of).collect()
    }
}

/// The key of the row that has the span of a transaction.
fn span_key(txnum: TxNum, block: &ChainBlock) -> [u8; TxNum::LEN] {
    txnum_bytes(txpos::chunk_of(block.first_txnum, txnum.0 - block.first_txnum.0))
}

/// Returns the span of a transaction by that row.
fn span_in(row: Option<Vec<u8>>, txnum: TxNum, block: &ChainBlock) -> Result<Span> {
    let row = row.ok_or_else(|| Error::missing(txpos::TABLE, "a live transaction's row"))?;
    let within = usize::try_from((txnum.0 - block.first_txnum.0) % txpos::CHUNK as u64).expect("below 64");
    txpos::locate(&row, within).map_err(Error::malformed(txpos::TABLE))
}

fn branch_in(txids: &[Hash256], position: usize) -> MerkleBranch {
    let (siblings, root) = merkle::branch(txids, position);
    MerkleBranch {
        siblings,
        position: u32::try_from(position).expect("a block holds fewer than 2^32 transactions"),
        root,
    }
}
