//! JSON of the wallet's answers, with the fields that Core always has.

use std::collections::HashMap;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Address, Network, OutPoint, Transaction, TxOut, Txid};
use serde_json::{Value, json};

use super::keys::{Keys, Owned};
use crate::chains::ledger::{Ledger, Output};

const SAT_PER_BTC: f64 = 1e8;

/// Converts satoshi to bitcoin.
pub(super) fn btc(sat: u64) -> Value {
    signed_btc(i64::try_from(sat).expect("there are fewer than 2^63 satoshi"))
}

#[expect(clippy::cast_precision_loss, reason = "all satoshi are below 2^53")]
fn signed_btc(sat: i64) -> Value {
    (sat as f64 / SAT_PER_BTC).into()
}

/// Returns an entry of `listunspent`.
pub(super) fn unspent(owned: &Owned, confirmations: u64) -> Value {
    let coin = &owned.coin;
    json!({
        "txid": coin.outpoint.txid.to_string(),
        "vout": coin.outpoint.vout,
        "address": address(&coin.output),
        "label": "",
        "scriptPubKey": coin.output.script_pubkey.to_hex_string(),
        "amount": btc(coin.sat()),
        "confirmations": confirmations,
        "spendable": true,
        "solvable": true,
        "safe": owned.is_trusted,
    })
}

/// Returns the answer of `gettransaction`; `None` for an unknown transaction, or one of others.
pub(super) fn transaction(ledger: &Ledger, keys: &Keys, txid: Txid) -> Option<Value> {
    let (tx, place) = find(ledger, txid)?;
    let outputs = ledger.outputs();
    let spent: Vec<TxOut> = spent(&outputs, tx);
    let sum = |outputs: &[TxOut]| -> u64 {
        let own = outputs.iter().filter(|output| keys.owns(&output.script_pubkey));
        own.map(|output| output.value.to_sat()).sum()
    };
    let is_from_us = keys.inputs(&outputs, tx).is_some();
    if sum(&spent) == 0 && sum(&tx.output) == 0 {
        return None;
    }
    let fee = is_from_us.then(|| total(&spent) - total(&tx.output));
    let amount = total_of(sum(&tx.output)) - total_of(sum(&spent)) + fee.unwrap_or(0);
    let mut answer = json!({
        "txid": txid.to_string(),
        "wtxid": tx.compute_wtxid().to_string(),
        "hex": serialize_hex(tx),
        "amount": signed_btc(amount),
        "walletconflicts": [],
        "mempoolconflicts": [],
        "bip125-replaceable": if tx.is_explicitly_rbf() { "yes" } else { "no" },
        "details": details(keys, tx, fee),
    });
    let fields = answer.as_object_mut().expect("the answer is an object");
    fields.extend(place.as_object().expect("the place is an object").clone());
    if let Some(fee) = fee {
        fields.insert("fee".into(), signed_btc(-fee));
    }
    Some(answer)
}

/// Returns a transaction with the fields that tell where it is.
fn find(ledger: &Ledger, txid: Txid) -> Option<(&Transaction, Value)> {
    if let Some(waiting) = ledger.mempool().get(&txid) {
        let time = waiting.time;
        let place = json!({ "confirmations": 0, "trusted": true, "time": time, "timereceived": time });
        return Some((&waiting.tx, place));
    }
    let mut blocks = (0_u32..).zip(ledger.chain());
    blocks.find_map(|(height, mined)| {
        let index = mined.txids.iter().position(|known| *known == txid)?;
        let time = mined.block.header.time;
        let place = json!({
            "confirmations": ledger.height() - height + 1,
            "blockhash": mined.hash.to_string(),
            "blockheight": height,
            "blockindex": index,
            "blocktime": time,
            "time": time,
            "timereceived": time,
        });
        Some((&mined.block.txdata[index], place))
    })
}

fn spent(outputs: &HashMap<OutPoint, Output>, tx: &Transaction) -> Vec<TxOut> {
    let known = tx.input.iter().filter_map(|input| outputs.get(&input.previous_output));
    known.map(|output| output.output.clone()).collect()
}

fn total(outputs: &[TxOut]) -> i64 {
    total_of(outputs.iter().map(|output| output.value.to_sat()).sum())
}

fn total_of(sat: u64) -> i64 {
    i64::try_from(sat).expect("there are fewer than 2^63 satoshi")
}

/// Outputs that the wallet received, and those that it sent to others.
fn details(keys: &Keys, tx: &Transaction, fee: Option<i64>) -> Value {
    let rows = (0_u32..).zip(&tx.output).filter_map(|(vout, output)| {
        let sat = total_of(output.value.to_sat());
        let row = |category, sat| {
            json!({ "address": address(output), "category": category, "amount": signed_btc(sat), "vout": vout })
        };
        match (keys.owns(&output.script_pubkey), fee) {
            (true, _) if tx.is_coinbase() => Some(row("generate", sat)),
            (true, _) => Some(row("receive", sat)),
            (false, Some(fee)) => {
                let mut sent = row("send", -sat);
                sent["fee"] = signed_btc(-fee);
                sent["abandoned"] = false.into();
                Some(sent)
            }
            (false, None) => None,
        }
    });
    rows.collect()
}

fn address(output: &TxOut) -> Option<String> {
    Address::from_script(&output.script_pubkey, Network::Regtest).ok().map(|address| address.to_string())
}
