//! Every kind of change of a chain and a mempool, one at a time, with random parts.
//!
//! A move may have no effect: the node refuses what its rules forbid at that moment, for example too long a chain of
//! unconfirmed transactions or too low a fee. This is part of the run. [`Made`] is the result, so a test can require
//! that every kind of move happened.

use std::collections::BTreeSet;

use birdhouse_regtest::Error as RegtestError;
use birdhouse_regtest::script::{Form, Lock};
use birdhouse_regtest::tx::{Coin, Payment};
use bitcoin::opcodes::all::OP_RETURN;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::{ScriptBuf, Transaction, transaction};
use serde_json::json;

use super::LiveNode;
use crate::error::{Error, Result};

/// Smallest coin, in satoshi, that a move spends: a smaller one may not pay its own fee.
const COIN_SAT_MIN: u64 = 20_000;
/// Size of the ballast of a transaction that fills the mempool; a cluster must have room for it.
const BALLAST_BYTES: u16 = 20_000;
/// Most transactions with ballast: more than any mempool of the tests has room for.
const BALLAST_MAX: u64 = 120;
/// `-mempoolexpiry` of the tests, an hour.
const EXPIRY_S: u64 = 3600;
/// Seconds that the node's clock moves with each move, roughly as on a real network.
const MOVE_S: u64 = 20;
/// Lowest fee rate of a move, twice what Core relays by default.
const RATE_MIN_SAT_KVB: u64 = 200;
const CHAIN_MAX: u64 = 12;
/// Kinds whose spenders every mempool accepts.
const RELAYED: [Form; 4] = [Form::P2wpkh, Form::P2tr, Form::P2wsh, Form::P2pkh];
const REORG_MAX: u32 = 6;

/// One change of the chain or the mempool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Move {
    /// A transaction of one to three coins, confirmed or not, to one to four scripts.
    Pay,
    /// A transaction replaces another and its descendants (RBF).
    Replace,
    /// A chain of transactions, each of which spends the one before.
    Chain,
    /// A parent that pays no fee, and a child that pays for both, submitted together.
    Package,
    /// `prioritisetransaction` raises the priority of a transaction above its fee.
    Prioritise,
    /// The mempool is full: the transactions with the lowest fee rates are evicted.
    Evict,
    /// Time passes: the oldest transactions expire.
    Expire,
    /// A block of the whole mempool.
    Mine,
    /// A block of a part of the mempool.
    MineSome,
    /// An empty block.
    MineNothing,
    /// A block of transactions that were never in the mempool.
    MineUnseen,
    /// A block that conflicts with a transaction of the mempool.
    MineConflict,
    /// The last blocks are rolled back; their transactions return to the mempool.
    RollBack,
    /// A longer branch replaces the last blocks, with some of their transactions and others that conflict with them.
    Overtake,
}

/// Result of a move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// It happened.
    Yes,
    /// Coins or transactions for it were missing.
    No,
    /// The node refused it, with this message.
    Refused(String),
}

impl Move {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::Pay,
        Self::Replace,
        Self::Chain,
        Self::Package,
        Self::Prioritise,
        Self::Evict,
        Self::Expire,
        Self::Mine,
        Self::MineSome,
        Self::MineNothing,
        Self::MineUnseen,
        Self::MineConflict,
        Self::RollBack,
        Self::Overtake,
    ];

    /// Frequency of each kind among 1000 moves, in the order of [`Self::ALL`]: mempools change more often than chains.
    const WEIGHTS: [u64; 14] = [420, 120, 80, 70, 30, 4, 6, 30, 80, 20, 30, 50, 30, 30];
}

impl LiveNode {
    /// Makes some moves chosen at random, then mines what waits.
    pub fn move_and_mine(&mut self, moves: usize) -> Result<()> {
        for _ in 0..moves {
            self.random_move()?;
        }
        self.mine()
    }

    /// Takes the last blocks back; one more, all empty, replace them.
    pub fn replace_last(&mut self, blocks: u32) -> Result<()> {
        self.roll_back(blocks)?;
        self.mine_empty(blocks as usize + 1)
    }

    /// Makes a move chosen at random.
    pub fn random_move(&mut self) -> Result<(Move, Made)> {
        let mut rest = self.rng.below(Move::WEIGHTS.iter().sum());
        let mut chosen = Move::ALL.iter().zip(Move::WEIGHTS);
        let chosen = chosen.find(|(_, weight)| rest.checked_sub(*weight).map(|left| rest = left).is_none());
        let (chosen, _) = chosen.expect("the number is below the sum of the weights");
        Ok((*chosen, self.make(*chosen)?))
    }

    /// Makes this move, with random parts.
    pub fn make(&mut self, what: Move) -> Result<Made> {
        self.advance_clock(MOVE_S)?;
        let made = match what {
            Move::Pay => self.make_payment(),
            Move::Replace => self.make_replacement(),
            Move::Chain => self.make_chain(),
            Move::Package => self.make_package(),
            Move::Prioritise => self.make_priority(),
            Move::Evict => self.make_eviction(),
            Move::Expire => self.make_expiry(),
            Move::Mine => self.mine().map(|()| Made::Yes),
            Move::MineSome => self.make_partial_block(),
            Move::MineNothing => self.mine_empty(1).map(|()| Made::Yes),
            Move::MineUnseen => self.make_unseen_block(),
            Move::MineConflict => self.make_conflict(),
            Move::RollBack => self.make_roll_back(),
            Move::Overtake => self.make_overtaking(),
        };
        // The node may have changed even after a refusal: a package can be accepted in part.
        self.refresh()?;
        match made {
            Err(Error::Regtest(RegtestError::Rpc { message, .. })) => Ok(Made::Refused(message)),
            made => made,
        }
    }

    fn make_payment(&mut self) -> Result<Made> {
        let count = 1 + self.rng.below(3);
        let coins = self.random_coins(count, Self::coins);
        self.spend_randomly(&coins, 0)
    }

    fn make_replacement(&mut self) -> Result<Made> {
        let Some(tx) = self.random_waiting() else { return Ok(Made::No) };
        let mut coins = self.coins_of(&tx);
        if self.rng.per_mille(300) {
            coins.truncate(1);
        }
        let price = 2 * self.fees_with_descendants(&tx);
        self.spend_randomly(&coins, price)
    }

    fn make_chain(&mut self) -> Result<Made> {
        let mut coins = self.random_coins(1, Self::coins);
        for _ in 0..=self.rng.below(CHAIN_MAX) {
            let Some(coin) = coins.pop().filter(|coin| coin.sat() >= COIN_SAT_MIN) else { return Ok(Made::No) };
            let lock = Lock::new(*self.rng.pick(&RELAYED), self.rng.below_u32(40));
            let side = self.random_lock();
            let fee = self.random_fee(300)?;
            let Some(paid) = coin.sat().checked_sub(fee + 1000) else { return Ok(Made::No) };
            let payments = [Payment::to_lock(lock, paid), Payment::to_lock(side, 1000)];
            let tx = self.sign(&[coin], &payments);
            self.send(&tx)?;
            coins = self.coins().into_iter().filter(|coin| coin.outpoint.txid == tx.compute_txid()).collect();
            coins.retain(|coin| coin.sat() == paid);
        }
        Ok(Made::Yes)
    }

    fn make_package(&mut self) -> Result<Made> {
        let Some(coin) = self.random_coins(1, Self::confirmed_coins).pop() else { return Ok(Made::No) };
        let fee = self.random_fee(1000)?;
        let [first, second, third] = [(); 3].map(|()| Lock::new(Form::P2tr, self.rng.below_u32(20)));
        let half = coin.sat() / 2;
        let version = transaction::Version::non_standard(3);
        let payments = [Payment::to_lock(first, half), Payment::to_lock(second, coin.sat() - half)];
        let parent = self.sign_as(version, &[coin], &payments);
        if half <= fee {
            return Ok(Made::No);
        }
        let made = Coin {
            outpoint: bitcoin::OutPoint { txid: parent.compute_txid(), vout: 0 },
            output: parent.output[0].clone(),
            lock: first,
            spendable_from: 0,
        };
        let child = self.sign_as(version, &[made], &[Payment::to_lock(third, half - fee)]);
        self.send_package(&[parent, child]).map(|()| Made::Yes)
    }

    fn make_priority(&mut self) -> Result<Made> {
        let Some(tx) = self.random_waiting() else { return Ok(Made::No) };
        let delta = 1000 + self.rng.below(100_000);
        self.node.rpc("prioritisetransaction", json!([tx.compute_txid().to_string(), 0, delta]))?;
        Ok(Made::Yes)
    }

    /// Fills the mempool until a transaction that was there before is evicted.
    fn make_eviction(&mut self) -> Result<Made> {
        let before = self.waiting_txids();
        let coins = self.random_coins(BALLAST_MAX, Self::confirmed_coins);
        for coin in coins {
            // A fee rate higher than most.
            let fee = self.random_fee(u64::from(BALLAST_BYTES) + 300)? * 2;
            if coin.sat() <= fee {
                continue;
            }
            let lock = self.random_lock();
            let payments = [Payment::to_script(ballast(), 0), Payment::to_lock(lock, coin.sat() - fee)];
            let tx = self.sign(&[coin], &payments);
            let _refused = self.send(&tx);
            if !before.is_subset(&self.waiting_txids()) {
                return Ok(Made::Yes);
            }
        }
        Ok(Made::No)
    }

    /// Moves the clock, then pays: the node expires transactions when another one enters.
    fn make_expiry(&mut self) -> Result<Made> {
        let before = self.waiting_txids();
        self.advance_clock(EXPIRY_S + 1)?;
        self.make_payment()?;
        Ok(if before.is_subset(&self.waiting_txids()) { Made::No } else { Made::Yes })
    }

    fn make_partial_block(&mut self) -> Result<Made> {
        let mut some = self.waiting();
        some.retain(|_| self.rng.per_mille(600));
        let wanted = some.len();
        self.mine_these(some)?;
        Ok(if wanted > 0 { Made::Yes } else { Made::No })
    }

    fn make_unseen_block(&mut self) -> Result<Made> {
        let txs = self.unseen(5, Self::confirmed_coins);
        let made = if txs.is_empty() { Made::No } else { Made::Yes };
        self.mine_these(txs)?;
        Ok(made)
    }

    fn make_conflict(&mut self) -> Result<Made> {
        let Some(tx) = self.random_waiting() else { return Ok(Made::No) };
        let before = self.waiting_txids();
        let mut coins = self.coins_of(&tx);
        coins.retain(|coin| !before.contains(&coin.outpoint.txid));
        coins.truncate(1);
        let mut txs: Vec<Transaction> = self.randomly_spent(&coins, 0)?.into_iter().collect();
        let mut others = self.waiting();
        others.retain(|_| self.rng.per_mille(200));
        txs.extend(others);
        self.mine_these(txs)?;
        Ok(if self.waiting_txids().contains(&tx.compute_txid()) { Made::No } else { Made::Yes })
    }

    fn make_roll_back(&mut self) -> Result<Made> {
        let depth = 1 + self.rng.below_u32(REORG_MAX);
        self.roll_back(depth)?;
        // A wallet may or may not see the lower tip; the next blocks are no copy of the old ones.
        if self.rng.per_mille(500) {
            self.make_partial_block()?;
        }
        Ok(Made::Yes)
    }

    fn make_overtaking(&mut self) -> Result<Made> {
        let depth = 1 + self.rng.below_u32(REORG_MAX);
        let fork = self.ledger.height() - depth;
        let stale: Vec<Transaction> = self.ledger.chain()[fork as usize + 1..]
            .iter()
            .flat_map(|mined| mined.block.txdata[1..].to_vec())
            .collect();
        let mut contents = Vec::new();
        for _ in 0..=depth {
            let mut some =
                if self.rng.per_mille(500) { self.unseen(2, Self::coins_of_stale_blocks) } else { Vec::new() };
            some.extend(stale.iter().filter(|_| self.rng.per_mille(400)).cloned());
            contents.push(some);
        }
        self.branch(fork, contents)?;
        Ok(Made::Yes)
    }

    /// Returns the coins that the transactions of the last blocks spent, and the unspent confirmed ones.
    fn coins_of_stale_blocks(&self) -> Vec<Coin> {
        let fork = self.ledger.height().saturating_sub(REORG_MAX);
        let outputs = self.ledger.outputs();
        let stale = self.ledger.chain()[fork as usize + 1..].iter().flat_map(|mined| &mined.block.txdata[1..]);
        let mut coins: Vec<Coin> = stale.filter_map(|tx| self.inputs(&outputs, tx)).flatten().collect();
        coins.extend(self.confirmed_coins());
        coins
    }

    /// Makes signed transactions that are not sent to the node.
    fn unseen(&mut self, count: u64, from: fn(&Self) -> Vec<Coin>) -> Vec<Transaction> {
        let count = 1 + self.rng.below(count);
        let coins = self.random_coins(count, from);
        coins.iter().filter_map(|coin| self.randomly_spent(std::slice::from_ref(coin), 0).ok().flatten()).collect()
    }

    fn spend_randomly(&mut self, coins: &[Coin], fee_sat_min: u64) -> Result<Made> {
        let Some(tx) = self.randomly_spent(coins, fee_sat_min)? else { return Ok(Made::No) };
        self.send(&tx).map(|()| Made::Yes)
    }

    /// Makes a transaction with random payments; `None` when the coins are worth less than the fee.
    fn randomly_spent(&mut self, coins: &[Coin], fee_sat_min: u64) -> Result<Option<Transaction>> {
        let total: u64 = coins.iter().map(Coin::sat).sum();
        let count = 1 + self.rng.below(4);
        let fee = fee_sat_min + self.random_fee(150 * (coins.len() as u64 + count))?;
        if total <= fee {
            return Ok(None);
        }
        let mut payments: Vec<Payment> = Vec::new();
        for _ in 0..count {
            payments.push(Payment::to_lock(self.random_lock(), (total - fee) / count));
        }
        if self.rng.per_mille(50) {
            let form = *self.rng.pick(&Form::UNSPENDABLE);
            payments.push(Payment::to_lock(Lock::new(form, 1), 0));
        }
        Ok(Some(self.sign(coins, &payments)))
    }

    fn random_coins(&mut self, count: u64, from: fn(&Self) -> Vec<Coin>) -> Vec<Coin> {
        let mut known = from(self);
        known.retain(|coin| coin.sat() >= COIN_SAT_MIN);
        let mut coins = Vec::new();
        while !known.is_empty() && (coins.len() as u64) < count {
            let index = self.rng.index(known.len());
            coins.push(known.swap_remove(index));
        }
        let mut seen = BTreeSet::new();
        coins.retain(|coin| seen.insert(coin.outpoint));
        coins
    }

    fn random_waiting(&mut self) -> Option<Transaction> {
        let outputs = self.ledger.outputs();
        let waiting = self.ledger.mempool().values().map(|waiting| &waiting.tx);
        let ours: Vec<&Transaction> = waiting.filter(|tx| self.inputs(&outputs, tx).is_some()).collect();
        if ours.is_empty() {
            return None;
        }
        let chosen = ours[self.rng.clone().index(ours.len())].clone();
        self.rng.next_u64();
        Some(chosen)
    }

    /// Returns a random lock. Low numbers are frequent, so that scripts have histories.
    fn random_lock(&mut self) -> Lock {
        let form = *self.rng.pick(&Form::SPENDABLE);
        let numbers = if self.rng.per_mille(400) { 3 } else { 40 };
        Lock::new(form, self.rng.below_u32(numbers))
    }

    /// Returns a fee in satoshi for this virtual size: between just enough and about twenty times that.
    fn random_fee(&mut self, vsize: u64) -> Result<u64> {
        let rate = self.fee_rate_min()?.max(RATE_MIN_SAT_KVB) * (105 + 100 * self.rng.below(20)) / 100;
        Ok((rate * vsize).div_ceil(1000))
    }

    fn fees_with_descendants(&self, tx: &Transaction) -> u64 {
        let mut evicted = BTreeSet::from([tx.compute_txid()]);
        for waiting in self.waiting() {
            if waiting.input.iter().any(|input| evicted.contains(&input.previous_output.txid)) {
                evicted.insert(waiting.compute_txid());
            }
        }
        evicted.iter().filter_map(|txid| self.ledger.mempool().get(txid)).map(|waiting| waiting.fee_sat).sum()
    }
}

/// Makes an output script that only adds weight.
fn ballast() -> ScriptBuf {
    let bytes = PushBytesBuf::try_from(vec![0x42; BALLAST_BYTES.into()]).expect("shorter than 4 GiB");
    Builder::new().push_opcode(OP_RETURN).push_slice(bytes).into_script()
}
