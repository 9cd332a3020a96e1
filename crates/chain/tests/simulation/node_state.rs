//! The simulated node: which blocks it knows, its active chain, its mempool, and its messages.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use birdhouse_chain::Height;
use birdhouse_chain::source::{
    BlockId, BlockStanding, ChainView, FetchedBlock, FilePosition, MempoolChange, MempoolSize, MempoolTxids, Ranking,
    SourceError, SourceErrorKind, SourceResult, SpentBuf,
};
use bitcoin::{BlockHash, Txid, Work};

use crate::miner::Pool;
use crate::tree::{BlockNumber, GENESIS, Known, Mined, Path, Tree};

/// One message of the node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Message {
    Block,
    Mempool(MempoolChange),
}

/// A ZMQ subscription to the node.
#[derive(Debug, Default)]
pub(crate) struct Zmq {
    pub(crate) queue: VecDeque<Message>,
    pub(crate) missed: bool,
    /// A message was lost: the next one has a gap before its number.
    pub(crate) has_gap: bool,
    /// The connection stands from this time on.
    pub(crate) connected_at: Duration,
}

/// The way in which a node fell behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lag {
    /// It connects anew what it has, and calls our tip a fork.
    ReindexChainstate,
    /// It knows headers alone, and syncs.
    Reindex,
    /// It knows nothing above its tip, and syncs.
    Wiped,
    /// It knows nothing above its tip, and nobody tells it of more.
    Restored,
    /// It knows headers, and nobody sends it blocks.
    Offline,
}

impl Lag {
    pub(crate) const ALL: [Self; 5] =
        [Self::ReindexChainstate, Self::Reindex, Self::Wiped, Self::Restored, Self::Offline];

    fn is_syncing(self) -> bool {
        matches!(self, Self::ReindexChainstate | Self::Reindex | Self::Wiped)
    }

    /// The kind of waiting that fits a node with less work, with what it knows of our tip.
    pub(crate) fn expected(self, ours: Option<&BlockStanding>) -> &'static str {
        if self.is_syncing() || ours.is_some() { "node behind" } else { "node on another chain" }
    }
}

/// A node that is behind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behind {
    pub(crate) lag: Lag,
    /// Time of its next step forward.
    pub(crate) next: Duration,
    /// Blocks of a step.
    pub(crate) blocks: usize,
    /// Time between steps.
    pub(crate) pause: Duration,
}

/// The form in which the node gives blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Block and undo files, at positions.
    Files,
    Rest,
}

/// The state of the node.
#[derive(Debug)]
pub(crate) struct NodeState {
    pub(crate) form: Form,
    pub(crate) path: Path,
    /// Every block that the node knows.
    pub(crate) standing: HashMap<BlockNumber, BlockStanding>,
    /// Blocks that it has connected at some time, whatever it has forgotten since.
    pub(crate) ever_connected: HashSet<BlockNumber>,
    /// Blocks that the node calls invalid, with all that follow them.
    pub(crate) invalid: HashSet<BlockNumber>,
    /// Blocks whose data the node has lost.
    pub(crate) lost: HashSet<BlockNumber>,
    /// Blocks whose undo data is that of a sibling, for the next request.
    pub(crate) swapped_undo: HashMap<BlockNumber, BlockNumber>,
    /// Number of times that the node wrote its files anew.
    pub(crate) rewritten: u32,
    pub(crate) pool: Pool,
    /// The number of the next change of the mempool.
    sequence: u64,
    pub(crate) zmq: Option<Zmq>,
    pub(crate) behind: Option<Behind>,
    /// No answer before this time.
    pub(crate) down_until: Duration,
    /// The mempool is being loaded until this time.
    pub(crate) loading_until: Duration,
    /// Thousandths of the calls that fail.
    pub(crate) flaky: u64,
    pub(crate) has_txindex: bool,
}

fn error(kind: SourceErrorKind, message: &str) -> SourceError {
    SourceError { message: format!("simulated: {message}"), kind }
}

impl NodeState {
    pub(crate) fn new(form: Form, tree: &Tree, tip: BlockNumber, zmq: Option<Zmq>) -> Self {
        let path = tree.path(tip);
        Self {
            form,
            standing: path.iter().map(|block| (*block, BlockStanding::Fork)).collect(),
            ever_connected: path.iter().copied().collect(),
            path,
            invalid: HashSet::new(),
            lost: HashSet::new(),
            swapped_undo: HashMap::new(),
            rewritten: 0,
            pool: Pool::default(),
            sequence: 1,
            zmq,
            behind: None,
            down_until: Duration::ZERO,
            loading_until: Duration::ZERO,
            flaky: 0,
            has_txindex: false,
        }
    }

    pub(crate) fn tip(&self) -> BlockNumber {
        *self.path.last().expect("the node has a genesis block")
    }

    /// True if nothing keeps the node from answering and from being right.
    pub(crate) fn is_healthy(&self, now: Duration) -> bool {
        self.behind.is_none()
            && self.flaky == 0
            && now >= self.down_until
            && now >= self.loading_until
            && self.lost.is_empty()
    }

    /// Ends every fault, and makes the valid chain with most work active.
    pub(crate) fn heal(&mut self, tree: &Tree, now: Duration) {
        (self.behind, self.flaky) = (None, 0);
        (self.down_until, self.loading_until) = (now, now);
        self.lost.clear();
        self.swapped_undo.clear();
        self.standing.extend((0..tree.len()).map(|block| (block, BlockStanding::Fork)));
        self.ever_connected.extend(0..tree.len());
        if let Some(zmq) = &mut self.zmq
            && zmq.connected_at > now
        {
            zmq.connected_at = now;
        }
        self.activate_best(tree);
    }

    /// True if the node calls a block of the branch invalid.
    pub(crate) fn calls_invalid(&self, path: &Path) -> bool {
        !self.invalid.is_empty() && path.iter().any(|block| self.invalid.contains(block))
    }

    /// Makes the valid chain with most work active; the present one, if no other has more.
    pub(crate) fn activate_best(&mut self, tree: &Tree) {
        let mut best = if self.calls_invalid(&self.path) { GENESIS } else { self.tip() };
        for block in 0..tree.len() {
            let is_known = self.standing.get(&block) == Some(&BlockStanding::Fork);
            if is_known && tree.block(block).work > tree.block(best).work && !self.calls_invalid(&tree.path(block)) {
                best = block;
            }
        }
        self.activate(tree, best);
    }

    /// Makes the branch that ends with `tip` active, as Core does it: disconnects, connects, and repairs the mempool.
    pub(crate) fn activate(&mut self, tree: &Tree, tip: BlockNumber) {
        if tip == self.tip() {
            return;
        }
        let (old, new) = (Arc::clone(&self.path), tree.path(tip));
        let shared = old.iter().zip(new.iter()).take_while(|(old, new)| old == new).count();
        let mut returned: Vec<Arc<Known>> = Vec::new();
        for block in &old[shared..] {
            self.publish(Message::Block);
            let txids = tree.block(*block).txids.iter();
            returned.extend(txids.filter_map(|txid| tree.tx(txid)).filter(|known| !known.is_coinbase()).cloned());
        }
        for block in &new[shared..] {
            self.standing.insert(*block, BlockStanding::Fork);
            self.ever_connected.insert(*block);
        }
        self.path = new;
        let before = std::mem::take(&mut self.pool);
        let mut pool = Pool::default();
        for known in returned.iter().chain(&before.txs) {
            if pool.accepts(tree, &self.path, known) {
                pool.push(Arc::clone(known));
            }
        }
        let path = Arc::clone(&self.path);
        for known in &before.txs {
            if tree.is_confirmed(&path, &known.txid) {
                // No message, but a number.
                self.sequence += 1;
            } else if !pool.has(&known.txid) {
                self.publish_removed(known.txid);
            }
        }
        for _ in &path[shared..] {
            self.publish(Message::Block);
        }
        for known in pool.txs.iter().filter(|known| !before.has(&known.txid)) {
            self.sequence += 1;
            self.publish(Message::Mempool(MempoolChange::Added(known.txid)));
        }
        self.pool = pool;
    }

    pub(crate) fn add(&mut self, known: &Arc<Known>) {
        self.pool.push(Arc::clone(known));
        self.sequence += 1;
        self.publish(Message::Mempool(MempoolChange::Added(known.txid)));
    }

    pub(crate) fn evict(&mut self, txid: Txid) {
        for gone in self.pool.remove(txid) {
            self.publish_removed(gone);
        }
    }

    fn publish_removed(&mut self, txid: Txid) {
        let sequence = self.sequence;
        self.sequence += 1;
        self.publish(Message::Mempool(MempoolChange::Removed { txid, sequence }));
    }

    fn publish(&mut self, message: Message) {
        if let Some(zmq) = &mut self.zmq {
            zmq.missed |= std::mem::take(&mut zmq.has_gap);
            zmq.queue.push_back(message);
        }
    }

    /// Ends the node's process; it answers again at a later time, and its messages begin anew.
    pub(crate) fn restart(&mut self, back_at: Duration, loaded_at: Duration) {
        (self.down_until, self.loading_until) = (back_at, loaded_at);
        self.sequence = 1;
        if let Some(zmq) = &mut self.zmq {
            // The subscriber finds out at once, and connects again half a second after the node is back.
            *zmq = Zmq { missed: true, connected_at: back_at + Duration::from_millis(500), ..Zmq::default() };
        }
    }

    /// Falls behind to a height of its own chain.
    pub(crate) fn fall_behind(&mut self, tree: &Tree, height: usize, behind: Behind) {
        let above = self.path[height + 1..].to_vec();
        for block in above {
            match behind.lag {
                Lag::ReindexChainstate => drop(self.standing.insert(block, BlockStanding::Fork)),
                Lag::Reindex | Lag::Offline => drop(self.standing.insert(block, BlockStanding::Unconnected)),
                Lag::Wiped | Lag::Restored => drop(self.standing.remove(&block)),
            }
        }
        if behind.lag != Lag::ReindexChainstate {
            let (path, height) = (Arc::clone(&self.path), height);
            self.standing.retain(|block, standing| {
                path[..=height].contains(block) || matches!(standing, BlockStanding::Unconnected)
            });
        }
        self.invalid.clear();
        self.pool = Pool::default();
        self.path = tree.path(self.path[height]);
        self.behind = Some(behind);
    }

    /// Takes the steps forward that are due.
    pub(crate) fn catch_up(&mut self, tree: &Tree, now: Duration) {
        while let Some(behind) = self.behind.filter(|behind| now >= behind.next) {
            let target = tree.path(best_of(tree));
            let shared = self.path.iter().zip(target.iter()).take_while(|(ours, theirs)| ours == theirs).count();
            if shared == target.len() {
                self.behind = None;
                return;
            }
            // A branch of its own is left only for one with more work.
            let mut next = (self.path.len() + behind.blocks).min(target.len());
            while next < target.len() && tree.block(target[next - 1]).work <= tree.block(self.tip()).work {
                next += 1;
            }
            let tip = target[next - 1];
            if tree.block(tip).work <= tree.block(self.tip()).work {
                self.behind = None;
                return;
            }
            self.activate(tree, tip);
            self.behind = Some(Behind { next: behind.next + behind.pause, ..behind });
        }
    }
}

/// The block with most work in the network; of several, the first.
fn best_of(tree: &Tree) -> BlockNumber {
    (1..tree.len())
        .fold(GENESIS, |best, block| if tree.block(block).work > tree.block(best).work { block } else { best })
}

// === answers ===

/// The failure of a call that the node does not answer.
pub(crate) fn down() -> SourceError {
    error(SourceErrorKind::Transient, "the node is down")
}

impl NodeState {
    /// Fails while the node does not answer.
    pub(crate) fn reachable(&self, now: Duration) -> SourceResult<()> {
        if now < self.down_until { Err(down()) } else { Ok(()) }
    }

    pub(crate) fn best_block(&self, tree: &Tree) -> BlockId {
        let tip = tree.block(self.tip());
        BlockId { height: Height(tip.height), hash: tip.hash }
    }

    pub(crate) fn block_hashes(&self, tree: &Tree, heights: std::ops::Range<Height>) -> Vec<BlockHash> {
        let end = (heights.end.0 as usize).min(self.path.len());
        let start = (heights.start.0 as usize).min(end);
        self.path[start..end].iter().map(|block| tree.block(*block).hash).collect()
    }

    pub(crate) fn chain_view(&self, tree: &Tree, ours: BlockHash, fork: BlockHash) -> SourceResult<ChainView> {
        let moved = || error(SourceErrorKind::Transient, "the chain moved");
        let number = |hash: &BlockHash| tree.find(hash).filter(|block| self.standing.contains_key(block));
        let fork = number(&fork).ok_or_else(moved)?;
        let ours = match number(&ours) {
            None => BlockStanding::Unknown,
            Some(block) if tree.is_on(&self.path, block) => return Err(moved()),
            Some(block) if self.calls_invalid(&tree.path(block)) => BlockStanding::Invalid,
            Some(block) => self.standing[&block],
        };
        let work = tree.block(self.tip()).work.checked_sub(tree.block(fork).work).ok_or_else(moved)?;
        let mut bytes = [0; 32];
        bytes[16..].copy_from_slice(&work.to_be_bytes());
        let is_syncing = self.behind.is_some_and(|behind| behind.lag.is_syncing());
        Ok(ChainView { tip: self.best_block(tree), work: Work::from_be_bytes(bytes), is_syncing, ours })
    }

    pub(crate) fn mempool_size(&self, now: Duration) -> Option<MempoolSize> {
        let fees = self.pool.txs.iter().map(|known| known.fee).sum();
        (now >= self.loading_until).then_some(MempoolSize {
            ranking: Ranking::Chunks,
            transactions: self.pool.txs.len() as u64,
            fees,
        })
    }

    /// The listing; the children before their parents.
    pub(crate) fn mempool_txids(&self) -> MempoolTxids {
        let txids = self.pool.txs.iter().rev().map(|known| known.txid).collect();
        MempoolTxids { txids, sequence: self.sequence }
    }

    pub(crate) fn mempool_transaction(&self, tree: &Tree, txid: &Txid) -> Option<Vec<u8>> {
        let known = tree.tx(txid)?;
        let is_found = self.pool.has(txid) || self.has_txindex && tree.is_confirmed(&self.path, txid);
        is_found.then(|| known.raw.clone())
    }

    pub(crate) fn has_data(&self, block: BlockNumber) -> bool {
        self.standing.get(&block) == Some(&BlockStanding::Fork) && !self.lost.contains(&block)
    }

    fn data<'a>(&self, tree: &'a Tree, hash: &BlockHash) -> SourceResult<(BlockNumber, &'a Arc<Mined>)> {
        let block = tree.find(hash).filter(|block| self.has_data(*block));
        let block = block.ok_or_else(|| error(SourceErrorKind::NotFound, "no such block"))?;
        Ok((block, tree.block(block)))
    }

    pub(crate) fn block(&mut self, tree: &Tree, hash: &BlockHash) -> SourceResult<FetchedBlock> {
        let (number, mined) = self.data(tree, hash)?;
        let spent = match (self.form, self.swapped_undo.remove(&number)) {
            (Form::Files, Some(sibling)) => SpentBuf::Undo(tree.block(sibling).undo.clone()),
            (Form::Files, None) => SpentBuf::Undo(mined.undo.clone()),
            (Form::Rest, _) => SpentBuf::TxOuts(mined.tx_outs.clone()),
        };
        let has_sibling = self.form == Form::Files && tree.has_sibling(number);
        let (block, position) = (mined.bytes.clone(), self.position(number));
        Ok(FetchedBlock { block, txids: None, spent, position, has_sibling })
    }

    pub(crate) fn position(&self, block: BlockNumber) -> Option<FilePosition> {
        let place = u32::try_from(block).expect("few blocks") ^ self.rewritten;
        (self.form == Form::Files).then_some(FilePosition { file: place, offset: 8 })
    }

    /// The bytes that lie at a position now: those of another block, once the node has written its files anew.
    pub(crate) fn peek(&self, tree: &Tree, position: FilePosition, offset: u32, len: u32) -> Option<Vec<u8>> {
        let block = (position.file ^ self.rewritten) as usize;
        let is_there = block < tree.len() && self.form == Form::Files && !self.lost.contains(&block);
        let bytes = &tree.block(if is_there { block } else { return None }).bytes;
        bytes.get(offset as usize..(offset + len) as usize).map(<[u8]>::to_vec)
    }

    pub(crate) fn read_part(&self, tree: &Tree, hash: &BlockHash, offset: u32, len: u32) -> SourceResult<Vec<u8>> {
        let (_, mined) = self.data(tree, hash)?;
        let range = offset as usize..(offset + len) as usize;
        mined.bytes.get(range).map(<[u8]>::to_vec).ok_or_else(|| error(SourceErrorKind::NotFound, "beyond the block"))
    }
}
