//! `birdhouse verify`: rebuilds rows and records of derived indexes from the blocks, and compares the stored ones.

use std::ops::Range;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use birdhouse_chain::{Height, Snapshot};

use crate::config::Options;
use crate::index::{Setup, derived};
use crate::process::users::OtherUser;

/// Blocks to verify without `--from`, `--to` and `--all`.
const LAST_BLOCKS: u32 = 1000;

/// The blocks to verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocks {
    All,
    /// From one height to another one, or to the tip. The last [`LAST_BLOCKS`] from 0 to the tip.
    Between {
        from: u32,
        to: Option<u32>,
    },
}

pub(crate) fn run(options: &Options, blocks: Blocks) -> Result<ExitCode> {
    OtherUser::refuse(&options.data_dir()?)?;
    let setup = Setup::open(options)?;
    let snapshot =
        setup.index.snapshot().context("failed to open the index: it is not built yet; run `birdhouse index` first")?;
    let end = snapshot.tip().height.0 + 1;
    let heights = match blocks {
        Blocks::All => 0..end,
        Blocks::Between { from: 0, to: None } => end.saturating_sub(LAST_BLOCKS)..end,
        Blocks::Between { from, to } => from..to.map_or(end, |to| to.saturating_add(1).min(end)),
    };
    if heights.is_empty() {
        bail!("no blocks from height {} on: the tip is {}", heights.start, end - 1);
    }
    let report = snapshot.verify(Height(heights.start)..Height(heights.end), &setup.build_options)?;
    println!(
        "verified blocks {} to {}: {} blocks, {} transactions, {} scripts, {} differences",
        heights.start,
        heights.end - 1,
        report.blocks,
        report.txs,
        report.scripts,
        report.differences
    );
    for described in &report.described {
        println!("  {described}");
    }
    let mut is_whole = report.differences == 0;
    if !is_whole {
        println!("The index is damaged; remove {} and run `birdhouse index`.", setup.index_dir.display());
    }
    for derived in &setup.derived {
        is_whole &= verify_derived(derived, &snapshot, Height(heights.start)..Height(heights.end))?;
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns true if the records of these blocks are right, as far as they are computed.
fn verify_derived(derived: &derived::Opened, at: &Snapshot, heights: Range<Height>) -> Result<bool> {
    let end = derived.index.len(at);
    let report = derived.index.verify(at, heights)?;
    println!(
        "verified {}, computed below height {end}: {} blocks, {} differences",
        derived.name, report.blocks, report.differences
    );
    for described in &report.described {
        println!("  {described}");
    }
    if report.differences > 0 {
        println!("It is damaged; remove {}, and it is made again.", derived.folder.display());
    }
    Ok(report.differences == 0)
}
