//! The index with a mempool compared with a search through every transaction, while blocks, reorgs and changes of the
//! mempool arrive.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use birdhouse_chain::{Balance, Confirmation, Height, Profile, ScriptHash, Snapshot};
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix;
use birdhouse_testkit::rng::Rng;
use bitcoin::hashes::{Hash as _, sha256};
use bitcoin::{Block, OutPoint, Transaction, Txid};

use crate::common::{MemoryNode, built};
use crate::work_budget::within_budget;

/// The expected answers about a script.
#[derive(Debug, Default)]
struct OfScript {
    confirmed: Vec<(Txid, u32)>,
    unconfirmed: BTreeMap<(bool, String), u64>,
    balance: Balance,
    unspent: BTreeSet<OutPoint>,
}

/// The answers by a search of every transaction of a chain and a mempool.
#[derive(Default)]
pub(crate) struct Model {
    scripts: HashMap<ScriptHash, OfScript>,
    outputs: HashMap<OutPoint, (ScriptHash, u64)>,
}

impl Model {
    pub(crate) fn of(blocks: &[Block], mempool: &[Transaction]) -> Self {
        let mut model = Self::default();
        for (height, block) in (0..).zip(blocks).skip(1) {
            for transaction in &block.txdata {
                model.confirm(transaction, height);
            }
        }
        let unconfirmed: BTreeSet<Txid> = mempool.iter().map(Transaction::compute_txid).collect();
        for transaction in mempool {
            model.hold(transaction, &unconfirmed);
        }
        model
    }

    fn confirm(&mut self, transaction: &Transaction, height: u32) {
        let txid = transaction.compute_txid();
        for (scripthash, value, outpoint) in self.spends(transaction) {
            let script = self.scripts.entry(scripthash).or_default();
            script.balance.confirmed -= value;
            script.unspent.remove(&outpoint);
            script.confirmed.push((txid, height));
        }
        for (scripthash, value, outpoint) in self.pays(transaction) {
            let script = self.scripts.entry(scripthash).or_default();
            script.balance.confirmed += value;
            script.unspent.insert(outpoint);
            script.confirmed.push((txid, height));
        }
    }

    fn hold(&mut self, transaction: &Transaction, unconfirmed: &BTreeSet<Txid>) {
        let txid = transaction.compute_txid();
        let parents = transaction.input.iter().any(|input| unconfirmed.contains(&input.previous_output.txid));
        let (spends, pays) = (self.spends(transaction), self.pays(transaction));
        let fee = spends.iter().map(|spend| spend.1).sum::<u64>()
            - transaction.output.iter().map(|output| output.value.to_sat()).sum::<u64>();
        for (scripthash, value, outpoint) in spends {
            let script = self.scripts.entry(scripthash).or_default();
            script.balance.unconfirmed -= value.cast_signed();
            script.unspent.remove(&outpoint);
            script.unconfirmed.insert((parents, txid.to_string()), fee);
        }
        for (scripthash, value, outpoint) in pays {
            let script = self.scripts.entry(scripthash).or_default();
            script.balance.unconfirmed += value.cast_signed();
            script.unspent.insert(outpoint);
            script.unconfirmed.insert((parents, txid.to_string()), fee);
        }
    }

    fn spends(&self, transaction: &Transaction) -> Vec<(ScriptHash, u64, OutPoint)> {
        let inputs = transaction.input.iter().filter(|_| !transaction.is_coinbase());
        let spent = inputs.map(|input| {
            let (scripthash, value) = self.outputs[&input.previous_output];
            (scripthash, value, input.previous_output)
        });
        spent.collect()
    }

    fn pays(&mut self, transaction: &Transaction) -> Vec<(ScriptHash, u64, OutPoint)> {
        let txid = transaction.compute_txid();
        let outputs = (0..).zip(&transaction.output).filter(|(_, output)| !output.script_pubkey.is_op_return());
        let paid = outputs.map(|(vout, output)| {
            let (outpoint, value) = (OutPoint { txid, vout }, output.value.to_sat());
            (ScriptHash::of(output.script_pubkey.as_bytes()), value, outpoint)
        });
        let paid: Vec<_> = paid.collect();
        self.outputs.extend(paid.iter().map(|(scripthash, value, outpoint)| (*outpoint, (*scripthash, *value))));
        paid
    }

    /// Compares all answers of a snapshot; returns the number of scripts.
    pub(crate) fn check(&self, at: &Snapshot, context: &str) -> usize {
        for (scripthash, expected) in &self.scripts {
            let context = format!("{context}, script {scripthash}");
            expected.check(at, scripthash, &context);
        }
        self.scripts.len()
    }
}

impl OfScript {
    fn check(&self, at: &Snapshot, scripthash: &ScriptHash, context: &str) {
        // First, so that a cached status was made within the budget.
        within_budget(at, scripthash, context);
        let mut confirmed = self.confirmed.clone();
        confirmed.dedup();
        let history: Vec<(Txid, u32)> =
            at.history(scripthash).unwrap().iter().map(|entry| (entry.txid, entry.height.0)).collect();
        assert_eq!(history, confirmed, "{context}: history");
        let unconfirmed = at.unconfirmed(scripthash);
        let found: Vec<((bool, String), u64)> = unconfirmed
            .iter()
            .map(|entry| ((entry.has_unconfirmed_inputs, entry.txid.to_string()), entry.fee))
            .collect();
        assert_eq!(found, self.unconfirmed.clone().into_iter().collect::<Vec<_>>(), "{context}: unconfirmed");
        assert_eq!(at.status(scripthash).unwrap(), self.status(&confirmed), "{context}: status");
        assert_eq!(at.balance(scripthash).unwrap(), self.balance, "{context}: balance");
        let unspent = at.unspent(scripthash).unwrap();
        let outpoints: BTreeSet<OutPoint> =
            unspent.iter().map(|coin| OutPoint { txid: coin.txid, vout: coin.vout }).collect();
        assert_eq!(outpoints, self.unspent, "{context}: unspent");
        assert!(unspent.is_sorted_by_key(|coin| coin.confirmation), "{context}: confirmed ones come first");
        for coin in unspent.iter().take(2) {
            let found = at.output(OutPoint { txid: coin.txid, vout: coin.vout }).unwrap().expect("it is listed");
            assert_eq!((found.scripthash, found.value), (*scripthash, coin.value), "{context}: output");
            assert_eq!((found.funding, found.spender), (coin.confirmation, None), "{context}: output");
        }
    }

    fn status(&self, confirmed: &[(Txid, u32)]) -> Option<[u8; 32]> {
        let confirmed = confirmed.iter().map(|(txid, height)| format!("{txid}:{height}:"));
        let unconfirmed =
            self.unconfirmed.keys().map(|(parents, txid)| format!("{txid}:{}:", if *parents { -1 } else { 0 }));
        let text: String = confirmed.chain(unconfirmed).collect();
        (!text.is_empty()).then(|| sha256::Hash::hash(text.as_bytes()).to_byte_array())
    }
}

/// A chain of which the node has only the first blocks; transactions of the next ones may be in the mempool.
pub(crate) struct World {
    chain: ChainBuilder,
    pub(crate) node: Arc<MemoryNode>,
    /// Blocks that the node has.
    blocks: usize,
    rng: Rng,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chain = ChainBuilder::new(seed);
        mix::mature(&mut chain);
        let mut world = Self { chain, node: Arc::default(), blocks: 0, rng: Rng::new(seed) };
        world.blocks = world.chain.blocks().len();
        world.grow(4);
        world.publish(0);
        world
    }

    fn grow(&mut self, blocks: u32) {
        for _ in 0..blocks {
            mix::random_traffic(&mut self.chain, 4, 30);
            self.chain.mine_block();
        }
    }

    /// The blocks that the node has.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.chain.blocks()[..self.blocks]
    }

    pub(crate) fn step(&mut self) {
        if self.rng.per_mille(250) {
            let depth = u32::try_from(1 + self.rng.below(4)).unwrap();
            let height = u32::try_from(self.blocks).unwrap() - 1 - depth;
            self.chain.rollback_to(height);
            self.grow(depth + 4);
            self.blocks += 1;
        } else {
            self.blocks += usize::try_from(self.rng.below(3)).unwrap();
        }
        let missing = (self.blocks + 3).saturating_sub(self.chain.blocks().len());
        self.grow(u32::try_from(missing).unwrap());
        let held = usize::try_from(self.rng.below(20)).unwrap();
        self.publish(held);
    }

    /// The first `held` transactions of the next blocks.
    fn mempool(&self, held: usize) -> Vec<Transaction> {
        let next = self.chain.blocks()[self.blocks..].iter();
        next.flat_map(|block| block.txdata[1..].iter()).take(held).cloned().collect()
    }

    fn publish(&mut self, held: usize) {
        self.node.follow(&self.chain.blocks()[..self.blocks]);
        self.node.hold(self.mempool(held));
    }
}

#[test]
fn chain_and_mempool_answer_as_a_search_through_all_transactions() {
    for (seed, profile) in [(1, Profile::Full), (2, Profile::Lean), (3, Profile::Full)] {
        let mut world = World::new(seed);
        let index = built(&world.node, profile);
        for step in 0..40 {
            let held = world.node.held();
            index.sync(&*world.node).unwrap();
            let model = Model::of(&world.chain.blocks()[..world.blocks], &held);
            let context = format!("seed {seed}, step {step}, {} unconfirmed", held.len());
            let snapshot = index.snapshot().unwrap();
            assert_eq!(snapshot.mempool().len(), held.len(), "{context}");
            model.check(&snapshot, &context);
            spenders_are_found(&snapshot, &world.chain.blocks()[..world.blocks], &held);
            world.step();
        }
    }
}

/// Every input of the last blocks and of the mempool is the spender of its output.
fn spenders_are_found(at: &Snapshot, blocks: &[Block], mempool: &[Transaction]) {
    let height = |block: &Block| blocks.iter().position(|other| other == block).unwrap();
    let last = blocks.iter().rev().take(3).flat_map(|block| {
        let confirmation = Confirmation::Confirmed(Height(u32::try_from(height(block)).unwrap()));
        block.txdata[1..].iter().map(move |transaction| (transaction, Some(confirmation)))
    });
    for (transaction, confirmation) in last.chain(mempool.iter().map(|transaction| (transaction, None))) {
        let txid = transaction.compute_txid();
        for input in &transaction.input {
            let output = at.output(input.previous_output).unwrap().expect("what is spent exists");
            let (spender, place) = output.spender.expect("it is spent");
            assert_eq!(spender, txid);
            assert_eq!(Some(place), confirmation.or_else(|| at.confirmation(txid).unwrap()));
        }
    }
}

#[test]
fn readers_of_an_older_snapshot_keep_its_mempool_and_its_statuses() {
    let mut world = World::new(9);
    let index = built(&world.node, Profile::Full);
    let mut kept = Vec::new();
    for _ in 0..8 {
        index.sync(&*world.node).unwrap();
        let model = Model::of(&world.chain.blocks()[..world.blocks], &world.node.held());
        kept.push((index.snapshot().unwrap(), model));
        // Only blocks: the node forgets the transactions of stale ones, and the snapshots need not.
        world.blocks += 1;
        world.grow(1);
        world.publish(10);
    }
    for (step, (snapshot, model)) in kept.iter().enumerate() {
        model.check(snapshot, &format!("snapshot of step {step}"));
    }
}

/// True if a snapshot has the outputs that those of these transactions spend which it shows as unconfirmed.
fn has_all_parents(at: &Snapshot, transactions: &[Transaction]) -> bool {
    let unconfirmed = transactions.iter().filter(|transaction| at.mempool().get(&transaction.compute_txid()).is_some());
    let mut inputs = unconfirmed.flat_map(|transaction| &transaction.input);
    inputs.all(|input| at.output(input.previous_output).unwrap().is_some())
}

#[test]
fn children_of_stale_transactions_are_never_shown_without_their_parents() {
    let mut chain = ChainBuilder::new(11);
    mix::mature(&mut chain);
    let fork = chain.height();
    for _ in 0..6 {
        mix::random_traffic(&mut chain, 8, 30);
        chain.mine_block();
    }
    let blocks = chain.blocks().to_vec();
    let (stale, next) = (blocks.len() - 2, blocks.len() - 1);
    let parents: BTreeSet<Txid> = blocks[stale].txdata.iter().map(Transaction::compute_txid).collect();
    let children = blocks[next].txdata[1..]
        .iter()
        .filter(|transaction| transaction.input.iter().any(|input| parents.contains(&input.previous_output.txid)));
    assert!(children.count() > 0, "the last block spends from the one before it");
    let node = Arc::new(MemoryNode::default());
    node.follow(&blocks[..next]);
    let index = Arc::new(built(&node, Profile::Full));
    let held = &blocks[next].txdata[1..];
    node.hold(held.to_vec());
    index.sync(&*node).unwrap();
    let before = index.snapshot().unwrap();
    assert!(!before.mempool().is_empty() && has_all_parents(&before, held));

    // More blocks than one round brings, so the first round's tip is not the node's.
    chain.rollback_to(fork);
    chain.mine(80);
    node.follow(chain.blocks());
    node.hold([]);
    let installed = Arc::new(Mutex::new(BTreeMap::new()));
    let (seen, current) = (Arc::clone(&installed), Arc::clone(&index));
    node.at_every_block(move || {
        let at = current.snapshot().unwrap();
        seen.lock().unwrap().insert(at.tip().height, at);
    });
    index.sync(&*node).unwrap();
    let last = index.snapshot().unwrap();
    installed.lock().unwrap().insert(last.tip().height, last);
    let installed = installed.lock().unwrap();
    assert!(installed.len() > 2, "one round did not reach the tip: {:?}", installed.keys());
    for (height, snapshot) in &*installed {
        assert!(has_all_parents(snapshot, held), "at height {height}");
    }
}
