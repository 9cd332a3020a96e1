//! Writes the benchmark chain as a file for `-loadblock`, imports it on request, and prints its counts as JSON.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context;
use birdhouse_testkit::{bench_chain, loadblock};
use clap::Parser;

/// Generate a regtest chain of realistic sizes and shapes.
#[derive(Debug, Parser)]
struct Args {
    /// Number of blocks; more when the transactions do not fit.
    #[arg(long, default_value_t = 2200)]
    blocks: u32,
    /// Number of transactions, coinbases not counted.
    #[arg(long, default_value_t = 8_000_000)]
    txs: u64,
    /// Seed of the chain; the same seed and sizes give the same chain.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File to write.
    #[arg(long)]
    out: PathBuf,
    /// New data directory of a node to import the file into; the node is stopped afterwards.
    #[arg(long)]
    import: Option<PathBuf>,
    /// File to write the script hashes for load generators to, as JSON.
    #[arg(long)]
    samples: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let plan = bench_chain::Plan { seed: args.seed, blocks: args.blocks, txs: args.txs };
    let file = File::create(&args.out).with_context(|| format!("failed to create {}", args.out.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let stats = bench_chain::generate(plan, &mut out)?;
    out.flush()?;
    println!("{:#}", stats.to_json());
    if let Some(samples) = &args.samples {
        fs::write(samples, stats.samples.to_json().to_string())
            .with_context(|| format!("failed to write {}", samples.display()))?;
    }
    if let (Some(datadir), Some(tip)) = (&args.import, stats.tip) {
        loadblock::import(&args.out, datadir, tip)?;
    }
    Ok(())
}
