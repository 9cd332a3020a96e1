//! The naive model of a changing node: its blocks and its mempool, read whole and scanned from the first transaction to
//! the last for every question. It shares no code with an index, so the same error in both is unlikely.
//!
//! A [`Ledger`] is the state of the node at one moment; [`Ledger::scripts`] has all answers about scripts at that
//! moment. Source: the [Electrum protocol](https://electrum-protocol.readthedocs.io/), "Basics" (status, order of
//! unconfirmed transactions) and "Methods".

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use birdhouse_regtest::bitcoind::Bitcoind;
use birdhouse_regtest::block::COINBASE_MATURITY;
use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Amount, Block, BlockHash, OutPoint, ScriptBuf, Transaction, TxOut, Txid, consensus};
use serde_json::{Value, json};

use crate::error::{Error, Result};

const OP_RETURN: u8 = 0x6a;
/// Attempts to read a node that changes meanwhile.
const LOOKS: usize = 100;

/// The node's chain and mempool at one moment.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Index = height.
    chain: Vec<Arc<Mined>>,
    mempool: BTreeMap<Txid, Arc<Waiting>>,
    /// Txids of the mempool by their hexadecimal form: parsing them at every read would take longer than everything
    /// else.
    names: HashMap<String, Txid>,
}

/// A block with its hash and txids.
#[derive(Debug)]
pub struct Mined {
    /// Its hash.
    pub hash: BlockHash,
    /// The block itself.
    pub block: Block,
    /// Txids of its transactions, in order.
    pub txids: Vec<Txid>,
}

/// A transaction of the mempool.
#[derive(Debug)]
pub struct Waiting {
    /// The transaction.
    pub tx: Transaction,
    /// Its own fee in satoshi, without the changes of `prioritisetransaction`.
    pub fee_sat: u64,
    /// Core's virtual size in bytes.
    pub vsize: u64,
    /// Time at which it entered the node's mempool, in seconds.
    pub time: u64,
}

/// An output of the chain or of the mempool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The outpoint that names it.
    pub outpoint: OutPoint,
    /// The output itself.
    pub output: TxOut,
    /// Height of the block that has it; `None` for the mempool.
    pub height: Option<u32>,
    /// True for an output of a coinbase, which can be spent 100 blocks later.
    pub is_coinbase: bool,
    /// The place of its spender.
    pub spent: SpentState,
}

/// Place of the transaction that spends an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpentState {
    /// The output is unspent.
    No,
    /// A block.
    InChain,
    /// The mempool.
    InMempool,
}

/// All answers about one script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptFacts {
    /// Height and txid of confirmed transactions, in the order of the chain.
    pub confirmed: Vec<(u32, Txid)>,
    /// Unconfirmed transactions in the protocol's order: those with confirmed inputs only first, then by hexadecimal
    /// txid.
    pub unconfirmed: Vec<Unconfirmed>,
    /// Outputs, spent ones included: those of the chain in its order, then those of the mempool by txid.
    pub outputs: Vec<Output>,
}

/// An unconfirmed entry of a history.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unconfirmed {
    /// True when it spends an unconfirmed output: the protocol's height is -1 instead of 0.
    pub has_unconfirmed_inputs: bool,
    /// The txid in hexadecimal, by which entries are ordered.
    pub txid: String,
    /// The fee in satoshi.
    pub fee_sat: u64,
}

// === impl Ledger ===

impl Ledger {
    /// Reads the node's present state. Blocks and transactions that were read before are not read again.
    pub fn refresh(&mut self, node: &Bitcoind) -> Result<()> {
        for _ in 0..LOOKS {
            let before = state_id(node)?;
            let looked = self.read_chain(node).and_then(|()| self.read_mempool(node));
            match looked {
                Ok(()) if state_id(node)? == before => return Ok(()),
                Err(error) if state_id(node)? == before => return Err(error),
                _ => {}
            }
        }
        Err(Error::Protocol("the node changed during each of 100 reads".into()))
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

    /// Returns the height of the tip.
    ///
    /// # Panics
    /// Before the first [`Self::refresh`].
    pub fn height(&self) -> u32 {
        u32::try_from(self.chain.len()).ok().and_then(|len| len.checked_sub(1)).expect("the ledger was read")
    }

    /// Returns the blocks; index = height.
    pub fn chain(&self) -> &[Arc<Mined>] {
        &self.chain
    }

    /// Returns the transactions of the mempool.
    pub fn mempool(&self) -> &BTreeMap<Txid, Arc<Waiting>> {
        &self.mempool
    }

    /// Returns the chain up to this height, without a mempool.
    ///
    /// # Panics
    /// When the chain does not reach the height.
    #[must_use]
    pub fn up_to(&self, height: u32) -> Self {
        assert!(height <= self.height(), "the chain reaches the height");
        Self { chain: self.chain[..=height as usize].to_vec(), ..Self::default() }
    }

    /// Returns true when a transaction spends an output of the mempool.
    pub fn has_unconfirmed_inputs(&self, tx: &Transaction) -> bool {
        tx.input.iter().any(|input| self.mempool.contains_key(&input.previous_output.txid))
    }

    /// Returns every transaction with its height; those of the mempool are last and have none.
    fn transactions(&self) -> impl Iterator<Item = (Option<u32>, Txid, &Transaction, Option<&Waiting>)> {
        // The output of the genesis block can never be spent, and no server indexes it.
        let mined = (0..).zip(&self.chain).skip(1).flat_map(|(height, mined)| {
            mined.txids.iter().zip(&mined.block.txdata).map(move |(txid, tx)| (Some(height), *txid, tx, None))
        });
        mined.chain(self.mempool.iter().map(|(txid, waiting)| (None, *txid, &waiting.tx, Some(&**waiting))))
    }

    /// Returns every output except those that begin with `OP_RETURN`, by outpoint.
    pub fn outputs(&self) -> HashMap<OutPoint, Output> {
        let mut outputs = HashMap::new();
        for (height, txid, tx, _) in self.transactions() {
            for (vout, output) in (0..).zip(&tx.output).filter(|(_, output)| is_indexed(&output.script_pubkey)) {
                let outpoint = OutPoint { txid, vout };
                let (output, is_coinbase) = (output.clone(), tx.is_coinbase());
                outputs.insert(outpoint, Output { outpoint, output, height, is_coinbase, spent: SpentState::No });
            }
        }
        for (height, _, tx, _) in self.transactions() {
            let spent = if height.is_some() { SpentState::InChain } else { SpentState::InMempool };
            for input in &tx.input {
                if let Some(output) = outputs.get_mut(&input.previous_output) {
                    output.spent = spent;
                }
            }
        }
        outputs
    }

    /// Returns the answers about every script that was ever paid.
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
                // Each output is moved once: since BIP34 no two transactions of a chain share a txid.
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

/// Returns true for a script that can have a history: outputs that begin with `OP_RETURN` have none.
pub fn is_indexed(script: &ScriptBuf) -> bool {
    script.as_bytes().first() != Some(&OP_RETURN)
}

// === impl Output ===

impl Output {
    /// Returns true when a block at this height may spend the output.
    pub(crate) fn is_ripe(&self, height: u32) -> bool {
        !self.is_coinbase || self.height.is_some_and(|made| made + COINBASE_MATURITY <= height)
    }
}

// === impl ScriptFacts ===

impl ScriptFacts {
    /// Returns the answer to `blockchain.scripthash.get_history`.
    pub fn history(&self) -> Value {
        let confirmed =
            self.confirmed.iter().map(|(height, txid)| json!({ "height": height, "tx_hash": txid.to_string() }));
        confirmed.chain(self.unconfirmed.iter().map(Unconfirmed::entry)).collect()
    }

    /// Returns the answer to `blockchain.scripthash.get_mempool`.
    pub fn mempool(&self) -> Value {
        self.unconfirmed.iter().map(Unconfirmed::entry).collect()
    }

    /// Returns the answer to `blockchain.scripthash.get_balance`: the confirmed balance without the mempool, and the
    /// change of it by the mempool.
    pub fn balance(&self) -> Value {
        let sum = |counts: &dyn Fn(&Output) -> bool| -> i64 {
            let counted = self.outputs.iter().filter(|output| counts(output));
            counted.map(|output| output.output.value.to_signed().expect("below 21 million").to_sat()).sum()
        };
        let confirmed = sum(&|output| output.height.is_some() && output.spent != SpentState::InChain);
        let present = sum(&|output| output.spent == SpentState::No);
        json!({ "confirmed": confirmed, "unconfirmed": present - confirmed })
    }

    /// Returns the answer to `blockchain.scripthash.listunspent`; outputs of the mempool are last, by hexadecimal txid.
    pub fn unspent(&self) -> Value {
        let mut unspent: Vec<&Output> = self.outputs.iter().filter(|output| output.spent == SpentState::No).collect();
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

    /// Returns the status that `blockchain.scripthash.subscribe` and its notifications have.
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
    /// Returns the protocol's height of an unconfirmed transaction.
    pub fn height(&self) -> i32 {
        if self.has_unconfirmed_inputs { -1 } else { 0 }
    }

    fn entry(&self) -> Value {
        json!({ "height": self.height(), "tx_hash": self.txid, "fee": self.fee_sat })
    }
}

/// Returns tip and mempool sequence, which differ between any two states of the node.
fn state_id(node: &Bitcoind) -> Result<(Value, Value)> {
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
    Error::Protocol(format!("failed to parse the node's answer: {what}"))
}
