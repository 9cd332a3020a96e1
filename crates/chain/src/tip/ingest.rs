//! One step of the tip: rolls stale blocks back, fetches new ones, writes their rows and publishes.
//!
//! Invariant: txnums are reserved, durably, before anything is written under them, and published after; a crash in
//! between burns them. A reorg is one publish: its manifest leaves the stale ranges out and brings the first new
//! blocks.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use birdhouse_store::Batch;
use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, OutPoint, Txid};

use crate::block::{BlockError, BlockTouches, Funded, SpendingInput, output_of};
use crate::error::{Error, Result};
use crate::merging::delta_filters;
use crate::names::{Hash256, Height, Keyer, ScriptHash, ScriptKey, TouchedScripts, TxNum};
use crate::outside::{BlockId, FetchedBlock, FilePosition, SourceError, SourceErrorKind};
use crate::query::{Funding, fundings};
use crate::rows;
use crate::rows::{Coin, Delta, Filters, HeaderRow, Recent, TxOutNum, recent, recent_txnum, stale, txnum};
use crate::state::{ChainBlock, Headers, Key, Manifest, Mempool, Slot, Snapshot, State};
use crate::tip::index::Index;
use crate::work::parallel;

/// Bytes of blocks that are published together when the index is behind.
const APPEND_BYTES_MAX: usize = 32 << 20;
/// Scripts of stale blocks that are notified one by one, about 20 MB. Beyond, every subscription is checked.
const STALE_SCRIPTS_MAX: usize = 1 << 18;

/// Blocks that are fetched and parsed at once.
const FETCHED_BLOCKS: usize = 8;

/// Result of publishing new blocks, to be installed.
pub(super) struct Advanced {
    /// The new tip, with the mempool less the transactions that the blocks confirm, and less those whose parents left
    /// the chain with stale blocks.
    pub(super) snapshot: Snapshot,
    pub(super) touched: TouchedScripts,
    /// False if other scripts were touched, too, which are not known one by one: a stale block could not be read, or
    /// they are too many.
    pub(super) touched_known: bool,
}

impl Index {
    /// Keeps the first `keep` blocks and appends those with `hashes`, in one publish. Returns `None` when there was
    /// nothing to do.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if `stop` is set while stale blocks are read. Nothing is published then.
    pub(super) fn advance(
        &self,
        before: &Snapshot,
        keep: u32,
        hashes: &[BlockHash],
        stop: &AtomicBool,
    ) -> Result<Option<Advanced>> {
        let mut manifest = self.writer.lock();
        let mut rows = Batch::new();
        let stale = self.rollback(before, keep, &mut rows, stop)?;
        let touched_known = stale.is_some();

        let mut headers = Headers::clone(&before.headers);
        headers.truncate(keep);
        let blocks = self.fetch(&headers, hashes)?;
        if blocks.is_empty() && keep == before.headers.len() {
            return Ok(None);
        }

        // The reservation is durable before any row, so a crash never uses a txnum twice.
        let mut next = manifest.clone();
        next.next.0 += blocks.iter().map(|block| block.touches.txids.len() as u64).sum::<u64>();
        self.shared.storage.store.publish(&next.encode())?;
        let mut at = std::mem::replace(&mut *manifest, next.clone()).next;
        next.cut(headers.end_txnum());
        self.begin_delta(&mut next, at);
        let shorter = self.snapshot_of(&next, headers.clone());
        let mut firsts = Vec::with_capacity(blocks.len());
        for block in &blocks {
            firsts.push(at);
            at = self.append_transactions(&mut next, &mut headers, at, block, &mut rows)?;
        }
        let fundings = self.fundings(&shorter, &blocks, &firsts)?;
        let longer = self.snapshot_of(&next, headers.clone());
        let mut touched = TouchedScripts::new();
        for ((block, first), fundings) in blocks.iter().zip(&firsts).zip(&fundings) {
            prove_spent(&longer, block, fundings)?;
            self.append_scripts(&next, *first, block, fundings, &mut rows);
            self.shared.storage.store.write(std::mem::take(&mut rows))?;
            touched.extend(block.touches.scripthashes());
        }
        next.state = State::Ready(headers.tip().ok_or(Error::NoBlocks)?);
        self.shared.storage.store.publish(&next.encode())?;
        *manifest = next;
        let mut snapshot = self.snapshot_of(&manifest, headers);
        if let Some(stale) = stale {
            snapshot.mempool = before.mempool.clone();
            touched.extend(stale.scripts);
            move_mempool(&mut snapshot.mempool, &stale.outputs, &blocks, &mut touched);
        }
        let tip = snapshot.tip();
        let stale = before.headers.len() - keep;
        tracing::info!(height = tip.height.0, hash = %tip.hash, blocks = blocks.len(), stale, "indexed to a new tip");
        Ok(Some(Advanced { snapshot, touched, touched_known }))
    }

    /// Fetches the first of the blocks that follow `headers`, up to [`APPEND_BYTES_MAX`] and what is fetched at once.
    fn fetch(&self, headers: &Headers, hashes: &[BlockHash]) -> Result<Vec<NewBlock>> {
        let mut blocks: Vec<NewBlock> = Vec::new();
        let mut previous = headers.tip();
        for some in hashes.chunks(FETCHED_BLOCKS) {
            if blocks.iter().map(|block| block.bytes as usize).sum::<usize>() >= APPEND_BYTES_MAX {
                break;
            }
            let fetched = self.fetch_some(previous, some, self.shared.runtime.threads())?;
            previous = fetched.last().map(NewBlock::id);
            blocks.extend(fetched);
        }
        Ok(blocks)
    }

    /// Fetches and parses the blocks with these hashes, which follow `previous`, on this many threads.
    pub(super) fn fetch_some(
        &self,
        previous: Option<BlockId>,
        hashes: &[BlockHash],
        threads: usize,
    ) -> Result<Vec<NewBlock>> {
        let first = previous.map_or(0, |previous| previous.height.0 + 1);
        let wanted: Vec<(Height, BlockHash)> = (first..).map(Height).zip(hashes.iter().copied()).collect();
        let source = &self.shared.storage.source;
        let fetch = |(height, hash): &(Height, BlockHash)| NewBlock::of(source.block(*hash)?, *height);
        let blocks = parallel::in_chunks(threads, &wanted, 1, |one| one.iter().map(fetch).collect())?;
        let mut previous = previous.map(|previous| previous.hash);
        for (block, hash) in blocks.iter().zip(hashes) {
            if block.previous() != previous || block.hash() != *hash {
                // The node's chain changed between the requests.
                return Err(Error::Source(moved()));
            }
            previous = Some(*hash);
        }
        Ok(blocks)
    }

    /// Writes the rows of a block and of its transactions, at its txnums. Returns the txnum after it.
    fn append_transactions(
        &self,
        manifest: &mut Manifest,
        headers: &mut Headers,
        first: TxNum,
        block: &NewBlock,
        rows: &mut Batch,
    ) -> Result<TxNum> {
        let row = block.header_row(first);
        let delta = *manifest.deltas.last().expect("a ready index has a delta");
        if let Some(txids) = &self.shared.storage.txids {
            txids.write(first.0, block.touches.txids.as_flattened())?;
        }
        for (table, key, value) in rows::of_block(&row, &block.touches.offsets) {
            rows.put(table, key, value);
        }
        let filters = self.delta_filters(delta, 0);
        for (txid, txnum) in block.touches.txids.iter().zip(first.0..) {
            let hash = self.shared.keyer.txid(txid);
            filters.txids.add(txnum::kept(hash, self.shared.keyer.length()));
            rows.put(recent_txnum::table(&delta), recent_txnum::key(hash, TxNum(txnum)), Vec::new());
        }
        headers.push(ChainBlock::of(&row));
        manifest.extend(first, row.end_txnum());
        self.shared.storage.store.write(std::mem::take(rows))?;
        Ok(row.end_txnum())
    }

    /// Adds the rows of the scripts that a block touches. `fundings` are the transactions that funded what it spends.
    fn append_scripts(
        &self,
        manifest: &Manifest,
        first: TxNum,
        block: &NewBlock,
        fundings: &[TxNum],
        rows: &mut Batch,
    ) {
        let delta = *manifest.deltas.last().expect("a ready index has a delta");
        let filters = self.delta_filters(delta, 0);
        for ((key, txnum), recent) in script_rows(&block.touches, first, fundings, &self.shared.keyer) {
            filters.scripts.add(key.prefix);
            rows.put(recent::table(&delta), recent::key(key, txnum), recent::value(&recent));
        }
    }

    /// The filters of a delta, which have room for this many transactions where they are created.
    pub(super) fn delta_filters(&self, delta: Delta, txs: u64) -> Arc<Filters> {
        let txs = txs.max(self.merging.delta_txs);
        self.slots.lock().filters(Slot::Delta(delta.slot), || delta_filters(txs))
    }

    /// The transactions that funded what each of some new blocks spends. `firsts` are the blocks' first txnums,
    /// `shorter` is the chain before them.
    fn fundings(&self, shorter: &Snapshot, blocks: &[NewBlock], firsts: &[TxNum]) -> Result<Vec<Vec<TxNum>>> {
        let mut recent = self.recent_txids.lock();
        let mut unnumbered = Vec::new();
        // In the order of the chain: a block may spend from those before it and from itself.
        let mut found = Vec::with_capacity(blocks.len());
        for (block, first) in blocks.iter().zip(firsts) {
            let BlockTouches { txids, spent, .. } = &block.touches;
            for (txid, txnum) in txids.iter().zip(first.0..) {
                recent.insert(Key(*txid), TxNum(txnum));
            }
            let of_block: Vec<Option<TxNum>> = spent
                .iter()
                .map(|spent| {
                    let known = recent.get(&Key(spent.prev_txid)).copied();
                    let known = known.filter(|txnum| *txnum >= firsts[0] || shorter.is_live(*txnum));
                    if known.is_none() {
                        unnumbered.push(block.funding_of(spent));
                    }
                    known
                })
                .collect();
            found.push(of_block);
        }
        drop(recent);
        let looked_up = fundings::look_up(shorter, unnumbered)?;
        let resolve = |(block, known): (&NewBlock, Vec<Option<TxNum>>)| {
            let spent = block.touches.spent.iter().zip(known);
            spent
                .map(|(spent, known)| known.map_or_else(|| fundings::known(&looked_up, &spent.prev_txid), Ok))
                .collect()
        };
        blocks.iter().zip(found).map(resolve).collect()
    }

    /// Begins a new delta at `first` once the last one is full and a slot is free.
    pub(super) fn begin_delta(&self, manifest: &mut Manifest, first: TxNum) {
        let last = manifest.deltas.last().expect("a ready index has a delta");
        if first.0 - last.start.0 >= self.merging.full_delta(first.0)
            && let Some(slot) = self.slots.lock().free_delta(manifest)
        {
            manifest.deltas.push(Delta { slot, start: first });
        }
    }

    /// Rolls back the blocks from `keep` on. Adds `stale` rows to `rows` for those that a pack has. Returns the
    /// blocks' scripts and outputs, or `None` if either are more than [`STALE_SCRIPTS_MAX`] or if a block is lost: a
    /// node that was killed may have overwritten it.
    ///
    /// # Errors
    /// [`Error::LostStaleBlock`] if a lost block lies in a pack; [`Error::Cancelled`] if `stop` is set.
    fn rollback(&self, before: &Snapshot, keep: u32, rows: &mut Batch, stop: &AtomicBool) -> Result<Option<Stale>> {
        let mut known = Some(Stale::default());
        for height in keep..before.headers.len() {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            let stale = before.headers.get(Height(height)).expect("below the length");
            let is_packed = stale.first_txnum < before.packs_end();
            if !is_packed && known.is_none() {
                // Only notifications and the mempool need the block. Every subscription will be checked, and the
                // mempool is listed anew.
                break;
            }
            let fetched = match self.shared.storage.source.block(stale.block_hash()) {
                // Its body may still be there with its undo data overwritten.
                Err(error) if !is_packed => {
                    tracing::warn!(height, %error, "failed to read a stale block; notifying every subscription");
                    known = None;
                    continue;
                }
                Err(error) if error.kind == SourceErrorKind::NotFound => {
                    return Err(Error::LostStaleBlock { height: Height(height), error });
                }
                fetched => fetched?,
            };
            let block = NewBlock::of(fetched, Height(height))?;
            if let Some(stale) = &mut known {
                stale.scripts.extend(block.touches.scripthashes());
                stale.outputs.extend(block.outpoints());
            }
            known = known.filter(|stale| stale.scripts.len().max(stale.outputs.len()) <= STALE_SCRIPTS_MAX);
            if !is_packed {
                continue;
            }
            let fundings = block.touches.spent.iter().map(|spent| block.funding_of(spent));
            let looked_up = fundings::look_up(before, fundings.collect())?;
            let fundings = block.touches.spent.iter().map(|spent| fundings::known(&looked_up, &spent.prev_txid));
            let fundings = fundings.collect::<Result<Vec<_>>>()?;
            prove_spent(before, &block, &fundings)?;
            let first = stale.first_txnum;
            for ((key, txnum), row) in script_rows(&block.touches, first, &fundings, &self.shared.keyer) {
                rows.put(stale::TABLE, recent::key(key, txnum), recent::value(&row));
            }
            self.shared.storage.store.write(std::mem::take(rows))?;
        }
        Ok(known)
    }
}

/// Contents of the stale blocks of a reorg.
#[derive(Default)]
struct Stale {
    /// The scripts that they touched.
    scripts: TouchedScripts,
    /// The outputs that they funded.
    outputs: Vec<OutPoint>,
}

/// Brings a mempool to a new tip: without the transactions that spend outputs of stale blocks which no new block has,
/// and without those that new blocks confirm or conflict with.
pub(super) fn move_mempool(
    mempool: &mut Mempool,
    stale_outputs: &[OutPoint],
    blocks: &[NewBlock],
    touched: &mut TouchedScripts,
) {
    let confirmed: HashSet<&Hash256> = blocks.iter().flat_map(|block| &block.touches.txids).collect();
    let gone = stale_outputs.iter().filter(|output| !confirmed.contains(output.txid.as_byte_array()));
    // A listing brings the stale transactions back, and their children after them.
    mempool.remove_orphans(gone, touched);
    for block in blocks {
        block.confirm_in(mempool, touched);
    }
}

/// Proves that the spent outputs of a block are those that its inputs name.
///
/// The checksum of undo data covers only the hash of the block before. Where a block's undo data is lost, that of a
/// sibling could pass for it, so each output of a block with a sibling is compared with the transaction that funded it.
/// Otherwise the heights in the undo data must be those of the funding transactions, which costs no reads of older
/// blocks. REST and RPC answer by the block's hash; their answers have no heights.
fn prove_spent(snapshot: &Snapshot, block: &NewBlock, fundings: &[TxNum]) -> Result<()> {
    if block.has_sibling {
        return prove_by_transactions(snapshot, block, fundings);
    }
    let agrees = |(spent, funding): (&SpendingInput, &TxNum)| {
        let height = || snapshot.headers.block_of(*funding).map(|(height, _)| height);
        spent.origin.is_none_or(|origin| height() == Some(origin.height))
    };
    if block.touches.spent.iter().zip(fundings).all(agrees) { Ok(()) } else { Err(block.contradicted()) }
}

fn prove_by_transactions(snapshot: &Snapshot, block: &NewBlock, fundings: &[TxNum]) -> Result<()> {
    // In the order of the files, and each transaction once.
    let mut order: Vec<(TxNum, &SpendingInput)> = fundings.iter().copied().zip(&block.touches.spent).collect();
    order.sort_unstable_by_key(|(funding, _)| *funding);
    let same: Vec<&[(TxNum, &SpendingInput)]> = order.chunk_by(|(one, _), (other, _)| one == other).collect();
    let proofs = parallel::map(snapshot.shared.runtime.threads(), &same, |same| {
        let (funding, first) = same[0];
        let raw = snapshot.proven_raw(&first.prev_txid, funding)?;
        for (_, spent) in *same {
            let output = output_of(&raw, spent.prev_vout).map_err(Error::unreadable_block)?;
            let funded = output.map(|(script, value)| (ScriptHash::of(script).0, value));
            if funded != Some((spent.scripthash, spent.value)) {
                return Err(block.contradicted());
            }
        }
        Ok(())
    });
    proofs.map(drop)
}

fn moved() -> SourceError {
    SourceError {
        message: "failed to fetch blocks: the node's chain moved meanwhile".into(),
        kind: SourceErrorKind::Transient,
    }
}

/// A fetched block and the outputs it funds and spends.
pub(super) struct NewBlock {
    pub(super) height: Height,
    header: [u8; 80],
    bytes: u32,
    position: Option<FilePosition>,
    /// Another block has the same parent: the undo data may be its own.
    pub(super) has_sibling: bool,
    pub(super) touches: BlockTouches,
}

impl NewBlock {
    pub(super) fn of(mut fetched: FetchedBlock, height: Height) -> Result<Self> {
        let touches = BlockTouches::of_fetched(&mut fetched);
        let touches = touches.map_err(|error| Error::Block { height, error })?;
        let header = *fetched.block.first_chunk().expect("a parsed block has a header");
        let bytes = *touches.offsets.last().expect("offsets end with the block's size");
        let FetchedBlock { position, has_sibling, .. } = fetched;
        Ok(Self { height, header, bytes, position, has_sibling, touches })
    }

    /// The transaction that funded a spent output of the block. Undo data may be a sibling's where there is one.
    fn funding_of(&self, spent: &SpendingInput) -> Funding {
        let height = spent.origin.filter(|_| !self.has_sibling).map(|origin| origin.height);
        Funding { txid: spent.prev_txid, height }
    }

    /// The error of spent outputs that are not those of the block's inputs.
    fn contradicted(&self) -> Error {
        Error::Block { height: self.height, error: BlockError::SpentCount }
    }

    /// Returns true if the block is not appended together with others by way of the disk: its undo data needs a proof,
    /// or its spent outputs came without their heights, as from a node over RPC.
    pub(super) fn is_alone(&self) -> bool {
        self.has_sibling || self.touches.spent.iter().any(|spent| spent.origin.is_none())
    }

    fn id(&self) -> BlockId {
        BlockId { height: self.height, hash: self.hash() }
    }

    fn hash(&self) -> BlockHash {
        bitcoin::hashes::Hash::from_byte_array(crate::names::sha256d(&self.header))
    }

    /// `None` for the genesis block.
    fn previous(&self) -> Option<BlockHash> {
        let hash: Hash256 = self.header[4..36].try_into().expect("32 bytes");
        (hash != [0; 32]).then(|| bitcoin::hashes::Hash::from_byte_array(hash))
    }

    /// The scripts that the block touches, with repetitions.
    pub(super) fn scripthashes(&self) -> impl Iterator<Item = ScriptHash> {
        self.touches.scripthashes()
    }

    /// The outputs that the block funds.
    pub(super) fn outpoints(&self) -> impl Iterator<Item = OutPoint> {
        let txids = &self.touches.txids;
        let outpoint = |funded: &Funded| (Txid::from_byte_array(txids[funded.tx as usize]), funded.vout);
        self.touches.funded.iter().map(outpoint).map(|(txid, vout)| OutPoint { txid, vout })
    }

    /// Removes from a mempool the transactions that the block confirms, and those that conflict with them.
    pub(super) fn confirm_in(&self, mempool: &mut Mempool, touched: &mut TouchedScripts) {
        let txid = |hash: &Hash256| Txid::from_byte_array(*hash);
        let spent = self.touches.spent.iter();
        let spent = spent.map(|spent| OutPoint { txid: txid(&spent.prev_txid), vout: spent.prev_vout });
        mempool.confirm(self.touches.txids.iter().map(txid), spent, touched);
    }

    pub(super) fn header_row(&self, first_txnum: TxNum) -> HeaderRow {
        HeaderRow {
            first_txnum,
            header: self.header,
            height: self.height,
            tx_count: u32::try_from(self.touches.txids.len()).expect("a block holds fewer than 2^32 transactions"),
            bytes: self.bytes,
            weight: self.touches.weight,
            position: self.position,
        }
    }
}

/// Returns one row per script and transaction of a block, in the order of their keys. Pure.
fn script_rows(
    touches: &BlockTouches,
    first: TxNum,
    fundings: &[TxNum],
    keyer: &Keyer,
) -> BTreeMap<(ScriptKey, TxNum), Recent> {
    let mut rows: BTreeMap<(ScriptKey, TxNum), Recent> = BTreeMap::new();
    let txnum = |tx: u32| TxNum(first.0 + u64::from(tx));
    for funded in &touches.funded {
        let key = keyer.script(&ScriptHash(funded.scripthash));
        rows.entry((key, txnum(funded.tx))).or_default().funded.push((funded.vout, funded.value));
    }
    for (spent, funding) in touches.spent.iter().zip(fundings) {
        let key = keyer.script(&ScriptHash(spent.scripthash));
        let out = TxOutNum { txnum: *funding, vout: spent.prev_vout };
        rows.entry((key, txnum(spent.tx))).or_default().spent.push(Coin { out, value: spent.value });
    }
    rows
}
