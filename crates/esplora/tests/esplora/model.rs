//! The expected answers, found by scanning every transaction of chain and mempool, and by asking Core.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use birdhouse_testkit::ledger::{Ledger, ScriptFacts, SpentState};
use birdhouse_testkit::live::LiveNode;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{OutPoint, ScriptBuf, Transaction, TxOut, Txid};
use serde_json::{Value, json};

/// All answers about one state of a node.
pub(crate) struct Model<'a> {
    pub(crate) live: &'a LiveNode,
    pub(crate) scripts: BTreeMap<ScriptBuf, ScriptFacts>,
    pub(crate) transactions: HashMap<Txid, Found<'a>>,
    spenders: HashMap<OutPoint, (Txid, usize)>,
    decoded: RefCell<HashMap<Txid, Value>>,
}

/// A transaction of chain or mempool.
pub(crate) struct Found<'a> {
    pub(crate) transaction: &'a Transaction,
    /// Height and index in the block; `None` in the mempool.
    pub(crate) block: Option<(u32, usize)>,
}

impl<'a> Model<'a> {
    pub(crate) fn of(live: &'a LiveNode) -> Self {
        let ledger: &Ledger = live.ledger();
        let mut transactions = HashMap::new();
        let mined = (0..).zip(ledger.chain()).flat_map(|(height, mined)| {
            let txs = mined.txids.iter().zip(&mined.block.txdata).enumerate();
            txs.map(move |(index, (txid, transaction))| (*txid, Found { transaction, block: Some((height, index)) }))
        });
        transactions.extend(mined);
        let waiting = ledger.mempool().iter();
        transactions.extend(waiting.map(|(txid, waiting)| (*txid, Found { transaction: &waiting.tx, block: None })));
        let mut spenders = HashMap::new();
        for (txid, found) in &transactions {
            for (vin, input) in found.transaction.input.iter().enumerate() {
                spenders.insert(input.previous_output, (*txid, vin));
            }
        }
        Self { live, scripts: ledger.scripts(), transactions, spenders, decoded: RefCell::default() }
    }

    pub(crate) fn tip(&self) -> u32 {
        self.live.ledger().height()
    }

    /// Core's form of a transaction.
    fn decoded(&self, txid: &Txid) -> Value {
        let mut decoded = self.decoded.borrow_mut();
        let decode = || self.rpc("decoderawtransaction", json!([serialize_hex(self.transactions[txid].transaction)]));
        decoded.entry(*txid).or_insert_with(decode).clone()
    }

    fn rpc(&self, method: &str, params: Value) -> Value {
        self.live.node().rpc(method, params).unwrap()
    }

    /// The output that an input spends.
    pub(crate) fn output(&self, outpoint: &OutPoint) -> &TxOut {
        &self.transactions[&outpoint.txid].transaction.output[outpoint.vout as usize]
    }

    /// A block as in `/block`, from Core's answers.
    pub(crate) fn block(&self, height: u32) -> Value {
        let hash = self.live.ledger().chain()[height as usize].hash.to_string();
        let core = self.rpc("getblock", json!([hash, 1]));
        let bits = u32::from_str_radix(core["bits"].as_str().unwrap(), 16).unwrap();
        json!({
            "id": hash, "height": height, "version": core["version"], "timestamp": core["time"],
            "tx_count": core["nTx"], "size": core["size"], "weight": core["weight"],
            "merkle_root": core["merkleroot"], "previousblockhash": core["previousblockhash"],
            "mediantime": core["mediantime"], "nonce": core["nonce"], "bits": bits, "difficulty": core["difficulty"],
        })
    }

    pub(crate) fn status(&self, block: Option<u32>) -> Value {
        let Some(height) = block else { return json!({ "confirmed": false }) };
        let mined = &self.live.ledger().chain()[height as usize];
        json!({
            "confirmed": true, "block_height": height, "block_hash": mined.hash.to_string(),
            "block_time": mined.block.header.time,
        })
    }

    /// The members of a transaction as in `/tx` that Core's `decoderawtransaction` and the model know: all but texts of
    /// scripts and the count of signature operations.
    pub(crate) fn transaction(&self, txid: Txid) -> Value {
        let found = &self.transactions[&txid];
        let core = self.decoded(&txid);
        let is_coinbase = found.transaction.is_coinbase();
        let outputs: Vec<Value> = core["vout"].as_array().unwrap().iter().map(output).collect();
        let inputs = found.transaction.input.iter().zip(core["vin"].as_array().unwrap()).map(|(input, core)| {
            let prevout = (!is_coinbase).then(|| self.prevout(&input.previous_output));
            let hex = if is_coinbase { &core["coinbase"] } else { &core["scriptSig"]["hex"] };
            let mut value = json!({
                "txid": input.previous_output.txid.to_string(), "vout": input.previous_output.vout,
                "prevout": prevout, "scriptsig": hex, "is_coinbase": is_coinbase, "sequence": core["sequence"],
            });
            if let Some(witness) = core.get("txinwitness") {
                value["witness"] = witness.clone();
            }
            value
        });
        let inputs: Vec<Value> = inputs.collect();
        let taken: u64 = if is_coinbase {
            0
        } else {
            found.transaction.input.iter().map(|input| self.output(&input.previous_output).value.to_sat()).sum()
        };
        let paid: u64 = found.transaction.output.iter().map(|output| output.value.to_sat()).sum();
        json!({
            "txid": core["txid"], "version": core["version"], "locktime": core["locktime"], "vin": inputs,
            "vout": outputs, "size": core["size"], "weight": core["weight"],
            "fee": if is_coinbase { 0 } else { taken - paid }, "status": self.status(found.block.map(|(height, _)| height)),
        })
    }

    fn prevout(&self, outpoint: &OutPoint) -> Value {
        let core = self.decoded(&outpoint.txid);
        output(&core["vout"][outpoint.vout as usize])
    }

    /// The answer of `outspend`.
    pub(crate) fn outspend(&self, outpoint: OutPoint) -> Value {
        let Some((txid, vin)) = self.spenders.get(&outpoint) else { return json!({ "spent": false }) };
        let block = self.transactions[txid].block.map(|(height, _)| height);
        json!({ "spent": true, "txid": txid.to_string(), "vin": vin, "status": self.status(block) })
    }

    pub(crate) fn outspends(&self, txid: Txid) -> Value {
        let outputs = self.transactions[&txid].transaction.output.len();
        (0..u32::try_from(outputs).unwrap()).map(|vout| self.outspend(OutPoint { txid, vout })).collect()
    }

    /// `chain_stats` and `mempool_stats`.
    pub(crate) fn stats(&self, script: &ScriptBuf) -> (Value, Value) {
        let facts = &self.scripts[script];
        let sum = |counted: &[u64], spent: &[u64], txs: usize| {
            json!({
                "tx_count": txs, "funded_txo_count": counted.len(), "funded_txo_sum": counted.iter().sum::<u64>(),
                "spent_txo_count": spent.len(), "spent_txo_sum": spent.iter().sum::<u64>(),
            })
        };
        let values = |counts: &dyn Fn(&birdhouse_testkit::ledger::Output) -> bool| -> Vec<u64> {
            facts.outputs.iter().filter(|output| counts(output)).map(|output| output.output.value.to_sat()).collect()
        };
        let chain = sum(
            &values(&|output| output.height.is_some()),
            &values(&|output| output.spent == SpentState::InChain),
            facts.confirmed.len(),
        );
        let mempool = sum(
            &values(&|output| output.height.is_none()),
            &values(&|output| output.spent == SpentState::InMempool),
            facts.unconfirmed.len(),
        );
        (chain, mempool)
    }

    /// The answer of `utxo`, by txid and vout.
    pub(crate) fn unspent(&self, script: &ScriptBuf) -> BTreeMap<(String, u64), Value> {
        let unspent = self.scripts[script].outputs.iter().filter(|output| output.spent == SpentState::No);
        let entry = |output: &birdhouse_testkit::ledger::Output| {
            let (txid, vout) = (output.outpoint.txid.to_string(), output.outpoint.vout);
            let status = self.status(output.height);
            let value = json!({ "txid": txid, "vout": vout, "status": status, "value": output.output.value.to_sat() });
            ((txid, vout.into()), value)
        };
        unspent.map(entry).collect()
    }

    /// The answer of `txs/summary`.
    pub(crate) fn summary(&self, script: &ScriptBuf) -> Vec<Value> {
        let signed = |output: &TxOut| i64::try_from(output.value.to_sat()).unwrap();
        let entry = |(height, txid): &(u32, Txid)| {
            let found = &self.transactions[txid];
            let paid: i64 = found.transaction.output.iter().filter(|o| o.script_pubkey == *script).map(signed).sum();
            let spent = found.transaction.input.iter().filter(|_| !found.transaction.is_coinbase());
            let spent = spent.map(|input| self.output(&input.previous_output));
            let spent: i64 = spent.filter(|output| output.script_pubkey == *script).map(signed).sum();
            json!({
                "txid": txid.to_string(), "height": height, "value": paid - spent,
                "time": self.live.ledger().chain()[*height as usize].block.header.time,
                "tx_position": found.block.unwrap().1,
            })
        };
        self.scripts[script].confirmed.iter().rev().map(entry).collect()
    }
}

/// An output as in `/tx`, from Core's, without the text of its script.
fn output(core: &Value) -> Value {
    let script = &core["scriptPubKey"];
    let kind = match script["type"].as_str().unwrap() {
        "pubkey" => "p2pk",
        "pubkeyhash" => "p2pkh",
        "scripthash" => "p2sh",
        "witness_v0_keyhash" => "v0_p2wpkh",
        "witness_v0_scripthash" => "v0_p2wsh",
        "witness_v1_taproot" => "v1_p2tr",
        "anchor" => "anchor",
        "multisig" => "multisig",
        "nulldata" => "op_return",
        _ if script["hex"] == json!("") => "empty",
        _ if script["hex"].as_str().unwrap().starts_with("6a") => "op_return",
        _ => "unknown",
    };
    let value = bitcoin::Amount::from_btc(core["value"].as_f64().unwrap()).unwrap().to_sat();
    let mut output = json!({ "scriptpubkey": script["hex"], "scriptpubkey_type": kind, "value": value });
    if let Some(address) = script.get("address") {
        output["scriptpubkey_address"] = address.clone();
    }
    output
}

/// Removes the members that [`Model::transaction`] does not know.
pub(crate) fn without_texts(mut transaction: Value) -> Value {
    transaction.as_object_mut().unwrap().remove("sigops").unwrap();
    let strip = |output: &mut Value| {
        if let Some(members) = output.as_object_mut() {
            members.remove("scriptpubkey_asm").unwrap();
        }
    };
    for input in transaction["vin"].as_array_mut().unwrap() {
        let members = input.as_object_mut().unwrap();
        members.remove("scriptsig_asm").unwrap();
        members.remove("inner_redeemscript_asm");
        members.remove("inner_witnessscript_asm");
        strip(&mut members["prevout"]);
    }
    transaction["vout"].as_array_mut().unwrap().iter_mut().for_each(strip);
    transaction
}
