//! A node in memory and an index of it: real blocks, the outputs they spend, and one active chain among several
//! branches.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use birdhouse_chain::source::{
    BlockId, BlockMeta, BlockSource, BlockStanding, ChainView, FetchedBlock, FilePosition, MempoolChange, MempoolSize,
    MempoolTxids, Node, NodeError, NodeUpdate, Ranking, SourceError, SourceErrorKind, SourceResult, SpentBuf, Unit,
    Visit,
};
use birdhouse_chain::{BuildOptions, Height, Index, MergeOptions, Profile, Secret};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::core_coding::{SPECIAL_SCRIPTS, compact_size, compressed_amount, put_varint};
use bitcoin::consensus::encode::{VarInt, deserialize, serialize};
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash as _;
use bitcoin::{Block, BlockHash, Network, OutPoint, ScriptBuf, Transaction, TxOut, Txid, Work};

/// Blocks that are read together.
const UNIT_BLOCKS: usize = 8;

/// The work of a node beside answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    Rests,
    Syncs,
}

/// The form in which a node gives the outputs that a block spends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SpentForm {
    #[default]
    TxOuts,
    Undo,
}

/// Every block that it ever received, and the active chain among them.
#[derive(Default)]
pub(crate) struct MemoryNode {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    active: Vec<BlockHash>,
    blocks: HashMap<BlockHash, Stored>,
    outputs: HashMap<OutPoint, TxOut>,
    /// Twice the height of the block that last had a transaction, and one more for a coinbase.
    origins: HashMap<Txid, u64>,
    form: SpentForm,
    /// Blocks whose spent outputs come without heights, as from a node over RPC, whatever the form of the others is.
    without_heights: BTreeSet<BlockHash>,
    /// Blocks on whose parent the source knows another one.
    with_siblings: BTreeSet<BlockHash>,
    /// Requests for the hashes of blocks from this height on fail once.
    failing_hashes: Option<u32>,
    /// Number of blocks that were read by their hash.
    reads: usize,
    mempool: Vec<Transaction>,
    /// Number of listings of the mempool.
    listings: usize,
    /// The chain and the mempool that the node has from its next answer about the size of its mempool to its next
    /// answer with transactions of it.
    on_a_visit: Option<(Vec<Block>, Vec<Transaction>)>,
    /// The chain and the mempool to which it comes back.
    at_home: Option<(Vec<BlockHash>, Vec<Transaction>)>,
    /// Chains that become active during the next listings.
    at_listings: Option<Box<dyn Iterator<Item = Vec<Block>> + Send>>,
    /// The chain that becomes active before the next comparison.
    before_view: Option<Vec<Block>>,
    /// The chain that becomes active after the next comparison, when the node falls behind.
    after_view: Option<Vec<Block>>,
    /// The node's knowledge of blocks outside the active chain, if not that they are invalid.
    standing: Option<BlockStanding>,
    /// True if the node downloads or connects blocks.
    is_syncing: bool,
    /// Duration of a request for transactions of the mempool.
    fetch_pause: Duration,
    /// Number of parts of blocks that were read.
    parts: usize,
    /// True if the node keeps an index of spenders.
    has_spender_index: bool,
    /// Called before every block that is read by its hash.
    at_every_block: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Called before every answer with the hashes of blocks.
    at_every_hashes: Option<Arc<dyn Fn() + Send + Sync>>,
    /// The transaction that the next wait tells of, and the chain to which the node falls behind right then.
    next_update: Option<(Transaction, Vec<Block>)>,
    /// True if a wait ends at once, with an update without changes.
    tells_of_nothing: bool,
    /// The changes that the next wait tells of.
    next_changes: Vec<MempoolChange>,
    /// The number of the next change of the mempool.
    sequence: u64,
    /// Called before every answer with transactions of the mempool.
    at_every_fetch: Option<Arc<dyn Fn() + Send + Sync>>,
    /// The longest time that each wait so far was to take.
    timeouts: Vec<Duration>,
    /// The number of waits so far, and the time that each takes.
    waits: usize,
    wait_pause: Duration,
    /// Looks at a mempool that was being loaded; `None` if it is loaded.
    looks_while_loading: Option<usize>,
}

#[derive(Clone)]
struct Stored {
    height: u32,
    block: Vec<u8>,
    spent: Vec<u8>,
    undo: Vec<u8>,
    tx_count: u32,
}

impl MemoryNode {
    /// Makes these blocks, the genesis block first, the active chain. Blocks of other branches stay.
    pub(crate) fn follow(&self, blocks: &[Block]) {
        let mut state = self.state.lock().unwrap();
        for (height, block) in (0..).zip(blocks) {
            let hash = block.block_hash();
            if !state.blocks.contains_key(&hash) {
                state.add(height, hash, block);
            }
        }
        state.active = blocks.iter().map(Block::block_hash).collect();
    }

    /// Gives the outputs that blocks spend as undo data from now on.
    pub(crate) fn give_undo_data(&self) {
        self.state.lock().unwrap().form = SpentForm::Undo;
    }

    /// Gives the outputs that this block spends without their heights from now on.
    pub(crate) fn withhold_heights(&self, block: BlockHash) {
        self.state.lock().unwrap().without_heights.insert(block);
    }

    /// Reports from now on that the undo data of this block may be that of a sibling.
    pub(crate) fn doubt(&self, block: BlockHash) {
        self.state.lock().unwrap().with_siblings.insert(block);
    }

    /// Gives undo data of this block with other heights than those of the funding transactions.
    pub(crate) fn contradict(&self, block: BlockHash) {
        let mut state = self.state.lock().unwrap();
        let stored = state.blocks[&block].clone();
        let block_of = deserialize::<Block>(&stored.block).unwrap();
        for txid in block_of.txdata[1..].iter().flat_map(|tx| &tx.input).map(|input| input.previous_output.txid) {
            *state.origins.get_mut(&txid).unwrap() -= 2;
        }
        let undo = state.undo_of(&block_of);
        state.blocks.insert(block, Stored { undo, ..stored });
    }

    /// Fails once to answer with the hashes of blocks from this height on, or above.
    pub(crate) fn fail_hashes_from(&self, height: u32) {
        self.state.lock().unwrap().failing_hashes = Some(height);
    }

    /// The number of blocks that were read by their hash so far.
    pub(crate) fn reads(&self) -> usize {
        self.state.lock().unwrap().reads
    }

    /// Makes these blocks the active chain during the next listing of the mempool.
    pub(crate) fn follow_at_next_listing(&self, blocks: &[Block]) {
        self.state.lock().unwrap().at_listings = Some(Box::new(std::iter::once(blocks.to_vec())));
    }

    /// Leaves for another chain when the size of the mempool is asked for next, and comes back right after transactions
    /// of its mempool were fetched.
    pub(crate) fn leave_while_the_mempool_is_listed(&self, blocks: &[Block], mempool: &[Transaction]) {
        self.state.lock().unwrap().on_a_visit = Some((blocks.to_vec(), mempool.to_vec()));
    }

    /// Makes one chain after the other the active one, at every listing of the mempool.
    pub(crate) fn alternate_at_listings(&self, chains: [&[Block]; 2]) {
        self.state.lock().unwrap().at_listings = Some(Box::new(chains.map(<[Block]>::to_vec).into_iter().cycle()));
    }

    /// Makes every request for transactions of the mempool take this time.
    pub(crate) fn fetch_slowly(&self, pause: Duration) {
        self.state.lock().unwrap().fetch_pause = pause;
    }

    /// Sets the node's knowledge of every block outside the active chain. At first it calls them invalid.
    pub(crate) fn regard(&self, standing: BlockStanding, activity: Activity) {
        let mut state = self.state.lock().unwrap();
        (state.standing, state.is_syncing) = (Some(standing), activity == Activity::Syncs);
    }

    /// Makes these blocks the active chain right before the next comparison of the chains.
    pub(crate) fn follow_before_next_view(&self, blocks: &[Block]) {
        self.state.lock().unwrap().before_view = Some(blocks.to_vec());
    }

    /// Falls behind to these blocks right after the next comparison of the chains.
    pub(crate) fn fall_behind_after_next_view(&self, blocks: &[Block]) {
        self.state.lock().unwrap().after_view = Some(blocks.to_vec());
    }

    /// Calls `hook` before every block that is read by its hash.
    pub(crate) fn at_every_block(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.state.lock().unwrap().at_every_block = Some(Arc::new(hook));
    }

    /// Calls `hook` before every answer with the hashes of blocks.
    pub(crate) fn at_every_hashes(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.state.lock().unwrap().at_every_hashes = Some(Arc::new(hook));
    }

    /// Calls `hook` before every answer with transactions of the mempool.
    pub(crate) fn at_every_fetch(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.state.lock().unwrap().at_every_fetch = Some(Arc::new(hook));
    }

    /// The longest time that each wait so far was to take.
    pub(crate) fn timeouts(&self) -> Vec<Duration> {
        self.state.lock().unwrap().timeouts.clone()
    }

    /// Loses every block outside the active chain.
    pub(crate) fn lose_stale_blocks(&self) {
        let mut state = self.state.lock().unwrap();
        let active: BTreeSet<BlockHash> = state.active.iter().copied().collect();
        state.blocks.retain(|hash, _| active.contains(hash));
    }

    /// Lets the node answer from an index of spenders.
    pub(crate) fn keep_spender_index(&self) {
        self.state.lock().unwrap().has_spender_index = true;
    }

    /// The number of reads of parts of blocks so far.
    pub(crate) fn parts(&self) -> usize {
        self.state.lock().unwrap().parts
    }

    /// The number of listings of the mempool so far.
    pub(crate) fn listings(&self) -> usize {
        self.state.lock().unwrap().listings
    }

    /// Ends the next wait with the news of a transaction, and falls right then behind to blocks where it is in the
    /// mempool.
    pub(crate) fn tell_and_fall_behind(&self, transaction: &Transaction, blocks: &[Block]) {
        self.state.lock().unwrap().next_update = Some((transaction.clone(), blocks.to_vec()));
    }

    /// Ends every wait from now on at once, with an update of the mempool without changes and without blocks.
    pub(crate) fn tell_of_nothing(&self) {
        self.state.lock().unwrap().tells_of_nothing = true;
    }

    /// Starts again, with a mempool that is still to be loaded. Counts its changes from 1 on.
    pub(crate) fn begin_to_load(&self) {
        let mut state = self.state.lock().unwrap();
        (state.looks_while_loading, state.sequence, state.tells_of_nothing) = (Some(0), 1, false);
    }

    /// The number of looks at the mempool since [`Self::begin_to_load`].
    pub(crate) fn looks_while_loading(&self) -> usize {
        self.state.lock().unwrap().looks_while_loading.unwrap_or(0)
    }

    /// Ends the loading of the mempool, which has these transactions then. The next wait tells of these changes.
    pub(crate) fn load(&self, transactions: Vec<Transaction>, changes: Vec<MempoolChange>) {
        let mut state = self.state.lock().unwrap();
        (state.looks_while_loading, state.mempool, state.next_changes) = (None, transactions, changes);
        // Few enough waits that nothing else makes the follower list the mempool.
        state.wait_pause = Duration::from_millis(10);
    }

    /// The number of waits so far.
    pub(crate) fn waits(&self) -> usize {
        self.state.lock().unwrap().waits
    }

    /// Sets the number of the next change of the mempool.
    pub(crate) fn count_changes_from(&self, sequence: u64) {
        self.state.lock().unwrap().sequence = sequence;
    }

    /// Replaces the mempool by these transactions, parents first.
    pub(crate) fn hold(&self, transactions: impl IntoIterator<Item = Transaction>) {
        self.state.lock().unwrap().mempool = transactions.into_iter().collect();
    }

    /// The mempool, parents first.
    pub(crate) fn held(&self) -> Vec<Transaction> {
        self.state.lock().unwrap().mempool.clone()
    }

    /// The scripts that the blocks of all branches pay.
    pub(crate) fn scripts(&self) -> BTreeSet<ScriptBuf> {
        self.state.lock().unwrap().outputs.values().map(|output| output.script_pubkey.clone()).collect()
    }

    fn spent_of(&self, stored: &Stored) -> SpentBuf {
        if self.gives_undo_data() {
            SpentBuf::Undo(stored.undo.clone())
        } else {
            SpentBuf::TxOuts(stored.spent.clone())
        }
    }

    fn stored(&self, hash: BlockHash) -> SourceResult<Stored> {
        let found = self.state.lock().unwrap().blocks.get(&hash).cloned();
        found.ok_or_else(|| SourceError { message: format!("no block {hash}"), kind: SourceErrorKind::NotFound })
    }
}

impl State {
    fn add(&mut self, height: u32, hash: BlockHash, block: &Block) {
        for tx in &block.txdata {
            let txid = tx.compute_txid();
            let outputs = (0..).zip(&tx.output).map(|(vout, output)| (OutPoint { txid, vout }, output.clone()));
            self.outputs.extend(outputs);
            self.origins.insert(txid, u64::from(height) * 2 + u64::from(tx.is_coinbase()));
        }
        let tx_count = u32::try_from(block.txdata.len()).unwrap();
        let (spent, undo) = (self.spent_by(block), self.undo_of(block));
        let stored = Stored { height, block: serialize(block), spent, undo, tx_count };
        self.blocks.insert(hash, stored);
    }

    /// The outputs that a block spends, in the form of `/rest/spenttxouts`.
    fn spent_by(&self, block: &Block) -> Vec<u8> {
        let count = |n: usize| serialize(&VarInt(n as u64));
        let mut bytes = count(block.txdata.len());
        for tx in &block.txdata {
            let inputs: &[_] = if tx.is_coinbase() { &[] } else { &tx.input };
            bytes.extend(count(inputs.len()));
            bytes.extend(inputs.iter().flat_map(|input| serialize(&self.outputs[&input.previous_output])));
        }
        bytes
    }
}

impl State {
    /// The outputs that a block spends, in the form of undo data.
    fn undo_of(&self, block: &Block) -> Vec<u8> {
        let (mut bytes, spending) = (Vec::new(), &block.txdata[1..]);
        compact_size(&mut bytes, spending.len());
        for tx in spending {
            compact_size(&mut bytes, tx.input.len());
            for outpoint in tx.input.iter().map(|input| input.previous_output) {
                let output = &self.outputs[&outpoint];
                put_varint(&mut bytes, self.origins[&outpoint.txid]);
                // A byte that Core writes for nodes before 0.15.
                put_varint(&mut bytes, 0);
                put_varint(&mut bytes, compressed_amount(output.value.to_sat()));
                put_varint(&mut bytes, output.script_pubkey.len() as u64 + SPECIAL_SCRIPTS);
                bytes.extend(output.script_pubkey.as_bytes());
            }
        }
        bytes
    }
}

impl BlockSource for MemoryNode {
    fn describe(&self) -> String {
        "blocks in memory".to_owned()
    }

    fn gives_undo_data(&self) -> bool {
        self.state.lock().unwrap().form == SpentForm::Undo
    }

    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        let mut hash = match tip {
            Some(tip) => tip,
            None => self.best_block()?.hash,
        };
        let mut chain = Vec::new();
        while hash != BlockHash::all_zeros() {
            let stored = self.stored(hash)?;
            let header = *stored.block.first_chunk().unwrap();
            let bytes = u32::try_from(stored.block.len()).unwrap();
            chain.push(BlockMeta { hash, header, tx_count: stored.tx_count, bytes, position: None });
            hash = deserialize::<bitcoin::block::Header>(&header).unwrap().prev_blockhash;
        }
        chain.reverse();
        Ok(chain)
    }

    fn units(&self, _: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
        let heights: Vec<Height> = (heights.start.0..heights.end.0).map(Height).collect();
        heights.chunks(UNIT_BLOCKS).map(|heights| Unit { heights: heights.to_vec() }).collect()
    }

    fn read_unit(&self, chain: &[BlockMeta], unit: &Unit, visit: &mut Visit<'_>) -> SourceResult<()> {
        unit.heights.iter().try_for_each(|height| {
            let stored = self.stored(chain[height.0 as usize].hash)?;
            let spent = self.spent_of(&stored);
            visit(*height, &stored.block, spent.as_bytes())
        })
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        let hook = self.state.lock().unwrap().at_every_block.clone();
        if let Some(hook) = hook {
            hook();
        }
        let stored = self.stored(hash)?;
        let mut state = self.state.lock().unwrap();
        state.reads += 1;
        let has_sibling = state.with_siblings.contains(&hash);
        let has_heights = !state.without_heights.contains(&hash);
        drop(state);
        let spent = if has_heights { self.spent_of(&stored) } else { SpentBuf::TxOuts(stored.spent) };
        Ok(FetchedBlock { block: stored.block, txids: None, spent, position: None, has_sibling })
    }

    fn read_part(&self, hash: BlockHash, _: Option<FilePosition>, offset: u32, len: u32) -> SourceResult<Vec<u8>> {
        self.state.lock().unwrap().parts += 1;
        let (start, len) = (offset as usize, len as usize);
        Ok(self.stored(hash)?.block[start..start + len].to_vec())
    }
}

/// Every other call is refused.
impl Node for MemoryNode {
    fn best_block(&self) -> SourceResult<BlockId> {
        let hash = *self.state.lock().unwrap().active.last().expect("the node has a chain");
        Ok(BlockId { height: Height(self.stored(hash)?.height), hash })
    }

    fn chain_view(&self, _: BlockHash, fork: BlockHash) -> SourceResult<ChainView> {
        let before = self.state.lock().unwrap().before_view.take();
        if let Some(blocks) = before {
            self.follow(&blocks);
        }
        let (tip, fork) = (self.best_block()?, self.stored(fork)?.height);
        let hashes = self.block_hashes(Height(fork + 1)..Height(tip.height.0 + 1))?;
        let mut work = Work::from_be_bytes([0; 32]);
        for hash in hashes {
            let header: bitcoin::block::Header = deserialize(&self.stored(hash)?.block[..80]).unwrap();
            work = work + header.work();
        }
        let (view, next) = {
            let mut state = self.state.lock().unwrap();
            let ours = state.standing.unwrap_or(BlockStanding::Invalid);
            (ChainView { tip, work, is_syncing: state.is_syncing, ours }, state.after_view.take())
        };
        if let Some(blocks) = next {
            self.follow(&blocks);
            self.regard(BlockStanding::Unconnected, Activity::Syncs);
        }
        Ok(view)
    }

    fn missing_blocks(&self, _: Height) -> SourceResult<Option<String>> {
        Ok(None)
    }

    fn block_hashes(&self, heights: Range<Height>) -> SourceResult<Vec<BlockHash>> {
        let hook = self.state.lock().unwrap().at_every_hashes.clone();
        if let Some(hook) = hook {
            hook();
        }
        let mut state = self.state.lock().unwrap();
        if state.failing_hashes.take_if(|from| *from <= heights.start.0).is_some() {
            return Err(SourceError { message: "no answer".to_owned(), kind: SourceErrorKind::Transient });
        }
        let end = (heights.end.0 as usize).min(state.active.len());
        Ok(state.active[(heights.start.0 as usize).min(end)..end].to_vec())
    }

    fn wait_for_update(&self, _: BlockHash, timeout: Duration) -> SourceResult<NodeUpdate> {
        self.state.lock().unwrap().timeouts.push(timeout);
        let next_update = self.state.lock().unwrap().next_update.take();
        if let Some((transaction, blocks)) = next_update {
            self.follow(&blocks);
            let added = MempoolChange::Added(transaction.compute_txid());
            self.hold([transaction]);
            return Ok(NodeUpdate::Changes { mempool: vec![added], blocks: false });
        }
        let (changes, pause) = {
            let mut state = self.state.lock().unwrap();
            state.waits += 1;
            (std::mem::take(&mut state.next_changes), state.wait_pause)
        };
        std::thread::sleep(pause);
        if !changes.is_empty() {
            return Ok(NodeUpdate::Changes { mempool: changes, blocks: false });
        }
        let tells_of_nothing = self.state.lock().unwrap().tells_of_nothing;
        let nothing = NodeUpdate::Changes { mempool: Vec::new(), blocks: false };
        Ok(if tells_of_nothing { nothing } else { NodeUpdate::Unknown })
    }

    fn mempool_size(&self) -> SourceResult<Option<MempoolSize>> {
        let visit = self.state.lock().unwrap().on_a_visit.take();
        if let Some((blocks, mempool)) = visit {
            let home = self.state.lock().unwrap().active.clone();
            let held = self.held();
            self.follow(&blocks);
            self.hold(mempool);
            self.state.lock().unwrap().at_home = Some((home, held));
        }
        let mut state = self.state.lock().unwrap();
        if let Some(looks) = &mut state.looks_while_loading {
            *looks += 1;
            return Ok(None);
        }
        let transactions = state.mempool.len() as u64;
        Ok(Some(MempoolSize { ranking: Ranking::Chunks, transactions, fees: 0 }))
    }

    fn mempool_txids(&self) -> SourceResult<MempoolTxids> {
        // In another order than that of the mempool.
        let txids: BTreeSet<Txid> = self.held().iter().map(Transaction::compute_txid).collect();
        let next = {
            let mut state = self.state.lock().unwrap();
            state.listings += 1;
            state.at_listings.as_mut().and_then(Iterator::next)
        };
        if let Some(blocks) = next {
            self.follow(&blocks);
        }
        Ok(MempoolTxids { txids: txids.into_iter().collect(), sequence: self.state.lock().unwrap().sequence })
    }

    fn mempool_transactions(&self, txids: &[Txid]) -> SourceResult<Vec<Option<Vec<u8>>>> {
        let (pause, hook) = {
            let state = self.state.lock().unwrap();
            (state.fetch_pause, state.at_every_fetch.clone())
        };
        if let Some(hook) = hook {
            hook();
        }
        std::thread::sleep(pause);
        let held: HashMap<Txid, Vec<u8>> =
            self.held().iter().map(|transaction| (transaction.compute_txid(), serialize(transaction))).collect();
        let mut state = self.state.lock().unwrap();
        if let Some((home, mempool)) = state.at_home.take() {
            (state.active, state.mempool) = (home, mempool);
        }
        Ok(txids.iter().map(|txid| held.get(txid).cloned()).collect())
    }

    fn spending_txids(&self, outputs: &[OutPoint]) -> Result<Vec<Txid>, NodeError> {
        let state = self.state.lock().unwrap();
        let active = state.active.iter().filter(|_| state.has_spender_index).map(|hash| &state.blocks[hash].block);
        let txs = active.flat_map(|block| deserialize::<Block>(block).unwrap().txdata);
        let spends = |tx: &Transaction| tx.input.iter().any(|input| outputs.contains(&input.previous_output));
        Ok(txs.filter(spends).map(|tx| tx.compute_txid()).collect())
    }
}

/// Options of a build in one generation.
pub(crate) fn options(temp_dir: &Path) -> BuildOptions {
    BuildOptions::modest(temp_dir)
}

/// Opens the index of a node's chain in a store. Its build packs every block.
pub(crate) fn open(store: &MemoryStore, node: &Arc<MemoryNode>, profile: Profile) -> Index {
    open_merging(store, node, profile, MergeOptions { tip_blocks: 0, ..MergeOptions::default() })
}

/// Opens the index of a node's chain in a store.
pub(crate) fn open_merging(
    store: &MemoryStore,
    node: &Arc<MemoryNode>,
    profile: Profile,
    merging: MergeOptions,
) -> Index {
    let genesis = genesis_block(Network::Regtest).block_hash();
    let (store, source) = (Arc::new(store.clone()), Arc::clone(node) as _);
    Index::open_with(store, source, genesis, profile, Secret([7; 16]), merging).unwrap()
}

/// Builds an index in memory.
pub(crate) fn built(node: &Arc<MemoryNode>, profile: Profile) -> Index {
    build(open(&MemoryStore::new(), node, profile))
}

/// Builds an index that merges as these options say.
pub(crate) fn built_merging(
    store: &MemoryStore,
    node: &Arc<MemoryNode>,
    profile: Profile,
    merging: MergeOptions,
) -> Index {
    build(open_merging(store, node, profile, merging))
}

fn build(index: Index) -> Index {
    let temp = tempfile::tempdir().unwrap();
    index.build(None, &options(temp.path())).unwrap();
    index
}
