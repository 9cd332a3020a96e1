//! Writes the benchmark's Nostr events, one a line, and what clients would ask of them; prints JSON.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use birdhouse_testkit::corpus;
use clap::Parser;
use serde_json::json;

/// Generates signed Nostr events of realistic sizes and shapes.
#[derive(Debug, Parser)]
struct Args {
    /// Events to make.
    #[arg(long, default_value_t = 1_000_000)]
    events: u64,
    /// The same seed and size give the same events.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The file to write.
    #[arg(long)]
    out: PathBuf,
    /// Writes the queries that a load generator may ask, one a line: `{"shape", "filter"}`.
    #[arg(long)]
    queries: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut out = create(&args.out)?;
    let made = corpus::generate(corpus::Plan { seed: args.seed, events: args.events }, &mut out)?;
    out.flush()?;
    println!("{:#}", json!({"bytes": made.bytes, "authors": made.authors, "indexed_tags": made.indexed_tags}));
    if let Some(file) = &args.queries {
        made.write_queries(&mut create(file)?)?;
    }
    Ok(())
}

fn create(file: &Path) -> anyhow::Result<BufWriter<File>> {
    let created = File::create(file).with_context(|| format!("cannot create {}", file.display()))?;
    Ok(BufWriter::with_capacity(1 << 20, created))
}
