//! Transactions and blocks as the simulation makes them: without signatures and proof of work, which the index does not
//! check.

use std::collections::HashMap;
use std::sync::Arc;

use birdhouse_testkit::rng::Rng;
use bitcoin::block::{Header, Version};
use bitcoin::{
    Amount, Block, CompactTarget, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxMerkleNode, TxOut, Txid, Witness,
    absolute, merkle_tree, transaction,
};

use crate::tree::{BlockNumber, Known, Path, Tree};

/// Reward of a block, in satoshis.
const REWARD_SAT: u64 = 5_000_000;
/// Targets of blocks: two units of work, four, and sixteen.
const BITS: [u32; 3] = [0x207f_ffff, 0x203f_ffff, 0x200f_ffff];
/// Attempts to find an output to spend.
const ATTEMPTS: usize = 12;

/// The unconfirmed transactions of a node, parents first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    pub(crate) txs: Vec<Arc<Known>>,
    spends: HashMap<OutPoint, Txid>,
}

impl Pool {
    pub(crate) fn has(&self, txid: &Txid) -> bool {
        self.txs.iter().any(|known| known.txid == *txid)
    }

    pub(crate) fn spender(&self, outpoint: &OutPoint) -> Option<Txid> {
        self.spends.get(outpoint).copied()
    }

    /// True if the transaction may follow those in the pool on a branch.
    pub(crate) fn accepts(&self, tree: &Tree, path: &Path, known: &Known) -> bool {
        let is_free = |outpoint: OutPoint| self.spender(&outpoint).is_none() && !tree.is_spent(path, &outpoint);
        let exists = |outpoint: OutPoint| self.has(&outpoint.txid) || tree.is_confirmed(path, &outpoint.txid);
        let is_new = !known.is_coinbase() && !self.has(&known.txid) && !tree.is_confirmed(path, &known.txid);
        is_new && known.spends().all(|outpoint| is_free(outpoint) && exists(outpoint))
    }

    pub(crate) fn push(&mut self, known: Arc<Known>) {
        self.spends.extend(known.spends().map(|outpoint| (outpoint, known.txid)));
        self.txs.push(known);
    }

    /// Removes a transaction and its descendants. Returns their txids, parents first.
    pub(crate) fn remove(&mut self, txid: Txid) -> Vec<Txid> {
        let mut gone = vec![txid];
        for known in &self.txs {
            if known.spends().any(|outpoint| gone.contains(&outpoint.txid)) {
                gone.push(known.txid);
            }
        }
        self.txs.retain(|known| !gone.contains(&known.txid));
        self.spends.retain(|_, spender| !gone.contains(spender));
        gone
    }
}

/// Scripts and habits of those who pay in a simulated network.
#[derive(Debug, Clone)]
pub(crate) struct Miner {
    scripts: Vec<ScriptBuf>,
    /// Thousandths of the outputs that pay the first script.
    busy: u64,
    /// Thousandths of the outputs that are chosen among the youngest to be spent.
    young: u64,
    made: u64,
}

impl Miner {
    pub(crate) fn new(scripts: u8, busy: u64, young: u64) -> Self {
        let script = |number: u8| match number % 3 {
            0 => ScriptBuf::from_bytes(vec![0x51, number]),
            1 => ScriptBuf::from_bytes([&[0x00, 0x14][..], &[number; 20]].concat()),
            _ => ScriptBuf::from_bytes([&[0x76, 0xa9, 0x14][..], &[number; 20], &[0x88, 0xac]].concat()),
        };
        Self { scripts: (0..scripts).map(script).collect(), busy, young, made: 0 }
    }

    /// Makes the choices of another seed differ: no two seeds make the same transaction after a common start.
    pub(crate) fn reseed(&mut self, seed: u64) {
        self.made = (seed + 1) << 24;
    }

    fn payee(&self, rng: &mut Rng) -> ScriptBuf {
        if rng.per_mille(self.busy) { self.scripts[0].clone() } else { rng.pick(&self.scripts).clone() }
    }

    /// An output that a transaction may spend on a branch after those of the pool.
    fn coin(&self, rng: &mut Rng, tree: &Tree, path: &Path, pool: &Pool) -> Option<OutPoint> {
        let outputs = tree.outputs();
        let attempts = if outputs.is_empty() { 0 } else { ATTEMPTS };
        (0..attempts).find_map(|_| {
            let window = if rng.per_mille(self.young) { outputs.len().min(24) } else { outputs.len() };
            let outpoint = outputs[outputs.len() - window + rng.index(window)];
            let exists = pool.has(&outpoint.txid) || tree.is_confirmed(path, &outpoint.txid);
            let is_free = pool.spender(&outpoint).is_none() && !tree.is_spent(path, &outpoint);
            (exists && is_free).then_some(outpoint)
        })
    }

    /// A transaction with at most this many inputs that may follow those of the pool on a branch.
    pub(crate) fn payment(
        &mut self,
        rng: &mut Rng,
        tree: &Tree,
        path: &Path,
        pool: &Pool,
        inputs_max: u64,
    ) -> Option<Transaction> {
        let mut coins = vec![self.coin(rng, tree, path, pool)?];
        for _ in 0..rng.below(inputs_max) {
            coins.extend(self.coin(rng, tree, path, pool).filter(|coin| !coins.contains(coin)));
        }
        Some(self.spending(rng, tree, &coins))
    }

    /// A transaction that spends these outputs.
    pub(crate) fn spending(&mut self, rng: &mut Rng, tree: &Tree, coins: &[OutPoint]) -> Transaction {
        self.made += 1;
        let value = |coin: &OutPoint| tree.tx(&coin.txid).expect("known").tx.output[coin.vout as usize].value.to_sat();
        let total: u64 = coins.iter().map(value).sum();
        let total = total - rng.below(1 + total / 20);
        let count = 1 + rng.below(3);
        let mut output: Vec<TxOut> = (0..count)
            .map(|_| TxOut { value: Amount::from_sat(total / count), script_pubkey: self.payee(rng) })
            .collect();
        if rng.per_mille(60) {
            let script_pubkey = ScriptBuf::from_bytes(vec![0x6a, 1, 7]);
            output.insert(rng.index(output.len()), TxOut { value: Amount::ZERO, script_pubkey });
        }
        let witness = if rng.per_mille(500) { Witness::from_slice(&[self.made.to_le_bytes()]) } else { Witness::new() };
        let input = coins.iter().map(|coin| TxIn {
            previous_output: *coin,
            script_sig: ScriptBuf::new(),
            sequence: Sequence(u32::try_from(self.made & 0xffff_ffff).expect("32 bits")),
            witness: witness.clone(),
        });
        Transaction {
            version: transaction::Version::TWO,
            lock_time: absolute::LockTime::from_consensus(u32::try_from(self.made >> 32).expect("32 bits")),
            input: input.collect(),
            output,
        }
    }

    /// A coinbase that no other block has.
    pub(crate) fn coinbase(&mut self, rng: &mut Rng) -> Transaction {
        self.made += 1;
        let script_sig = ScriptBuf::from_bytes(self.made.to_le_bytes().to_vec());
        let input = TxIn { previous_output: OutPoint::null(), script_sig, ..TxIn::default() };
        let output = TxOut { value: Amount::from_sat(REWARD_SAT), script_pubkey: self.payee(rng) };
        Transaction {
            version: transaction::Version::TWO,
            lock_time: absolute::LockTime::ZERO,
            input: vec![input],
            output: vec![output],
        }
    }

    /// Adds a block on top of `parent` with these transactions; the harder, the more work.
    pub(crate) fn mine(
        &mut self,
        tree: &mut Tree,
        parent: BlockNumber,
        coinbase: Transaction,
        txs: Vec<Transaction>,
        hardness: usize,
    ) -> BlockNumber {
        self.made += 1;
        let mut txdata = vec![coinbase];
        txdata.extend(txs);
        let root = merkle_tree::calculate_root(txdata.iter().map(|tx| tx.compute_txid().to_raw_hash()));
        let below = tree.block(parent);
        let header = Header {
            version: Version::from_consensus(0x2000_0000),
            prev_blockhash: below.hash,
            merkle_root: TxMerkleNode::from_raw_hash(root.expect("a block has a coinbase")),
            time: 1_296_688_602 + (below.height + 1) * 600,
            bits: CompactTarget::from_consensus(BITS[hardness]),
            nonce: u32::try_from(self.made & 0xffff_ffff).expect("32 bits"),
        };
        tree.add_block(parent, &Block { header, txdata })
    }
}
