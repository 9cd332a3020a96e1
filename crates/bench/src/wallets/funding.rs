//! Coins for the transactions of a measurement, from blocks that it mines.

use anyhow::{Context as _, Result};
use birdhouse_testkit::rpc::Rpc;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment, signed};
use birdhouse_testkit::wallet::Wallet;
use bitcoin::hex::DisplayHex as _;
use bitcoin::{Amount, OutPoint, ScriptBuf, Transaction, TxOut, consensus};
use serde_json::{Value, json};

/// Seed of the wallet; with the same one a run finds the coins of earlier runs.
const SEED: u64 = 0xb17d;
const LOCK: Lock = Lock { form: Form::P2wpkh, number: 0 };
/// Fee of a transaction in satoshi, far above any node's minimum.
const FEE_SAT: u64 = 500;
/// Number of blocks mined together when coins are missing.
const SOME_BLOCKS: u32 = 10;
const MATURITY: u64 = 100;

/// Coins of one wallet.
#[derive(Debug)]
pub(crate) struct Funding {
    wallet: Wallet,
}

impl Funding {
    pub(crate) fn new() -> Self {
        Self { wallet: Wallet::new(SEED) }
    }

    /// Returns a script that only this wallet uses.
    pub(crate) fn script(&self, number: u32) -> ScriptBuf {
        self.wallet.script_pubkey(Lock { form: Form::P2wpkh, number })
    }

    /// Returns confirmed coins of at least `sat` each; mines blocks until there are enough.
    pub(crate) fn coins(&self, node: &Rpc, count: u32, sat: u64) -> Result<Vec<Coin>> {
        let fee = FEE_SAT + u64::from(count) * 50;
        let mut coins = self.spendable(node)?;
        while total(&coins) < u64::from(count) * sat + fee {
            mine(node, SOME_BLOCKS, &self.script(0))?;
            coins = self.spendable(node)?;
        }
        let each = (total(&coins) - fee - 50 * coins.len() as u64 * 2) / u64::from(count);
        let payments = vec![Payment::to_lock(LOCK, each); count as usize];
        let split = signed(&self.wallet, &coins, &payments);
        send(node, &split)?;
        mine(node, 1, &self.script(0))?;
        let txid = split.compute_txid();
        let coin = |(vout, output): (u32, &TxOut)| Coin {
            outpoint: OutPoint { txid, vout },
            output: output.clone(),
            lock: LOCK,
            spendable_from: 0,
        };
        Ok((0..).zip(&split.output).map(coin).collect())
    }

    /// Sends a coin to a script; the transaction is in the node's mempool afterwards.
    pub(crate) fn pay(&self, node: &Rpc, coin: &Coin, to: &ScriptBuf) -> Result<()> {
        let payment = Payment::to_script(to.clone(), coin.sat() - FEE_SAT);
        send(node, &signed(&self.wallet, std::slice::from_ref(coin), &[payment]))
    }

    /// Returns the coins that the next block may spend.
    fn spendable(&self, node: &Rpc) -> Result<Vec<Coin>> {
        let script = self.script(0);
        let found = node.call("scantxoutset", &json!(["start", [descriptor(&script)]]))?;
        let tip = found["height"].as_u64().context("height")?;
        let unspents = found["unspents"].as_array().context("unspents")?;
        let ripe = |unspent: &&Value| {
            let since = unspent["height"].as_u64().unwrap_or(tip);
            unspent["coinbase"] != Value::Bool(true) || tip + 1 >= since + MATURITY
        };
        unspents.iter().filter(ripe).map(|unspent| coin(unspent, &script)).collect()
    }
}

/// Mines blocks that pay a script.
pub(crate) fn mine(node: &Rpc, blocks: u32, to: &ScriptBuf) -> Result<()> {
    node.call("generatetodescriptor", &json!([blocks, descriptor(to)]))?;
    Ok(())
}

fn descriptor(script: &ScriptBuf) -> String {
    format!("raw({})", script.as_bytes().to_lower_hex_string())
}

fn send(node: &Rpc, transaction: &Transaction) -> Result<()> {
    node.call("sendrawtransaction", &json!([consensus::encode::serialize_hex(transaction)]))?;
    Ok(())
}

fn total(coins: &[Coin]) -> u64 {
    coins.iter().map(Coin::sat).sum()
}

fn coin(unspent: &Value, script: &ScriptBuf) -> Result<Coin> {
    let txid = unspent["txid"].as_str().context("txid")?.parse()?;
    let vout = u32::try_from(unspent["vout"].as_u64().context("vout")?)?;
    let value = Amount::from_btc(unspent["amount"].as_f64().context("amount")?)?;
    let output = TxOut { value, script_pubkey: script.clone() };
    Ok(Coin { outpoint: OutPoint { txid, vout }, output, lock: LOCK, spendable_from: 0 })
}
