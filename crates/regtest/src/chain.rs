//! A chain made transaction by transaction, valid by the rules of a real node.
//!
//! A [`ChainBuilder`] is a pure value: the same seed and the same calls give the same blocks. It keeps the spendable
//! coins of its tip and the undo data of every block, so any height can be the start of another branch
//! ([`ChainBuilder::rollback_to`]). [`ChainBuilder::submit_to`] sends the blocks to a node;
//! [`ChainBuilder::write_loadblock`] writes them into a file.

use std::collections::BTreeMap;
use std::io::Write;

use bitcoin::hashes::Hash;
use bitcoin::{Block, BlockHash, Network, OutPoint, Transaction, Txid, consensus, constants};

use crate::bitcoind::Bitcoind;
use crate::block::{BlockPosition, COINBASE_MATURITY, assemble, subsidy_sat};
use crate::error::Result;
use crate::loadblock::write_record;
use crate::rng::Rng;
use crate::script::{Form, Lock};
use crate::tx::{Coin, Payee, Payment, signed};
use crate::wallet::Wallet;

/// Number of scripts of each kind that rewards go to, in turn.
const REWARD_LOCKS: u32 = 5;
/// Fee in satoshi of a transaction that [`ChainBuilder::pay`] makes.
pub const FEE_SAT: u64 = 1000;

/// A growing regtest chain with the keys and coins of its own wallet.
#[derive(Debug, Clone)]
pub struct ChainBuilder {
    wallet: Wallet,
    rng: Rng,
    /// Index = height; the genesis block is first.
    blocks: Vec<Block>,
    /// Index = height: the changes to `coins` that a rollback of the block reverts.
    undos: Vec<Undo>,
    coins: BTreeMap<OutPoint, Coin>,
    pending: Pending,
    /// Number of rollbacks so far, written into every coinbase: no two branches share a block above their fork.
    branch: u32,
}

/// The block being filled.
#[derive(Debug, Clone, Default)]
struct Pending {
    txs: Vec<Transaction>,
    fees_sat: u64,
    undo: Undo,
}

#[derive(Debug, Clone, Default)]
struct Undo {
    made: Vec<OutPoint>,
    spent: Vec<Coin>,
}

impl ChainBuilder {
    /// Makes the chain that has only the genesis block.
    pub fn new(seed: u64) -> Self {
        Self {
            wallet: Wallet::new(seed),
            rng: Rng::new(seed),
            blocks: vec![constants::genesis_block(Network::Regtest)],
            undos: vec![Undo::default()],
            coins: BTreeMap::new(),
            pending: Pending::default(),
            branch: 0,
        }
    }

    /// Returns the height of the last block mined.
    pub fn height(&self) -> u32 {
        u32::try_from(self.blocks.len() - 1).expect("fewer than 2^32 blocks")
    }

    /// Returns the hash of the last block mined.
    pub fn tip(&self) -> BlockHash {
        self.blocks.last().expect("the genesis block is never rolled back").block_hash()
    }

    /// Returns the blocks mined, the genesis block first; index = height.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns the keys of the chain's own scripts.
    pub fn wallet(&self) -> &Wallet {
        &self.wallet
    }

    /// Returns the random numbers that decide the chain's choices.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Returns the coins that the block being filled may spend.
    pub fn coins(&self) -> impl Iterator<Item = &Coin> {
        let next = self.height() + 1;
        self.coins.values().filter(move |coin| coin.spendable_from <= next)
    }

    /// Adds a transaction to the block being filled. Its outputs can be spent at once, in the same block.
    ///
    /// # Panics
    /// When a coin is not among [`Self::coins`], or the payments exceed the coins.
    pub fn spend(&mut self, coins: &[Coin], payments: &[Payment]) -> Txid {
        let tx = signed(&self.wallet, coins, payments);
        let sum = |sats: &mut dyn Iterator<Item = u64>| sats.sum::<u64>();
        let (paid_in, paid_out) =
            (sum(&mut coins.iter().map(Coin::sat)), sum(&mut payments.iter().map(|payment| payment.sat)));
        self.pending.fees_sat += paid_in.checked_sub(paid_out).expect("payments do not exceed the coins");
        for coin in coins {
            let spent = self.coins.remove(&coin.outpoint).expect("the coin is unspent");
            self.pending.undo.spent.push(spent);
        }
        let txid = tx.compute_txid();
        let next = self.height() + 1;
        add_coins(&mut self.coins, &mut self.pending.undo, txid, &tx, payments, next);
        self.pending.txs.push(tx);
        txid
    }

    /// Adds a transaction that makes these payments from the largest coins, with change, to the block being filled.
    pub fn pay(&mut self, payments: &[Payment]) -> Txid {
        let wanted = payments.iter().map(|payment| payment.sat).sum::<u64>() + FEE_SAT;
        let coins = self.largest_coins(wanted);
        let change = coins.iter().map(Coin::sat).sum::<u64>() - wanted;
        let mut payments = payments.to_vec();
        let change_lock = Lock::new(Form::P2wpkh, 900_000 + self.height() % 50);
        payments.push(Payment::to_lock(change_lock, change));
        self.spend(&coins, &payments)
    }

    /// Completes the block being filled, with coinbase, commitment and proof of work, and returns it.
    pub fn mine_block(&mut self) -> &Block {
        let pending = std::mem::take(&mut self.pending);
        let height = self.height() + 1;
        let position = BlockPosition { height, prev: self.tip(), salt: self.branch };
        let reward = Payment::to_lock(reward_lock(height), subsidy_sat(height) + pending.fees_sat);
        let block = assemble(position, vec![reward.output(&self.wallet)], pending.txs);
        let coinbase = &block.txdata[0];
        let mut undo = pending.undo;
        let ripe = height + COINBASE_MATURITY;
        add_coins(&mut self.coins, &mut undo, coinbase.compute_txid(), coinbase, &[reward], ripe);
        self.undos.push(undo);
        self.blocks.push(block);
        self.blocks.last().expect("one was pushed")
    }

    /// Mines `count` blocks: the block being filled, then empty ones.
    pub fn mine(&mut self, count: u32) {
        for _ in 0..count {
            self.mine_block();
        }
    }

    /// Makes the block at `height` the tip and drops the block being filled. Later blocks form another branch.
    ///
    /// # Panics
    /// When the chain does not reach `height`.
    pub fn rollback_to(&mut self, height: u32) {
        assert!(height <= self.height(), "the chain reaches the height");
        let pending = std::mem::take(&mut self.pending);
        self.undo(pending.undo);
        while self.height() > height {
            let undo = self.undos.pop().expect("one for each block");
            self.blocks.pop();
            self.undo(undo);
        }
        self.branch += 1;
    }

    fn undo(&mut self, undo: Undo) {
        // A coin that was made and spent in the same block must not come back: spent coins return first, then made ones
        // go.
        self.coins.extend(undo.spent.into_iter().map(|coin| (coin.outpoint, coin)));
        for outpoint in undo.made {
            self.coins.remove(&outpoint);
        }
    }

    /// Submits every block that the node's active chain lacks. The node changes to this chain when it has more work.
    pub fn submit_to(&self, node: &Bitcoind) -> Result<()> {
        let mut fork = self.height().min(node.height()?);
        while fork > 0 && node.block_hash(fork)? != self.blocks[fork as usize].block_hash() {
            fork -= 1;
        }
        for (height, block) in (fork + 1..).zip(&self.blocks[fork as usize + 1..]) {
            node.submit(height, block)?;
        }
        Ok(())
    }

    /// Writes all blocks, the genesis block first, in the format of Core's `-loadblock`.
    pub fn write_loadblock(&self, out: &mut impl Write) -> std::io::Result<()> {
        for block in &self.blocks {
            write_record(out, &consensus::serialize(block))?;
        }
        Ok(())
    }

    /// Returns a random spendable coin worth at least `sat`, if there is one.
    pub fn random_coin(&mut self, sat: u64) -> Option<Coin> {
        let from = OutPoint::new(Txid::from_byte_array(self.rng.bytes()), 0);
        let next = self.height() + 1;
        let good = |coin: &&Coin| coin.spendable_from <= next && coin.sat() >= sat;
        let after = self.coins.range(from..).map(|(_, coin)| coin);
        let before = self.coins.range(..from).map(|(_, coin)| coin);
        after.chain(before).find(good).cloned()
    }

    fn largest_coins(&self, sat: u64) -> Vec<Coin> {
        let mut coins: Vec<&Coin> = self.coins().collect();
        coins.sort_unstable_by_key(|coin| (std::cmp::Reverse(coin.sat()), coin.outpoint));
        let mut total = 0;
        let mut chosen = Vec::new();
        for coin in coins {
            if total >= sat {
                break;
            }
            total += coin.sat();
            chosen.push(coin.clone());
        }
        assert!(total >= sat, "the chain has {total} sat in spendable coins and needs {sat}: mine more blocks");
        chosen
    }
}

/// Returns the lock of the reward at this height; kinds take turns, so that coinbases pay each of them.
fn reward_lock(height: u32) -> Lock {
    let forms = Form::SPENDABLE;
    let form = forms[height as usize % forms.len()];
    Lock::new(form, 800_000 + height % REWARD_LOCKS)
}

fn add_coins(
    coins: &mut BTreeMap<OutPoint, Coin>,
    undo: &mut Undo,
    txid: Txid,
    tx: &Transaction,
    payments: &[Payment],
    spendable_from: u32,
) {
    for (vout, (payment, output)) in (0..).zip(payments.iter().zip(&tx.output)) {
        let Some(lock) = payment.lock() else {
            debug_assert!(!matches!(payment.to, Payee::Lock(lock) if lock.form.is_spendable()));
            continue;
        };
        let outpoint = OutPoint { txid, vout };
        undo.made.push(outpoint);
        coins.insert(outpoint, Coin { outpoint, output: output.clone(), lock, spendable_from });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(seed: u64) -> ChainBuilder {
        let mut chain = ChainBuilder::new(seed);
        chain.mine(101);
        chain
    }

    #[test]
    fn same_seed_and_calls_give_the_same_blocks() {
        let make = |seed| {
            let mut chain = grown(seed);
            chain.pay(&[Payment::to_lock(Lock::new(Form::P2tr, 1), 5000)]);
            chain.mine(1);
            chain.tip()
        };
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
    }

    #[test]
    fn rollback_restores_the_coins_and_starts_another_branch() {
        let mut chain = grown(1);
        let (coins, tip) = (chain.coins.clone(), chain.tip());
        let mut first_branch = chain.clone();
        first_branch.mine(2);
        for sat in [5000, 6000] {
            chain.pay(&[Payment::to_lock(Lock::new(Form::P2wsh, 1), sat)]);
            chain.pay(&[Payment::to_lock(Lock::new(Form::P2pkh, 1), sat)]);
            chain.mine_block();
        }
        chain.pay(&[Payment::to_lock(Lock::new(Form::P2pk, 1), 7000)]);
        chain.rollback_to(101);
        assert_eq!((chain.tip(), &chain.coins), (tip, &coins));
        chain.mine(2);
        assert_ne!(chain.blocks[102], first_branch.blocks[102]);
    }
}
