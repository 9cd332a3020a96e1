//! The network and its node as steps change them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use birdhouse_testkit::rng::Rng;
use bitcoin::Transaction;

use crate::miner::{Miner, Pool};
use crate::node_state::{Behind, Lag, NodeState};
use crate::plan::Step;
use crate::tree::{BlockNumber, Path, Tree};

/// The network, its miners, and one node of it.
pub(crate) struct World {
    pub(crate) now: Duration,
    pub(crate) tree: Arc<Tree>,
    pub(crate) miner: Miner,
    pub(crate) node: NodeState,
    /// No reorg reaches below this height.
    pub(crate) floor: usize,
    /// Blocks that the node has ever called invalid.
    pub(crate) ever_invalid: HashSet<BlockNumber>,
    /// Tips that the node was told to prefer to others with as much work.
    pub(crate) ever_preferred: HashSet<BlockNumber>,
    /// Tips of branches that were active for some time.
    branches: Vec<BlockNumber>,
}

impl World {
    pub(crate) fn new(tree: Arc<Tree>, miner: Miner, node: NodeState, floor: usize) -> Self {
        let branches = vec![node.tip()];
        Self {
            now: Duration::ZERO,
            tree,
            miner,
            node,
            floor,
            ever_invalid: HashSet::new(),
            ever_preferred: HashSet::new(),
            branches,
        }
    }

    /// Takes a step; returns what it did.
    pub(crate) fn change(&mut self, step: Step, rng: &mut Rng) -> String {
        match step {
            Step::Mine => self.mine(rng),
            Step::Pay => self.pay(rng),
            Step::Replace => self.replace(rng),
            Step::Evict => self.evict(rng),
            Step::Reorg => {
                let deepest = *rng.pick(&[2, 5, 12, 30]);
                self.reorg(rng, deepest)
            }
            Step::DeepReorg => self.reorg(rng, 200),
            Step::Twin => self.twin(rng),
            Step::ComeBack => self.come_back(rng),
            Step::Prefer => self.prefer(),
            Step::Invalidate => self.invalidate(rng),
            Step::Reconsider => self.reconsider(),
            Step::FallBehind | Step::StayBehind => self.fall_behind(rng),
            Step::Restart => self.restart(rng),
            Step::Stall => {
                let pause = Duration::from_millis(rng.below(8000));
                self.node.down_until = self.now + pause;
                format!("no answer for {pause:?}")
            }
            Step::Flaky => {
                self.node.flaky = if self.node.flaky > 0 { 0 } else { 10 + rng.below(150) };
                format!("{} of 1000 calls fail", self.node.flaky)
            }
            Step::LoseMessages => self.lose_messages(rng),
            Step::LoseStale => {
                let path = Arc::clone(&self.node.path);
                let stale = (0..self.tree.len()).filter(|block| !self.tree.is_on(&path, *block));
                self.node.lost.extend(stale);
                format!("{} stale blocks", self.node.lost.len())
            }
            Step::Rewrite => {
                self.node.rewritten = rng.below_u32(64);
                format!("order {}", self.node.rewritten)
            }
            _ => String::new(),
        }
    }

    /// Some lower block of the active chain, which is not below the floor.
    fn fork(&self, rng: &mut Rng, deepest: usize) -> usize {
        let height = self.node.path.len() - 1;
        height - (1 + rng.index(deepest)).min(height.saturating_sub(self.floor))
    }

    fn pay(&mut self, rng: &mut Rng) -> String {
        let count = if rng.per_mille(100) { 10 } else { 1 + rng.below(3) };
        let mut paid = 0;
        for _ in 0..count {
            let Some(tx) = self.miner.payment(rng, &self.tree, &self.node.path, &self.node.pool, 3) else { break };
            let known = Arc::make_mut(&mut self.tree).add_tx(&tx);
            self.node.add(&known);
            paid += 1;
        }
        format!("{paid} transactions")
    }

    fn replace(&mut self, rng: &mut Rng) -> String {
        if self.node.pool.txs.is_empty() {
            return "nothing to replace".to_owned();
        }
        let old = Arc::clone(rng.pick(&self.node.pool.txs));
        let coin = old.spends().next().expect("it has an input");
        let tx = self.miner.spending(rng, &self.tree, &[coin]);
        let known = Arc::make_mut(&mut self.tree).add_tx(&tx);
        self.node.evict(old.txid);
        self.node.add(&known);
        format!("{} by {}", old.txid, known.txid)
    }

    fn evict(&mut self, rng: &mut Rng) -> String {
        if self.node.pool.txs.is_empty() {
            return "nothing to evict".to_owned();
        }
        let txid = rng.pick(&self.node.pool.txs).txid;
        self.node.evict(txid);
        txid.to_string()
    }

    /// The transactions of the next block on a branch: some of the mempool, some of stale blocks, some that nobody saw.
    fn choose(&mut self, rng: &mut Rng, path: &Path) -> Vec<Transaction> {
        let mut chosen = Pool::default();
        let known = self.tree.txids();
        let recent = known[known.len().saturating_sub(20)..].iter().rev().filter_map(|txid| self.tree.tx(txid));
        let candidates: Vec<_> = self.node.pool.txs.iter().chain(recent).cloned().collect();
        let eager = *rng.pick(&[0, 400, 900]);
        for known in candidates {
            if rng.per_mille(eager) && chosen.accepts(&self.tree, path, &known) {
                chosen.push(known);
            }
        }
        for _ in 0..rng.below(4) {
            if let Some(tx) = self.miner.payment(rng, &self.tree, path, &chosen, 3) {
                chosen.push(Arc::make_mut(&mut self.tree).add_tx(&tx));
            }
        }
        chosen.txs.iter().map(|known| known.tx.clone()).collect()
    }

    /// Mines a branch of some blocks; returns its tip.
    fn branch(&mut self, rng: &mut Rng, mut tip: BlockNumber, blocks: usize, hardness: usize) -> BlockNumber {
        for _ in 0..blocks {
            let path = self.tree.path(tip);
            // Long branches are nearly empty: only their number matters.
            let txs = if blocks > 20 && !rng.per_mille(200) { Vec::new() } else { self.choose(rng, &path) };
            let coinbase = self.miner.coinbase(rng);
            tip = self.miner.mine(Arc::make_mut(&mut self.tree), tip, coinbase, txs, hardness);
        }
        tip
    }

    /// Makes a new branch known to the node, which follows it if it has more work.
    fn announce(&mut self, tip: BlockNumber) {
        self.branches.push(tip);
        if self.node.behind.is_some() {
            return;
        }
        let path = self.tree.path(tip);
        let is_better = self.tree.block(tip).work > self.tree.block(self.node.tip()).work;
        if is_better && !self.node.calls_invalid(&path) {
            self.node.activate(&self.tree, tip);
        }
    }

    fn mine(&mut self, rng: &mut Rng) -> String {
        let blocks = if rng.per_mille(100) { 10 } else { 1 + rng.index(2) };
        let tip = self.branch(rng, self.node.tip(), blocks, 0);
        self.announce(tip);
        format!("{blocks} blocks to height {}", self.tree.block(tip).height)
    }

    fn reorg(&mut self, rng: &mut Rng, deepest: usize) -> String {
        let fork = self.fork(rng, deepest);
        let depth = self.node.path.len() - 1 - fork;
        // Harder blocks make a shorter chain with more work.
        let hardness = if rng.per_mille(200) { 1 + rng.index(2) } else { 0 };
        let work = self.tree.block(self.node.tip()).work - self.tree.block(self.node.path[fork]).work;
        let blocks = usize::try_from(work / (2 << hardness)).expect("little work") + 1 + rng.index(2);
        let tip = self.branch(rng, self.node.path[fork], blocks, hardness);
        self.announce(tip);
        format!("{depth} blocks from height {fork} on by {blocks} of hardness {hardness}")
    }

    /// Replaces the tip by a block whose inputs are as many, and one more.
    fn twin(&mut self, rng: &mut Rng) -> String {
        let parent = self.node.tip();
        let path = self.tree.path(parent);
        let simple = |world: &mut Self, rng: &mut Rng| {
            let tx = world.miner.payment(rng, &world.tree, &path, &Pool::default(), 1);
            let txs: Vec<Transaction> = tx.into_iter().collect();
            let coinbase = world.miner.coinbase(rng);
            world.miner.mine(Arc::make_mut(&mut world.tree), parent, coinbase, txs, 0)
        };
        let (first, second) = (simple(self, rng), simple(self, rng));
        self.announce(first);
        let same = self.tree.block(first).txids.len() == self.tree.block(second).txids.len();
        if same && self.node.behind.is_none() {
            self.node.swapped_undo.insert(second, first);
            self.node.swapped_undo.insert(first, second);
        }
        if rng.per_mille(500) {
            let tip = self.branch(rng, second, 1, 0);
            self.announce(tip);
        }
        format!("blocks {first} and {second}")
    }

    fn come_back(&mut self, rng: &mut Rng) -> String {
        let old = *rng.pick(&self.branches);
        let path = self.tree.path(old);
        let shared = self.node.path.iter().zip(path.iter()).take_while(|(ours, theirs)| ours == theirs).count();
        if shared == path.len() || shared < self.floor {
            return "no other branch".to_owned();
        }
        let missing = self.tree.block(self.node.tip()).work.saturating_sub(self.tree.block(old).work);
        let blocks = usize::try_from(missing / 2).expect("little work") + 1;
        let tip = self.branch(rng, old, blocks.min(220), 0);
        self.announce(tip);
        format!("branch {old} with {blocks} more blocks")
    }

    fn prefer(&mut self) -> String {
        let tip = self.node.tip();
        let work = self.tree.block(tip).work;
        let is_equal = |block: &BlockNumber| *block != tip && self.tree.block(*block).work == work;
        let other = (0..self.tree.len()).rev().find(is_equal);
        match other {
            Some(other) if self.node.behind.is_none() && !self.node.calls_invalid(&self.tree.path(other)) => {
                self.node.activate(&self.tree, other);
                self.ever_preferred.insert(other);
                format!("block {other}")
            }
            _ => "no other branch".to_owned(),
        }
    }

    fn invalidate(&mut self, rng: &mut Rng) -> String {
        if self.node.behind.is_some() {
            return "the node is behind".to_owned();
        }
        let deepest = *rng.pick(&[1, 3, 15]);
        let fork = self.fork(rng, deepest);
        let Some(block) = self.node.path.get(fork + 1).copied() else { return "nothing above the floor".to_owned() };
        self.node.invalid.insert(block);
        self.ever_invalid.insert(block);
        self.node.activate_best(&self.tree);
        format!("block {block} at height {}; the tip is now at {}", fork + 1, self.node.path.len() - 1)
    }

    fn reconsider(&mut self) -> String {
        self.node.invalid.clear();
        if self.node.behind.is_none() {
            self.node.activate_best(&self.tree);
        }
        format!("tip at height {}", self.node.path.len() - 1)
    }

    fn fall_behind(&mut self, rng: &mut Rng) -> String {
        if self.node.behind.is_some() {
            return "the node is behind".to_owned();
        }
        let lag = *rng.pick(&Lag::ALL);
        let deepest = *rng.pick(&[3, 20, 200]);
        let height = self.fork(rng, deepest);
        let pause = Duration::from_millis(100 + rng.below(2000));
        let behind = Behind { lag, next: self.now + pause * 3, blocks: 1 + rng.index(40), pause };
        let back_at = self.now + Duration::from_millis(rng.below(3000));
        self.node.fall_behind(&self.tree, height, behind);
        self.node.restart(back_at, back_at);
        // An old copy may have found blocks of its own.
        if lag == Lag::Restored && rng.per_mille(400) {
            let blocks = 1 + rng.index(3);
            let tip = self.branch(rng, self.node.tip(), blocks, 0);
            self.node.activate(&self.tree, tip);
        }
        format!("{lag:?} to height {}", self.node.path.len() - 1)
    }

    fn restart(&mut self, rng: &mut Rng) -> String {
        let back_at = self.now + Duration::from_millis(rng.below(4000));
        let loaded_at = back_at + Duration::from_millis(rng.below(3000));
        self.node.restart(back_at, loaded_at);
        let gone: Vec<_> = self.node.pool.txs.iter().map(|known| known.txid).filter(|_| rng.per_mille(300)).collect();
        for txid in &gone {
            self.node.pool.remove(*txid);
        }
        format!("answers at {back_at:?}, has its mempool at {loaded_at:?}, without {}", gone.len())
    }

    fn lose_messages(&mut self, rng: &mut Rng) -> String {
        let Some(zmq) = &mut self.node.zmq else { return "no ZMQ".to_owned() };
        if rng.per_mille(300) {
            zmq.queue.clear();
            zmq.missed = true;
            zmq.connected_at = self.now + Duration::from_millis(500 + rng.below(3000));
            return "the connection".to_owned();
        }
        // Those that were sent last: only the next one shows the gap.
        let lost = zmq.queue.len().min(1 + rng.index(3));
        zmq.queue.truncate(zmq.queue.len() - lost);
        zmq.has_gap |= lost > 0;
        format!("{lost} messages")
    }
}
