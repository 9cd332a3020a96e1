//! The scripts that load generators ask for, from a file of `make-chain --samples`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// Scripts by number of transactions.
#[derive(Debug, Deserialize)]
pub(crate) struct Samples {
    /// The busiest scripts, the busiest first.
    pub(crate) largest: Vec<Sample>,
    /// Scripts with 300 to 1000 transactions.
    pub(crate) busy: Vec<Sample>,
    /// Scripts with around 100 transactions, or 30.
    pub(crate) medium: Vec<Sample>,
    /// Scripts with around 10 transactions.
    pub(crate) old: Vec<Sample>,
    /// Script hashes with one or a few transactions.
    pub(crate) simple: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Sample {
    pub(crate) scripthash: String,
    /// The script in hexadecimal.
    pub(crate) script_pubkey: String,
    /// Number of transactions when the chain was made.
    pub(crate) txs: u64,
}

/// The argument that names a file of samples.
#[derive(Debug, clap::Args)]
pub(crate) struct SamplesFile {
    /// File that `make-chain --samples` wrote.
    #[arg(long)]
    samples: PathBuf,
}

impl Samples {
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let bytes = fs::read(file).with_context(|| format!("failed to read {}", file.display()))?;
        serde_json::from_slice(&bytes)
            .with_context(|| format!("failed to parse {}: it is no file of this make-chain", file.display()))
    }

    /// Returns the script with most transactions.
    pub(crate) fn largest(&self) -> Result<&Sample> {
        self.largest
            .iter()
            .max_by_key(|sample| sample.txs)
            .context("the samples have no script with counted transactions")
    }
}

impl SamplesFile {
    pub(crate) fn read(&self) -> Result<Samples> {
        Samples::read(&self.samples)
    }
}
