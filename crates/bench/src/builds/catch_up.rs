//! Catching up: the chain grows by many blocks while a server is off.

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::Bitcoind;
use bitcoin::BlockHash;
use serde_json::json;

use crate::machine::args::at_least_one;
use crate::machine::folder;
use crate::machine::node;
use crate::machine::server::{Server, Setup, measured};
use crate::report::record::{Cell, Layout, Plot, Record, Table, Unit};

#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Plan {
    /// Number of blocks, the last of the chain.
    #[arg(long, default_value_t = 1000, value_parser = at_least_one::<u32>())]
    blocks: u32,
}

pub(crate) fn run(setup: &Setup, plan: &Plan) -> Result<Record> {
    let mut record = Record::begin("Catching up", &setup.work);
    record.servers = measured(setup)?;
    let node = node::start(setup)?;
    let (height, tip) = (node.height()?, node.tip()?);
    ensure!(plan.blocks < height, "the chain has only {height} blocks");
    let first = node.block_hash(height - plan.blocks + 1)?;
    eprintln!("catch-up: the node takes {} blocks back ..", plan.blocks);
    node.invalidate(first)?;
    let built: Vec<Result<()>> = setup.servers.iter().map(|server| build(setup, &node, *server)).collect();
    eprintln!("catch-up: the node connects them again ..");
    node.reconsider(first)?;
    ensure!(node.tip()? == tip, "the node does not come back to block {tip}");
    let blocks = f64::from(plan.blocks);
    let columns = [
        ("wall time a block", Unit::Seconds),
        ("CPU time a block", Unit::Seconds),
        ("wall time", Unit::Seconds),
        ("most memory", Unit::Bytes),
    ];
    let meaning = format!(
        "From the start of a server that was off until it serves the tip, {} blocks later: {} transactions.",
        plan.blocks,
        transactions(&node, height - plan.blocks)?
    );
    let mut table = Table::new("Catching up", meaning, Layout::ServersInRows, columns).drawn(Plot::Bars);
    for (server, built) in setup.servers.iter().zip(built) {
        eprintln!("catch-up: {}", server.title());
        let started = built.and_then(|()| server.start_measured(setup, &node));
        table.push_result(server.title(), &started, |(_, wall_s, usage)| {
            let seconds = [wall_s / blocks, usage.cpu.as_secs_f64() / blocks, *wall_s].map(Cell::number);
            seconds.into_iter().chain([Cell::count(usage.resident_bytes_max)])
        });
    }
    record.tables.push(table);
    Ok(record)
}

/// Builds the index of the shorter chain.
fn build(setup: &Setup, node: &Bitcoind, server: Server) -> Result<()> {
    eprintln!("catch-up: {} indexes the chain before", server.title());
    folder::remove(&setup.work.join(server.folder()))?;
    server.start(setup, node).map(drop)
}

/// The number of transactions after a height.
fn transactions(node: &Bitcoind, height: u32) -> Result<u64> {
    let count = |hash: BlockHash| {
        let stats = node.rpc("getchaintxstats", json!([1, hash.to_string()]))?;
        stats["txcount"].as_u64().context("the node does not count transactions")
    };
    Ok(count(node.tip()?)? - count(node.block_hash(height)?)?)
}
