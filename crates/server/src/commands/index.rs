//! `birdhouse index`: builds the index, follows the node to its tip once, and exits.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result};
use birdhouse_chain::Height;
use serde::Serialize;

use super::Form;
use crate::config::Options;
use crate::index::Setup;
use crate::process::users::OtherUser;
use crate::process::{Shutdown, usage};

/// The figures that `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    blocks: u64,
    txs: u64,
    /// `None` for an index that was built before: to count them would read all of it.
    scripts: Option<u64>,
    seconds: f64,
    cpu_seconds: f64,
    peak_rss_bytes: u64,
    index_bytes: u64,
    profile: String,
    /// Bytes on disk by table and array.
    tables: std::collections::BTreeMap<String, u64>,
}

pub(crate) fn run(options: &Options, form: Form) -> Result<ExitCode> {
    let started = Instant::now();
    OtherUser::refuse(&options.data_dir()?)?;
    let setup = Setup::open(options)?;
    let shutdown = Shutdown::default();
    shutdown.watch(&setup.index)?;
    let report = setup.build(&shutdown)?;
    setup.catch_up(&shutdown)?;
    if shutdown.is_requested() {
        return Ok(ExitCode::from(130));
    }

    let snapshot = setup.index.snapshot()?;
    let tip = snapshot.tip();
    let usage = usage::now()?;
    let tables: std::collections::BTreeMap<String, u64> = setup.store.sizes()?.into_iter().collect();
    let report = Report {
        blocks: u64::from(tip.height.0) + 1,
        txs: snapshot.transaction_count(),
        scripts: report.map(|report| report.scripts),
        seconds: started.elapsed().as_secs_f64(),
        cpu_seconds: usage.cpu.as_secs_f64(),
        peak_rss_bytes: usage.peak_rss_bytes,
        index_bytes: tables.values().sum(),
        profile: setup.profile.to_string(),
        tables,
    };
    if form == Form::Json {
        println!("{}", serde_json::to_string(&report).context("failed to format the figures as JSON")?);
    } else {
        let Report { blocks, txs, seconds, .. } = report;
        let (height, mb) = (tip.height, report.index_bytes / 1_000_000);
        match report.scripts {
            Some(scripts) => println!(
                "indexed {blocks} blocks (to height {height}), {txs} transactions, {scripts} scripts in {seconds:.1} s: \
                 {mb} MB on disk"
            ),
            None => println!(
                "the index was built before; caught up to height {height} in {seconds:.1} s: {blocks} blocks, {txs} \
                 transactions, {mb} MB on disk"
            ),
        }
    }
    debug_assert_eq!(snapshot.header(Height(tip.height.0 + 1)), None);
    Ok(ExitCode::SUCCESS)
}
