//! A node whose chain and mempool change as a test wants: payments, replacements, packages, blocks of any content,
//! reorgs.
//!
//! A [`LiveNode`] reads its spendable coins from the node itself, through its [`Ledger`], so it cannot lose a coin. A
//! [`Move`] is one change; the long runs of the tests choose moves at random. `moves.rs` and this file import each
//! other: a move is a method of [`LiveNode`].

mod coins;
mod moves;

pub use self::moves::{Made, Move};

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use birdhouse_regtest::Error as RegtestError;
use birdhouse_regtest::bitcoind::{Bitcoind, Options};
use birdhouse_regtest::block::{BlockPosition, assemble, subsidy_sat};
use birdhouse_regtest::chain::{ChainBuilder, FEE_SAT};
use birdhouse_regtest::mix::{self, Size};
use birdhouse_regtest::rng::Rng;
use birdhouse_regtest::script::{Form, Lock};
use birdhouse_regtest::tx::{Coin, Payee, Payment, signed_as};
use birdhouse_regtest::wallet::Wallet;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Amount, Block, OutPoint, ScriptBuf, Transaction, Txid, transaction};
use serde_json::json;

use self::coins::{Ripe, fill, with_parents_first};
use crate::chains::ledger::{Ledger, Output, SpentState};
use crate::error::{Error, Result, at};

/// Number of scripts that the rewards of these blocks go to, in turn.
const REWARD_LOCKS: u32 = 3;
/// First salt; the sample chain's own branches have smaller ones.
const FIRST_SALT: u32 = 1_000_000;
/// The time that a node may take to load its mempool.
const PATIENCE: Duration = Duration::from_mins(1);
/// Most bitcoin that `sendrawtransaction` may burn: everything, because tests make unspendable outputs.
const BURN_BTC_MAX: &str = "21000000";

/// The state that a killed node has lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Everything since its last flush.
    Unflushed,
    /// Blocks, chain state and mempool: its data folder was wiped.
    Everything,
}

/// A node, the keys of its chain, and its state when it was last read.
#[derive(Debug)]
pub struct LiveNode {
    node: Bitcoind,
    wallet: Wallet,
    rng: Rng,
    /// Scripts of the wallet's locks.
    locks: HashMap<ScriptBuf, Lock>,
    ledger: Ledger,
    /// Number in the coinbase of the next block, so that no two blocks are the same.
    salt: u32,
    /// The node's clock in seconds; 0 until a test has set it.
    clock: u64,
    /// Time at which the node got its last transaction or block.
    given_at: Instant,
}

impl LiveNode {
    /// Starts a node with a sample chain of this size; it relays outputs of every form.
    pub fn start(seed: u64, size: Size, options: Options) -> Result<Self> {
        Self::with(&mix::sample(seed, size), seed, options)
    }

    /// Starts a node with a chain; it relays outputs of every form.
    pub fn with(chain: &ChainBuilder, seed: u64, options: Options) -> Result<Self> {
        let node = Bitcoind::start(options.arg("-acceptnonstdtxn=1"))?;
        chain.submit_to(&node)?;
        let wallet = chain.wallet().clone();
        let locks = chain.coins().map(|coin| (coin.output.script_pubkey.clone(), coin.lock)).collect();
        let (rng, ledger) = (Rng::new(seed), Ledger::default());
        let mut live = Self { node, wallet, rng, locks, ledger, salt: FIRST_SALT, clock: 0, given_at: Instant::now() };
        live.refresh()?;
        Ok(live)
    }

    /// Returns the node.
    pub fn node(&self) -> &Bitcoind {
        &self.node
    }

    /// Returns the keys of its chain.
    pub fn wallet(&self) -> &Wallet {
        &self.wallet
    }

    /// Returns the state of the node after the last call of a method here.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Stops the node and starts it again; its clock is the system's until a test moves it.
    pub fn restart(&mut self) -> Result<()> {
        self.node.restart()?;
        self.clock = 0;
        let start = Instant::now();
        while self.node.rpc("getmempoolinfo", json!([]))?["loaded"] != json!(true) {
            if start.elapsed() > PATIENCE {
                return Err(Error::Protocol("the node did not load its mempool within a minute".into()));
            }
        }
        self.refresh()
    }

    /// Kills the node and starts it again.
    pub fn kill_and_restart(&mut self) -> Result<()> {
        self.node.kill9();
        self.restart()
    }

    /// Kills the node, starts it again, and gives it the blocks and transactions back that it has lost.
    pub fn kill_and_recover(&mut self, loss: Loss) -> Result<()> {
        let (chain, waiting) = (self.ledger.chain().to_vec(), self.waiting());
        self.node.kill9();
        if loss == Loss::Everything {
            let folder = self.node.blocks_dir();
            for part in ["blocks", "chainstate"] {
                let part = folder.with_file_name(part);
                std::fs::remove_dir_all(&part).map_err(at(&part))?;
            }
            let _ = std::fs::remove_file(folder.with_file_name("mempool.dat"));
        }
        self.restart()?;
        for mined in &chain[1..] {
            // It may still have the block.
            self.node.rpc("submitblock", json!([serialize_hex(&mined.block)]))?;
        }
        for tx in &waiting {
            self.node.rpc("sendrawtransaction", json!([serialize_hex(tx), 0, BURN_BTC_MAX]))?;
        }
        self.refresh()
    }

    /// Reads the node after a change from elsewhere.
    pub fn refresh(&mut self) -> Result<()> {
        self.ledger.refresh(&self.node)
    }

    /// Returns the time at which the node got its last change: clients may be notified from then on.
    pub fn given_at(&self) -> Instant {
        self.given_at
    }

    // === Transactions ===

    /// Returns the coins that a transaction may spend now, those of the mempool included, in a fixed order.
    pub fn coins(&self) -> Vec<Coin> {
        let next = self.ledger.height() + 1;
        let outputs = self.ledger.outputs();
        let unspent = outputs.values().filter(|output| output.spent == SpentState::No && output.is_ripe(next));
        let mut coins: Vec<Coin> = unspent.filter_map(|output| self.coin(output)).collect();
        // A mempool refuses to spend a script whose pushes are not minimal.
        coins.retain(|coin| coin.lock.form != Form::NonMinimal);
        coins.sort_unstable_by_key(|coin| coin.outpoint);
        coins
    }

    /// Returns the coins among [`Self::coins`] that are confirmed.
    pub fn confirmed_coins(&self) -> Vec<Coin> {
        let is_waiting = |coin: &Coin| self.ledger.mempool().contains_key(&coin.outpoint.txid);
        self.coins().into_iter().filter(|coin| !is_waiting(coin)).collect()
    }

    /// Returns the coins that a transaction of the wallet spends.
    ///
    /// # Panics
    /// When it spends an output that is not in chain or mempool, or not the wallet's.
    pub fn coins_of(&self, tx: &Transaction) -> Vec<Coin> {
        self.inputs(&self.ledger.outputs(), tx).expect("the wallet made the transaction")
    }

    /// Returns the coins that a transaction spends; `None` when one is not the wallet's.
    fn inputs(&self, outputs: &HashMap<OutPoint, Output>, tx: &Transaction) -> Option<Vec<Coin>> {
        tx.input.iter().map(|input| self.coin(outputs.get(&input.previous_output)?)).collect()
    }

    fn coin(&self, output: &Output) -> Option<Coin> {
        let lock = *self.locks.get(&output.output.script_pubkey)?;
        Some(Coin { outpoint: output.outpoint, output: output.output.clone(), lock, spendable_from: 0 })
    }

    /// Makes a signed transaction without sending it.
    pub fn sign(&mut self, coins: &[Coin], payments: &[Payment]) -> Transaction {
        self.sign_as(transaction::Version::TWO, coins, payments)
    }

    fn sign_as(&mut self, version: transaction::Version, coins: &[Coin], payments: &[Payment]) -> Transaction {
        for payment in payments {
            if let Payee::Lock(lock) = payment.to
                && lock.form.is_spendable()
            {
                self.locks.insert(self.wallet.script_pubkey(lock), lock);
            }
        }
        signed_as(version, &self.wallet, coins, payments)
    }

    /// Sends a transaction to the node.
    pub fn send(&mut self, tx: &Transaction) -> Result<()> {
        let params = json!([serialize_hex(tx), 0, BURN_BTC_MAX]);
        self.given_at = Instant::now();
        self.node.rpc("sendrawtransaction", params)?;
        self.refresh()
    }

    /// Sends a package to the node, parents first.
    ///
    /// # Errors
    /// The node's reason when it refuses the package.
    pub fn send_package(&mut self, txs: &[Transaction]) -> Result<()> {
        let raw: Vec<String> = txs.iter().map(serialize_hex).collect();
        let answer = self.node.rpc("submitpackage", json!([raw, 0, BURN_BTC_MAX]))?;
        self.refresh()?;
        if answer["package_msg"] == json!("success") {
            return Ok(());
        }
        Err(RegtestError::Rpc { method: "submitpackage".into(), code: 0, message: answer.to_string() }.into())
    }

    /// Sends a transaction that pays from the largest confirmed coin, with change and a fee of 1000 sat.
    pub fn pay(&mut self, payments: &[Payment]) -> Result<Transaction> {
        let coin = self.confirmed_coins().into_iter().max_by_key(Coin::sat);
        let coin = coin.ok_or_else(|| Error::Protocol("the chain has no spendable coin".into()))?;
        self.pay_from(&[coin], payments, FEE_SAT)
    }

    /// Sends a transaction that pays from these coins, with change.
    ///
    /// # Panics
    /// When the coins are not enough.
    pub fn pay_from(&mut self, coins: &[Coin], payments: &[Payment], fee_sat: u64) -> Result<Transaction> {
        let total: u64 = coins.iter().map(Coin::sat).sum();
        let paid: u64 = payments.iter().map(|payment| payment.sat).sum();
        let change = total.checked_sub(paid + fee_sat).expect("the coins are worth the payments and the fee");
        let change_lock = Lock::new(Form::P2wpkh, 930_000 + self.rng.below_u32(20));
        let tx = self.sign(coins, &[payments, &[Payment::to_lock(change_lock, change)]].concat());
        self.send(&tx)?;
        Ok(tx)
    }

    /// Replaces a transaction of the mempool and its descendants by one that spends the same coins.
    ///
    /// # Panics
    /// When it is not in the mempool, or its coins are not enough.
    pub fn replace(&mut self, tx: &Transaction, payments: &[Payment], fee_sat: u64) -> Result<Transaction> {
        assert!(
            self.ledger.mempool().contains_key(&tx.compute_txid()),
            "only a transaction of the mempool can be replaced"
        );
        let coins = self.coins_of(tx);
        self.pay_from(&coins, payments, fee_sat)
    }

    // === Blocks ===

    /// Returns the transactions of the mempool, parents first.
    pub fn waiting(&self) -> Vec<Transaction> {
        with_parents_first(&self.ledger)
    }

    /// Mines a block of the whole mempool on the tip.
    pub fn mine(&mut self) -> Result<()> {
        let waiting = self.waiting();
        self.mine_these(waiting)
    }

    /// Mines until the tip is above this height: a node that has lost blocks is behind until it has more work again.
    pub fn mine_above(&mut self, height: u32) -> Result<()> {
        while self.ledger.height() <= height {
            self.mine()?;
        }
        Ok(())
    }

    /// Mines a block of these transactions in this order on the tip, known to the mempool or not. Transactions that the
    /// chain does not allow, with spent or unknown coins, are left out.
    pub fn mine_these(&mut self, txs: Vec<Transaction>) -> Result<()> {
        self.branch(self.ledger.height(), vec![txs])
    }

    /// Mines `count` empty blocks.
    pub fn mine_empty(&mut self, count: usize) -> Result<()> {
        self.branch(self.ledger.height(), vec![Vec::new(); count])
    }

    /// Mines blocks of these contents on the block at height `fork`. The node changes to the branch when it is the
    /// longest.
    pub fn branch(&mut self, fork: u32, contents: Vec<Vec<Transaction>>) -> Result<()> {
        let mut ripe = Ripe::at(&self.ledger.up_to(fork));
        let mut prev = self.ledger.chain()[fork as usize].hash;
        for (height, txs) in (fork + 1..).zip(contents) {
            let block = self.assemble(BlockPosition { height, prev, salt: self.salt }, fill(&mut ripe, height, txs));
            self.salt += 1;
            self.given_at = Instant::now();
            self.node.submit(height, &block)?;
            prev = block.block_hash();
        }
        self.refresh()
    }

    /// Makes a block whose coinbase does not claim the fees, so that they need not be known.
    fn assemble(&mut self, position: BlockPosition, txs: Vec<Transaction>) -> Block {
        let lock = Lock::new(Form::P2wpkh, 940_000 + position.height % REWARD_LOCKS);
        self.locks.insert(self.wallet.script_pubkey(lock), lock);
        let reward = Payment::to_lock(lock, subsidy_sat(position.height));
        assemble(position, vec![reward.output(&self.wallet)], txs)
    }

    /// Rolls the last blocks back; their transactions return to the mempool where the node allows it.
    pub fn roll_back(&mut self, depth: u32) -> Result<()> {
        let first = self.ledger.height() + 1 - depth;
        self.given_at = Instant::now();
        self.node.invalidate(self.ledger.chain()[first as usize].hash)?;
        self.refresh()
    }

    // === The mempool's limits ===

    /// Moves the node's clock forward; from then on it changes only by these calls.
    pub fn advance_clock(&mut self, seconds: u64) -> Result<()> {
        if self.clock == 0 {
            let millis = self.node.rpc("getnettotals", json!([]))?["timemillis"].as_u64();
            self.clock = millis.ok_or_else(|| Error::Protocol("the node returned no time".into()))? / 1000;
        }
        self.clock += seconds;
        self.node.rpc("setmocktime", json!([self.clock]))?;
        Ok(())
    }

    /// Returns the lowest fee rate that the mempool accepts, in sat/kvB.
    pub fn fee_rate_min(&self) -> Result<u64> {
        let info = self.node.rpc("getmempoolinfo", json!([]))?;
        let sat =
            |name: &str| info[name].as_f64().and_then(|btc| Amount::from_btc(btc).ok()).unwrap_or_default().to_sat();
        Ok(sat("mempoolminfee").max(sat("minrelaytxfee")))
    }

    /// Returns the txids of the mempool.
    pub fn waiting_txids(&self) -> BTreeSet<Txid> {
        self.ledger.mempool().keys().copied().collect()
    }
}
