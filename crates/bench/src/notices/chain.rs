//! A node with a wallet's scripts, each paid once, and payments to them.

use anyhow::{Context as _, Result};
use birdhouse_testkit::Options;
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use bitcoin::bip32::{ChildNumber, Xpub};
use bitcoin::secp256k1::Secp256k1;
use bitcoin::{CompressedPublicKey, OutPoint, ScriptBuf, Transaction};

use super::plan::Feed;

const SEED: u64 = 72;
/// Blocks that give coins, and transactions enough for one large block after another.
const SIZE: Size = Size { blocks: 150, block_txs: 2, scripts_per_form: 2, busy: &[] };
/// The public key of BIP 32's second test vector, with the version of test networks.
const TPUB: &str =
    "tpubD6NzVbkrYhZ4XJDrzRvuxHEyQaPd1mwwdDofEJwekX18tAdsqeKfxss79AJzg1431FybXg5rfpTrJF4iAhyR7RubberdzEQXiRmXGADH2eA";
/// Outputs of a transaction that pays many scripts: it stays below the weight that nodes relay.
const OUTPUTS: usize = 2_000;
/// Value of a payment, and of the outputs that nobody watches.
const PAYMENT_SAT: u64 = 5_000;
const FEE_SAT: u64 = 1_000;
/// Value of a coin that a transaction of each large block spends.
const COIN_SAT: u64 = 200_000;
const COIN_FORM: Form = Form::P2wpkh;
/// First numbers of the locks of coins, and of those that nobody watches.
const COINS: u32 = 2_000_000;
const STRANGERS: u32 = 3_000_000;

/// The node, the watched scripts, and coins for large blocks.
pub(super) struct Chain {
    pub(super) live: LiveNode,
    scripts: Vec<ScriptBuf>,
    coins: Vec<Coin>,
    /// Payments until now: each goes to the next script.
    paid: usize,
}

/// The output descriptor of the watched scripts.
pub(super) fn descriptor() -> String {
    format!("wpkh({TPUB}/0/*)")
}

impl Chain {
    /// Starts a node whose chain pays every watched script once, and has a coin for each transaction of a large block.
    pub(super) fn start(scripts: u32, transactions: u32, feed: Feed) -> Result<Self> {
        let options = match feed {
            Feed::Polled => Options::default(),
            Feed::Zmq => Options::default().logging_changes(),
        };
        let live = LiveNode::start(SEED, SIZE, options)?;
        let mut chain = Self { live, scripts: derive(scripts)?, coins: Vec::new(), paid: 0 };
        let pay = |script: &ScriptBuf| Payment::to_script(script.clone(), PAYMENT_SAT);
        let payments: Vec<Payment> = chain.scripts.iter().map(pay).collect();
        chain.mine_payments(&payments)?;
        let coin = |number| Payment::to_lock(Lock::new(COIN_FORM, COINS + number), COIN_SAT);
        for tx in chain.mine_payments(&(0..transactions).map(coin).collect::<Vec<_>>())? {
            let coins = chain.live.coins();
            chain.coins.extend(coins.into_iter().filter(|coin| coin.outpoint.txid == tx && coin.lock.number >= COINS));
        }
        Ok(chain)
    }

    /// Mines a block that makes these payments; returns the transactions.
    fn mine_payments(&mut self, payments: &[Payment]) -> Result<Vec<bitcoin::Txid>> {
        let mut coins = self.live.confirmed_coins();
        coins.sort_by_key(Coin::sat);
        let mut txs = Vec::new();
        for payments in payments.chunks(OUTPUTS) {
            let coin = coins.pop().context("the chain has no more coins")?;
            let change = coin.sat() - payments.iter().map(|payment| payment.sat).sum::<u64>() - FEE_SAT * 100;
            let change = Payment::to_lock(Lock::new(Form::P2wpkh, 1), change);
            txs.push(self.live.sign(&[coin], &[payments, &[change]].concat()));
        }
        let txids = txs.iter().map(Transaction::compute_txid).collect();
        self.live.mine_these(txs)?;
        Ok(txids)
    }

    /// Pays the next watched script; returns the transaction, which waits in the mempool.
    pub(super) fn pay(&mut self) -> Result<String> {
        let payment = self.payment();
        Ok(self.live.pay(&[payment])?.compute_txid().to_string())
    }

    fn payment(&mut self) -> Payment {
        self.paid += 1;
        Payment::to_script(self.scripts[self.paid % self.scripts.len()].clone(), PAYMENT_SAT)
    }

    /// Makes the transactions of a large block, the first `watched` of which pay a watched script each.
    pub(super) fn large_block(&mut self, watched: usize) -> Vec<Transaction> {
        let mut txs = Vec::new();
        for (number, coin) in (0..).zip(std::mem::take(&mut self.coins)) {
            let payment = if (number as usize) < watched {
                self.payment()
            } else {
                Payment::to_lock(Lock::new(Form::P2wpkh, STRANGERS + number), PAYMENT_SAT)
            };
            let change = Payment::to_lock(coin.lock, coin.sat() - PAYMENT_SAT - FEE_SAT);
            let tx = self.live.sign(std::slice::from_ref(&coin), &[payment, change]);
            let outpoint = OutPoint { txid: tx.compute_txid(), vout: 1 };
            self.coins.push(Coin { outpoint, output: tx.output[1].clone(), ..coin });
            txs.push(tx);
        }
        txs
    }
}

/// Returns the first scripts of [`descriptor`].
fn derive(count: u32) -> Result<Vec<ScriptBuf>> {
    let secp = Secp256k1::verification_only();
    let branch = TPUB.parse::<Xpub>()?.ckd_pub(&secp, ChildNumber::from_normal_idx(0)?)?;
    let script = |number| {
        let key = branch.ckd_pub(&secp, ChildNumber::from_normal_idx(number)?)?.public_key;
        Ok(ScriptBuf::new_p2wpkh(&CompressedPublicKey(key).wpubkey_hash()))
    };
    (0..count).map(script).collect()
}
