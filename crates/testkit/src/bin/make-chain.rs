//! Writes the benchmark chain as a file for `-loadblock`, imports it on request, or writes it as a node's folder of
//! blocks without a node, and prints its counts as JSON.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use birdhouse_testkit::bench_chain::{BlockFilesWriter, LoadBlock, Plan, Stats};
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
    /// File to write, in the format of `-loadblock`.
    #[arg(long, required_unless_present = "blocks_dir")]
    out: Option<PathBuf>,
    /// New folder to write `blk*.dat` and `rev*.dat` to, in place of a file: no node checks the chain.
    #[arg(long, conflicts_with_all = ["out", "import"])]
    blocks_dir: Option<PathBuf>,
    /// New data directory of a node to import the file into; the node is stopped afterwards.
    #[arg(long)]
    import: Option<PathBuf>,
    /// File to write the script hashes for load generators to, as JSON.
    #[arg(long)]
    samples: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let plan = Plan { seed: args.seed, blocks: args.blocks, txs: args.txs };
    let stats = match (&args.out, &args.blocks_dir) {
        (Some(path), _) => into_file(plan, path)?,
        (None, Some(folder)) => into_folder(plan, folder)?,
        (None, None) => unreachable!("clap requires one of them"),
    };
    println!("{:#}", stats.to_json());
    if let Some(samples) = &args.samples {
        fs::write(samples, stats.samples.to_json().to_string())
            .with_context(|| format!("failed to write {}", samples.display()))?;
    }
    if let (Some(out), Some(datadir), Some(tip)) = (&args.out, &args.import, stats.tip) {
        loadblock::import(out, datadir, tip)?;
    }
    Ok(())
}

fn into_file(plan: Plan, path: &Path) -> anyhow::Result<Stats> {
    let file = File::create(path).with_context(|| format!("failed to create {}", path.display()))?;
    let mut out = LoadBlock(BufWriter::with_capacity(1 << 20, file));
    let stats = bench_chain::generate(plan, &mut out)?;
    out.0.flush()?;
    Ok(stats)
}

fn into_folder(plan: Plan, folder: &Path) -> anyhow::Result<Stats> {
    fs::create_dir(folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let mut out = BlockFilesWriter::create(folder)?;
    let stats = bench_chain::generate(plan, &mut out)?;
    out.finish()?;
    Ok(stats)
}
