//! Writes the benchmark's Nostr events, one a line, and queries for them; prints counts as JSON.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use birdhouse_testkit::corpus;
use clap::Parser;
use serde_json::json;

/// Generate signed Nostr events of realistic sizes and shapes.
#[derive(Debug, Parser)]
struct Args {
    /// Number of events.
    #[arg(long, default_value_t = 1_000_000)]
    events: u64,
    /// Seed of the events; the same seed and size give the same events.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File to write.
    #[arg(long)]
    out: PathBuf,
    /// File to write queries for load generators to, one a line: `{"shape", "filter"}`.
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
    let created = File::create(file).with_context(|| format!("failed to create {}", file.display()))?;
    Ok(BufWriter::with_capacity(1 << 20, created))
}
