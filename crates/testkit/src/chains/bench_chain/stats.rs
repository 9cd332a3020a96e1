//! Counts of a generated chain, and scripts for load generators.

use bitcoin::BlockHash;
use serde_json::{Value, json};

/// Counts of a generated chain. Only `bytes` includes the genesis block.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Number of blocks.
    pub blocks: u64,
    /// Number of transactions besides coinbases.
    pub txs: u64,
    /// Number of their inputs.
    pub inputs: u64,
    /// Number of their outputs.
    pub outputs: u64,
    /// Number of distinct scripts paid, with those of coinbases and without `OP_RETURN`.
    pub scripts: u64,
    /// Bytes of the file, record headers and genesis block included.
    pub bytes: u64,
    /// Hash of the last block.
    pub tip: Option<BlockHash>,
    /// Scripts for load generators.
    pub samples: Samples,
}

/// Scripts by number of transactions.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// The busiest, and five with tens of thousands of transactions (in a chain of millions).
    pub largest: Vec<Sample>,
    /// Scripts with 300 to 1000 transactions.
    pub busy: Vec<Sample>,
    /// Scripts with around 100 transactions, or around 30.
    pub medium: Vec<Sample>,
    /// Scripts with around 10 transactions.
    pub old: Vec<Sample>,
    /// Script hashes with one or a few transactions.
    pub simple: Vec<String>,
}

/// A script that the generator counted.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The script hash as the Electrum protocol writes it.
    pub scripthash: String,
    /// The script in hexadecimal, which a payment to it needs.
    pub script_pubkey: String,
    /// Number of transactions that pay or spend it.
    pub txs: u64,
}

impl Stats {
    /// Returns the counts.
    pub fn to_json(&self) -> Value {
        json!({
            "blocks": self.blocks,
            "txs": self.txs,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "scripts": self.scripts,
            "bytes": self.bytes,
            "tip": self.tip.map(|hash| hash.to_string()),
            "largest_txs": self.samples.largest.iter().map(|sample| sample.txs).max(),
        })
    }
}

impl Samples {
    /// Returns all samples, for load generators.
    pub fn to_json(&self) -> Value {
        let counted = |samples: &[Sample]| -> Vec<Value> {
            let object = |sample: &Sample| {
                json!({
                    "scripthash": sample.scripthash,
                    "script_pubkey": sample.script_pubkey,
                    "txs": sample.txs,
                })
            };
            samples.iter().map(object).collect()
        };
        json!({
            "largest": counted(&self.largest),
            "busy": counted(&self.busy),
            "medium": counted(&self.medium),
            "old": counted(&self.old),
            "simple": self.simple,
        })
    }
}
