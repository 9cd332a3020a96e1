//! Writes the benchmark chain as a file for `-loadblock`, and imports it where asked; prints JSON.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context;
use birdhouse_testkit::{bench_chain, loadblock};
use clap::Parser;

/// Generates a regtest chain of realistic sizes and shapes.
#[derive(Debug, Parser)]
struct Args {
    /// Blocks to make (more, when the transactions do not fit).
    #[arg(long, default_value_t = 2200)]
    blocks: u32,
    /// Transactions to make, coinbases not counted.
    #[arg(long, default_value_t = 8_000_000)]
    txs: u64,
    /// The same seed and sizes give the same chain.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The file to write.
    #[arg(long)]
    out: PathBuf,
    /// Imports the file into this new node's data directory, and leaves the node stopped.
    #[arg(long)]
    import: Option<PathBuf>,
    /// Writes the scripthashes that a load generator may ask for, as JSON.
    #[arg(long)]
    samples: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let plan = bench_chain::Plan { seed: args.seed, blocks: args.blocks, txs: args.txs };
    let file = File::create(&args.out).with_context(|| format!("cannot create {}", args.out.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let stats = bench_chain::generate(plan, &mut out)?;
    out.flush()?;
    println!("{:#}", stats.to_json());
    if let Some(samples) = &args.samples {
        fs::write(samples, stats.samples.to_json().to_string())
            .with_context(|| format!("cannot write {}", samples.display()))?;
    }
    if let (Some(datadir), Some(tip)) = (&args.import, stats.tip) {
        loadblock::import(&args.out, datadir, tip)?;
    }
    Ok(())
}
