//! The expected answer to every request, found by scanning every transaction of a chain.

use std::collections::{BTreeMap, HashMap};

use bitcoin::hashes::{Hash as _, HashEngine as _, sha256, sha256d};
use bitcoin::{Block, OutPoint, ScriptBuf, TxMerkleNode, Txid};
use serde_json::{Value, json};

/// One script of a chain.
#[derive(Default)]
pub(crate) struct Script {
    /// Height, position in the block, txid; each once.
    history: Vec<(u32, usize, Txid)>,
    unspent: BTreeMap<(u32, usize, u32), (OutPoint, u64)>,
}

/// Every script that is indexed, under its script hash.
pub(crate) fn scripts(blocks: &[Block]) -> BTreeMap<String, Script> {
    let mut scripts: BTreeMap<String, Script> = BTreeMap::new();
    let mut outputs: HashMap<OutPoint, (ScriptBuf, (u32, usize, u32))> = HashMap::new();
    // The genesis block's coinbase cannot be spent and is not indexed.
    for (height, block) in (1u32..).zip(&blocks[1..]) {
        for (position, tx) in block.txdata.iter().enumerate() {
            let txid = tx.compute_txid();
            for input in tx.input.iter().filter(|input| !input.previous_output.is_null()) {
                let (script, key) = outputs.remove(&input.previous_output).unwrap();
                if let Some(entry) = touched(&mut scripts, &script, (height, position, txid)) {
                    entry.unspent.remove(&key);
                }
            }
            for (vout, output) in (0u32..).zip(&tx.output) {
                let key = (height, position, vout);
                let outpoint = OutPoint { txid, vout };
                outputs.insert(outpoint, (output.script_pubkey.clone(), key));
                if let Some(entry) = touched(&mut scripts, &output.script_pubkey, (height, position, txid)) {
                    entry.unspent.insert(key, (outpoint, output.value.to_sat()));
                }
            }
        }
    }
    scripts
}

/// `OP_RETURN` outputs are not indexed.
fn touched<'a>(
    scripts: &'a mut BTreeMap<String, Script>,
    script: &ScriptBuf,
    at: (u32, usize, Txid),
) -> Option<&'a mut Script> {
    if script.is_op_return() {
        return None;
    }
    let entry = scripts.entry(scripthash(script)).or_default();
    if entry.history.last() != Some(&at) {
        entry.history.push(at);
    }
    Some(entry)
}

/// One output of a chain that is indexed.
pub(crate) struct Output {
    pub(crate) scripthash: String,
    pub(crate) value: u64,
    pub(crate) height: u32,
    pub(crate) spender: Option<(Txid, u32)>,
}

/// Every output that is indexed.
pub(crate) fn outputs(blocks: &[Block]) -> BTreeMap<OutPoint, Output> {
    let mut outputs: BTreeMap<OutPoint, Output> = BTreeMap::new();
    for (height, block) in (1u32..).zip(&blocks[1..]) {
        for tx in &block.txdata {
            let txid = tx.compute_txid();
            for input in &tx.input {
                if let Some(spent) = outputs.get_mut(&input.previous_output) {
                    spent.spender = Some((txid, height));
                }
            }
            for (vout, output) in (0u32..).zip(&tx.output).filter(|(_, output)| !output.script_pubkey.is_op_return()) {
                let (scripthash, value) = (scripthash(&output.script_pubkey), output.value.to_sat());
                outputs.insert(OutPoint { txid, vout }, Output { scripthash, value, height, spender: None });
            }
        }
    }
    outputs
}

impl Output {
    /// The answer of `blockchain.outpoint.get_status`.
    pub(crate) fn status(&self) -> Value {
        match self.spender {
            None => json!({ "funder_height": self.height }),
            Some((txid, height)) => json!({
                "funder_height": self.height, "spender_txhash": txid.to_string(), "spender_height": height,
            }),
        }
    }

    /// The answer of `blockchain.utxo.get_info`.
    pub(crate) fn info(&self) -> Value {
        match self.spender {
            None => {
                json!({ "scripthash": self.scripthash, "value": self.value, "confirmed_height": self.height })
            }
            Some(_) => Value::Null,
        }
    }
}

impl Script {
    pub(crate) fn history(&self) -> Value {
        self.history_between(0, u32::MAX)
    }

    /// The history from a height, and below another.
    pub(crate) fn history_between(&self, from: u32, to: u32) -> Value {
        let entry = |(height, _, txid): &(u32, usize, Txid)| json!({ "tx_hash": txid.to_string(), "height": height });
        self.history.iter().filter(|(height, ..)| (from..to).contains(height)).map(entry).collect()
    }

    /// Height and txid of the first transaction.
    pub(crate) fn first_use(&self) -> (u32, Txid) {
        let (height, _, txid) = self.history[0];
        (height, txid)
    }

    pub(crate) fn unspent(&self) -> Value {
        let entry = |(key, (outpoint, value)): (&(u32, usize, u32), &(OutPoint, u64))| json!({ "tx_hash": outpoint.txid.to_string(), "tx_pos": outpoint.vout, "height": key.0, "value": value });
        self.unspent.iter().map(entry).collect()
    }

    pub(crate) fn balance(&self) -> Value {
        let confirmed: u64 = self.unspent.values().map(|(_, value)| value).sum();
        json!({ "confirmed": confirmed, "unconfirmed": 0 })
    }

    pub(crate) fn status(&self) -> Value {
        let entries: Vec<String> = self.history.iter().map(|(height, _, txid)| format!("{txid}:{height}:")).collect();
        let text = entries.concat();
        json!(sha256::Hash::hash(text.as_bytes()).to_string())
    }
}

/// The script hash of a script, as clients write it.
pub(crate) fn scripthash(script: &ScriptBuf) -> String {
    birdhouse_testkit::client::scripthash(script.as_bytes())
}

/// The merkle root of a leaf, shown reversed, and a branch in the protocol's form.
pub(crate) fn merkle_root(leaf: &str, branch: &Value, position: u64) -> String {
    let mut hash: TxMerkleNode = leaf.parse().unwrap();
    let mut position = position;
    for sibling in branch.as_array().unwrap() {
        let sibling: TxMerkleNode = sibling.as_str().unwrap().parse().unwrap();
        let (left, right) = if position & 1 == 0 { (hash, sibling) } else { (sibling, hash) };
        let mut engine = sha256d::Hash::engine();
        engine.input(left.as_byte_array());
        engine.input(right.as_byte_array());
        hash = TxMerkleNode::from_raw_hash(sha256d::Hash::from_engine(engine));
        position >>= 1;
    }
    assert_eq!(position, 0, "the branch reaches the root");
    hash.to_string()
}
