//! The scripts that a load generator asks for: what `make-chain --samples` wrote.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// Scripts by how much they are used.
#[derive(Debug, Deserialize)]
pub(crate) struct Samples {
    /// The busiest first.
    pub(crate) largest: Vec<Sample>,
    /// 300 to 1000 transactions.
    pub(crate) busy: Vec<Sample>,
    /// Around 100 transactions, or 30.
    pub(crate) medium: Vec<Sample>,
    /// Around 10 transactions.
    pub(crate) old: Vec<Sample>,
    /// One or a few transactions.
    pub(crate) simple: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Sample {
    pub(crate) scripthash: String,
    /// In hexadecimal digits.
    pub(crate) script_pubkey: String,
    /// Transactions when the chain was made.
    pub(crate) txs: u64,
}

impl Samples {
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let bytes = fs::read(file).with_context(|| format!("read {}", file.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("{} is not of this make-chain", file.display()))
    }

    /// The script with most transactions.
    pub(crate) fn largest(&self) -> Result<&Sample> {
        self.largest.iter().max_by_key(|sample| sample.txs).context("a largest script")
    }
}
