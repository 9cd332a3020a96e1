//! What was made, and which scripts a load generator may ask for.

use bitcoin::BlockHash;
use serde_json::{Value, json};

/// Counts of a generated chain, the genesis block left out (but for `bytes`).
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Blocks.
    pub blocks: u64,
    /// Transactions besides coinbases.
    pub txs: u64,
    /// Their inputs.
    pub inputs: u64,
    /// Their outputs.
    pub outputs: u64,
    /// Distinct scripts paid, coinbases included, `OP_RETURN` left out.
    pub scripts: u64,
    /// Of the file, record headers and genesis block included.
    pub bytes: u64,
    /// Hash of the last block.
    pub tip: Option<BlockHash>,
    /// Scripts to ask for.
    pub samples: Samples,
}

/// Scripts by how much they are used.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// The busiest, and five with ten thousands of transactions (in a chain of millions).
    pub largest: Vec<Sample>,
    /// 300 to 1000 transactions.
    pub busy: Vec<Sample>,
    /// Around 100 transactions, or around 30.
    pub medium: Vec<Sample>,
    /// Around 10 transactions.
    pub old: Vec<Sample>,
    /// One or a few transactions: scripthashes.
    pub simple: Vec<String>,
}

/// A script that the generator counted.
#[derive(Debug, Clone)]
pub struct Sample {
    /// As the Electrum protocol writes it.
    pub scripthash: String,
    /// The script itself, in hexadecimal digits: whoever pays it must know it.
    pub script_pubkey: String,
    /// Transactions that pay or spend it.
    pub txs: u64,
}

impl Stats {
    /// The counts.
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
    /// All of them, for load generators.
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
