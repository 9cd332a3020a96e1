//! The naive model of a moving node: its blocks and its mempool, read whole and scanned from the first transaction to
//! the last for every question. It shares nothing with an index, so that both are wrong in the same way by no accident.
//!
//! A [`Ledger`] is what the node said at one moment; [`Ledger::scripts`] is everything a wallet can ask about scripts at
//! that moment. Source: the Electrum protocol's "Basics" (status, order of unconfirmed transactions) and "Methods".

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use birdhouse_regtest::bitcoind::Bitcoind;
use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Amount, Block, BlockHash, OutPoint, ScriptBuf, Transaction, TxOut, Txid, consensus};
use serde_json::{Value, json};

use crate::error::{Error, Result};

const OP_RETURN: u8 = 0x6a;
/// A node that changes at every look is asked so many times.
const LOOKS: usize = 100;

/// The node's chain and mempool at one moment.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Index = height.
    chain: Vec<Arc<Mined>>,
    mempool: BTreeMap<Txid, Arc<Waiting>>,
    /// Its txids as they are shown: parsing them again at every look would take longer than all the rest.
    names: HashMap<String, Txid>,
}

/// A block, and what is computed from it once.
#[derive(Debug)]
pub struct Mined {
    /// Its hash.
    pub hash: BlockHash,
    /// The block itself.
    pub block: Block,
    /// Of its transactions, in order.
    pub txids: Vec<Txid>,
}

/// A transaction of the mempool.
#[derive(Debug)]
pub struct Waiting {
    /// The transaction.
    pub tx: Transaction,
    /// Its own fee in satoshi, whatever a miner was told to think of it.
    pub fee_sat: u64,
    /// Core's virtual size.
    pub vsize: u64,
    /// Core's idea of when it came, in seconds.
    pub time: u64,
}

/// An output of the chain or of the mempool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Where it was made.
    pub outpoint: OutPoint,
    /// What was made.
    pub output: TxOut,
    /// Of the block that made it; `None`: the mempool did.
    pub height: Option<u32>,
    /// Whether a coinbase made it, so that it has to ripen.
    pub is_coinbase: bool,
    /// Who spends it.
    pub spent: Spent,
}

/// Where an output is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    /// Nowhere.
    No,
    /// In a block.
    InChain,
    /// By a transaction of the mempool.
    InMempool,
}

/// What a wallet can ask about one script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptFacts {
    /// Height and txid, in the order of the chain.
    pub confirmed: Vec<(u32, Txid)>,
    /// In the protocol's order: those with confirmed inputs only first, then by txid as it is shown.
    pub unconfirmed: Vec<Unconfirmed>,
    /// In the order in which the chain and then the mempool (by txid) made them; spent ones too.
    pub outputs: Vec<Output>,
}

/// An entry of a history that no block holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unconfirmed {
    /// The protocol's height -1 instead of 0.
    pub has_unconfirmed_inputs: bool,
    /// As it is shown, which is how it is ordered.
    pub txid: String,
    /// In satoshi.
    pub fee_sat: u64,
}

// === impl Ledger ===

impl Ledger {
    /// What the node has now. Blocks and transactions that were read before are not read again.
    pub fn refresh(&mut self, node: &Bitcoind) -> Result<()> {
        for _ in 0..LOOKS {
            let before = moment(node)?;
            let looked = self.read_chain(node).and_then(|()| self.read_mempool(node));
            match looked {
                Ok(()) if moment(node)? == before => return Ok(()),
                Err(error) if moment(node)? == before => return Err(error),
                _ => {}
            }
        }
        Err(Error::Protocol("the node does not stand still".into()))
    }

    fn read_chain(&mut self, node: &Bitcoind) -> Result<()> {
        let (mut hash, mut height) = (node.tip()?, node.height()?);
        let mut fresh = Vec::new();
        let kept = loop {
            if self.chain.get(height as usize).is_some_and(|mined| mined.hash == hash) {
                break height + 1;
            }
            let block: Block = decode(&node.rest(&format!("block/{hash}.bin"))?)?;
            let txids = block.txdata.iter().map(Transaction::compute_txid).collect();
            let parent = block.header.prev_blockhash;
            fresh.push(Arc::new(Mined { hash, block, txids }));
            if height == 0 {
                break 0;
            }
            (hash, height) = (parent, height - 1);
        };
        self.chain.truncate(kept as usize);
        self.chain.extend(fresh.into_iter().rev());
        Ok(())
    }

    fn read_mempool(&mut self, node: &Bitcoind) -> Result<()> {
        let listed = node.rpc("getrawmempool", json!([true]))?;
        let listed = listed.as_object().ok_or_else(|| unreadable("getrawmempool"))?;
        let (mut names, mut mempool) = (HashMap::new(), BTreeMap::new());
        for (name, entry) in listed {
            let known = self.names.get(name).and_then(|txid| self.mempool.get_key_value(txid));
            let (txid, waiting) = match known {
                Some((txid, waiting)) => (*txid, Arc::clone(waiting)),
                None => read_waiting(node, name, entry)?,
            };
            names.insert(name.clone(), txid);
            mempool.insert(txid, waiting);
        }
        (self.names, self.mempool) = (names, mempool);
        Ok(())
    }

    /// Height of the tip.
    ///
    /// # Panics
    /// Before the first [`Self::refresh`].
    pub fn height(&self) -> u32 {
        u32::try_from(self.chain.len()).ok().and_then(|len| len.checked_sub(1)).expect("the ledger was read")
    }

    /// The blocks; index = height.
    pub fn chain(&self) -> &[Arc<Mined>] {
        &self.chain
    }

    /// The unconfirmed transactions.
    pub fn mempool(&self) -> &BTreeMap<Txid, Arc<Waiting>> {
        &self.mempool
    }

    /// The chain up to this height, and no mempool.
    ///
    /// # Panics
    /// When the chain does not reach the height.
    #[must_use]
    pub fn up_to(&self, height: u32) -> Self {
        assert!(height <= self.height(), "the chain reaches the height");
        Self { chain: self.chain[..=height as usize].to_vec(), ..Self::default() }
    }

    /// Whether a transaction of the mempool spends another of the mempool.
    pub fn has_unconfirmed_inputs(&self, tx: &Transaction) -> bool {
        tx.input.iter().any(|input| self.mempool.contains_key(&input.previous_output.txid))
    }

    /// Every transaction: with its height, those of the mempool last and without one.
    fn transactions(&self) -> impl Iterator<Item = (Option<u32>, Txid, &Transaction, Option<&Waiting>)> {
        // The output of the genesis block can never be spent, and is indexed by nobody.
        let mined = (0..).zip(&self.chain).skip(1).flat_map(|(height, mined)| {
            mined.txids.iter().zip(&mined.block.txdata).map(move |(txid, tx)| (Some(height), *txid, tx, None))
        });
        mined.chain(self.mempool.iter().map(|(txid, waiting)| (None, *txid, &waiting.tx, Some(&**waiting))))
    }

    /// Every output that is not marked as unspendable, by its place.
    pub fn outputs(&self) -> HashMap<OutPoint, Output> {
        let mut outputs = HashMap::new();
        for (height, txid, tx, _) in self.transactions() {
            for (vout, output) in (0..).zip(&tx.output).filter(|(_, output)| is_indexed(&output.script_pubkey)) {
                let outpoint = OutPoint { txid, vout };
                let (output, is_coinbase) = (output.clone(), tx.is_coinbase());
                outputs.insert(outpoint, Output { outpoint, output, height, is_coinbase, spent: Spent::No });
            }
        }
        for (height, _, tx, _) in self.transactions() {
            let spent = if height.is_some() { Spent::InChain } else { Spent::InMempool };
            for input in &tx.input {
                if let Some(output) = outputs.get_mut(&input.previous_output) {
                    output.spent = spent;
                }
            }
        }
        outputs
    }

    /// Everything about every script that was ever paid.
    pub fn scripts(&self) -> BTreeMap<ScriptBuf, ScriptFacts> {
        let mut outputs = self.outputs();
        let mut scripts: BTreeMap<ScriptBuf, ScriptFacts> = BTreeMap::new();
        for (height, txid, tx, waiting) in self.transactions() {
            let spent = tx.input.iter().filter_map(|input| outputs.get(&input.previous_output));
            let mut touched: BTreeSet<ScriptBuf> = spent.map(|spent| spent.output.script_pubkey.clone()).collect();
            touched.extend(tx.output.iter().map(|output| output.script_pubkey.clone()).filter(is_indexed));
            for script in touched {
                let facts = scripts.entry(script).or_default();
                match (height, waiting) {
                    (Some(height), _) => facts.confirmed.push((height, txid)),
                    (None, waiting) => facts.unconfirmed.push(Unconfirmed {
                        has_unconfirmed_inputs: self.has_unconfirmed_inputs(tx),
                        txid: txid.to_string(),
                        fee_sat: waiting.map_or(0, |waiting| waiting.fee_sat),
                    }),
                }
            }
        }
        for (_, txid, tx, _) in self.transactions() {
            for vout in 0..u32::try_from(tx.output.len()).expect("a transaction has fewer than 2^32 outputs") {
                // Each is taken once: no two transactions of a chain share a txid any more (BIP34).
                if let Some(output) = outputs.remove(&OutPoint { txid, vout }) {
                    scripts.entry(output.output.script_pubkey.clone()).or_default().outputs.push(output);
                }
            }
        }
        for facts in scripts.values_mut() {
            facts.unconfirmed.sort();
        }
        scripts
    }
}

/// Whether a script can have a history: outputs that say of themselves that they cannot be spent have none.
pub fn is_indexed(script: &ScriptBuf) -> bool {
    script.as_bytes().first() != Some(&OP_RETURN)
}

// === impl ScriptFacts ===

impl ScriptFacts {
    /// `get_history`
    pub fn history(&self) -> Value {
        let confirmed =
            self.confirmed.iter().map(|(height, txid)| json!({ "height": height, "tx_hash": txid.to_string() }));
        confirmed.chain(self.unconfirmed.iter().map(Unconfirmed::entry)).collect()
    }

    /// `get_mempool`
    pub fn mempool(&self) -> Value {
        self.unconfirmed.iter().map(Unconfirmed::entry).collect()
    }

    /// `get_balance`: what is confirmed whoever spends it in the mempool, and by how much the mempool changes it.
    pub fn balance(&self) -> Value {
        let sum = |counts: &dyn Fn(&Output) -> bool| -> i64 {
            let counted = self.outputs.iter().filter(|output| counts(output));
            counted.map(|output| output.output.value.to_signed().expect("below 21 million").to_sat()).sum()
        };
        let confirmed = sum(&|output| output.height.is_some() && output.spent != Spent::InChain);
        let present = sum(&|output| output.spent == Spent::No);
        json!({ "confirmed": confirmed, "unconfirmed": present - confirmed })
    }

    /// `listunspent`; what the mempool made is last, by txid as it is shown.
    pub fn unspent(&self) -> Value {
        let mut unspent: Vec<&Output> = self.outputs.iter().filter(|output| output.spent == Spent::No).collect();
        let waiting = |output: &Output| output.height.is_none().then(|| output.outpoint.txid.to_string());
        unspent.sort_by_key(|output| waiting(output));
        let entry = |output: &&Output| {
            json!({
                "height": output.height.unwrap_or(0), "tx_hash": output.outpoint.txid.to_string(),
                "tx_pos": output.outpoint.vout, "value": output.output.value.to_sat(),
            })
        };
        unspent.iter().map(entry).collect()
    }

    /// The status that `subscribe` answers and notifications tell.
    pub fn status(&self) -> Value {
        if self.confirmed.is_empty() && self.unconfirmed.is_empty() {
            return Value::Null;
        }
        let confirmed = self.confirmed.iter().map(|(height, txid)| format!("{txid}:{height}:"));
        let unconfirmed = self.unconfirmed.iter().map(|entry| format!("{}:{}:", entry.txid, entry.height()));
        let text: String = confirmed.chain(unconfirmed).collect();
        sha256::Hash::hash(text.as_bytes()).to_string().into()
    }
}

impl Unconfirmed {
    /// The protocol's height of an unconfirmed transaction.
    pub fn height(&self) -> i32 {
        if self.has_unconfirmed_inputs { -1 } else { 0 }
    }

    fn entry(&self) -> Value {
        json!({ "height": self.height(), "tx_hash": self.txid, "fee": self.fee_sat })
    }
}

/// What tells one state of the node from another.
fn moment(node: &Bitcoind) -> Result<(Value, Value)> {
    let mempool = node.rpc("getrawmempool", json!([false, true]))?;
    Ok((node.rpc("getbestblockhash", json!([]))?, mempool["mempool_sequence"].clone()))
}

fn read_waiting(node: &Bitcoind, txid: &str, entry: &Value) -> Result<(Txid, Arc<Waiting>)> {
    let tx = decode(&node.rest(&format!("tx/{txid}.bin"))?)?;
    let txid = txid.parse().map_err(|_| unreadable("getrawmempool"))?;
    let fee = entry["fees"]["base"].as_f64().and_then(|btc| Amount::from_btc(btc).ok());
    let number = |name: &str| entry[name].as_u64().ok_or_else(|| unreadable("getrawmempool"));
    let fee_sat = fee.ok_or_else(|| unreadable("getrawmempool"))?.to_sat();
    Ok((txid, Arc::new(Waiting { tx, fee_sat, vsize: number("vsize")?, time: number("time")? })))
}

fn decode<T: consensus::Decodable>(bytes: &[u8]) -> Result<T> {
    consensus::deserialize(bytes).map_err(|_| unreadable("a block or a transaction"))
}

fn unreadable(what: &str) -> Error {
    Error::Protocol(format!("the node's answer cannot be read: {what}"))
}
