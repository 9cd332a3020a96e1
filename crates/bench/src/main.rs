//! The measurements behind BENCHMARKS.md. Every one runs Birdhouse and a peer on the same node, one after the other,
//! in one run of one machine, and prints figures with their ratio.
//!
//! A chain comes from `make-chain` (in `testkit`): a stopped node's data folder.

mod build;
mod process;
mod wallet;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Measures Birdhouse beside its peers.
#[derive(Debug, Parser)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The first index build: wall time, CPU, memory, bytes on disk, table by table.
    Build(Common),
    /// Sparrow's two tests: 3000 used addresses subscribed in batches of 50, then their refresh.
    Wallet {
        #[command(flatten)]
        common: Common,
        /// What `make-chain --samples` wrote.
        #[arg(long)]
        samples: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Data folder of a stopped node with the chain; it is started and stopped here.
    #[arg(long)]
    chain: PathBuf,
    /// A folder for indexes; what the peers build there is kept and used again by `wallet`.
    #[arg(long)]
    work: PathBuf,
    /// The binary to measure.
    #[arg(long, default_value = "target/release/birdhouse")]
    birdhouse: PathBuf,
    /// Leave out electrs.
    #[arg(long)]
    alone: bool,
}

fn main() -> anyhow::Result<()> {
    match CommandLine::parse().command {
        Command::Build(common) => build::run(&common),
        Command::Wallet { common, samples } => wallet::run(&common, &samples),
    }
}
