//! Sparrow's benchmark: one wallet of 3000 used addresses over one connection, one request in flight.
//!
//! Test 1 subscribes all of them in batches of 50; test 2 refreshes: every history, then every distinct header and
//! every distinct transaction, in batches of 50.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};
use birdhouse_testkit::client::Client;
use birdhouse_testkit::peers::{Birdhouse, Electrs, Home, Peer};
use birdhouse_testkit::{Bitcoind, Options};
use serde_json::{Value, json};

use crate::Common;
use crate::process::{drop_file_cache, used};

const ADDRESSES: usize = 3000;
const BATCH: usize = 50;
/// Rounds after the cold one; the best of them counts as warm.
const WARM_ROUNDS: usize = 3;

/// Seconds of one round.
#[derive(Debug, Clone, Copy)]
struct Round {
    subscribe_s: f64,
    refresh_s: f64,
}

pub(crate) fn run(common: &Common, samples: &Path) -> Result<()> {
    let samples: Value = serde_json::from_slice(&fs::read(samples)?)?;
    let scripthashes: Vec<Value> =
        samples["simple"].as_array().context("simple samples")?.iter().take(ADDRESSES).cloned().collect();
    ensure!(scripthashes.len() == ADDRESSES, "the samples hold only {} scripts", scripthashes.len());

    let node = Bitcoind::start(Options::default().in_datadir(&common.chain)).context("start the chain's node")?;
    let mut results = Vec::new();
    for profile in ["full", "lean"] {
        let home = Home::Folder(common.work.join(format!("birdhouse-{profile}")));
        let args = ["--profile", profile, "--log", "warn"];
        let start = || Ok(Birdhouse::start_in(&node, home.clone(), &common.birdhouse, &args)?);
        results.push((format!("birdhouse {profile}"), measure(start, &scripthashes)?));
    }
    if !common.alone {
        let home = Home::Folder(common.work.join("electrs"));
        let start = || Ok(Electrs::start_in(&node, home.clone())?);
        results.push(("electrs 0.12.0".into(), measure(start, &scripthashes)?));
    }
    print(&results);
    Ok(())
}

/// A cold round, right after the server started without a file cache, and the best of some warm ones; CPU seconds of
/// the server for all.
fn measure(start: impl Fn() -> Result<Peer>, scripthashes: &[Value]) -> Result<(Round, Round, f64)> {
    // The first start may build the index.
    drop(start()?);
    drop_file_cache()?;
    let peer = start()?;
    drop_file_cache()?;
    let cpu_before = used(peer.pid())?.cpu_s;
    let cold = round(&peer, scripthashes)?;
    let mut warm = round(&peer, scripthashes)?;
    for _ in 1..WARM_ROUNDS {
        let next = round(&peer, scripthashes)?;
        warm.subscribe_s = warm.subscribe_s.min(next.subscribe_s);
        warm.refresh_s = warm.refresh_s.min(next.refresh_s);
    }
    Ok((cold, warm, used(peer.pid())?.cpu_s - cpu_before))
}

fn round(peer: &Peer, scripthashes: &[Value]) -> Result<Round> {
    let mut client = peer.client()?;
    let started = Instant::now();
    let statuses = batches(&mut client, "blockchain.scripthash.subscribe", scripthashes)?;
    let subscribe_s = started.elapsed().as_secs_f64();
    ensure!(statuses.iter().all(Value::is_string), "every sampled script has a history");

    let started = Instant::now();
    let histories = batches(&mut client, "blockchain.scripthash.get_history", scripthashes)?;
    let (mut heights, mut txids) = (BTreeSet::new(), BTreeSet::new());
    for entry in histories.iter().filter_map(Value::as_array).flatten() {
        heights.insert(entry["height"].as_u64().context("height")?);
        txids.insert(entry["tx_hash"].as_str().context("tx_hash")?.to_owned());
    }
    let heights: Vec<Value> = heights.into_iter().map(Value::from).collect();
    let txids: Vec<Value> = txids.into_iter().map(Value::from).collect();
    batches(&mut client, "blockchain.block.header", &heights)?;
    batches(&mut client, "blockchain.transaction.get", &txids)?;
    Ok(Round { subscribe_s, refresh_s: started.elapsed().as_secs_f64() })
}

fn batches(client: &mut Client, method: &str, arguments: &[Value]) -> Result<Vec<Value>> {
    let mut answers = Vec::with_capacity(arguments.len());
    for some in arguments.chunks(BATCH) {
        let calls: Vec<(&str, Value)> = some.iter().map(|argument| (method, json!([argument]))).collect();
        for answer in client.batch(&calls)? {
            answers.push(answer.map_err(|error| anyhow!("{method} refused: {error}"))?);
        }
    }
    Ok(answers)
}

fn print(results: &[(String, (Round, Round, f64))]) {
    println!("| | test 1 cold s | warm | test 2 cold s | warm | server CPU s, all rounds |\n|---|---|---|---|---|---|");
    for (name, (cold, warm, cpu_s)) in results {
        println!(
            "| {name} | {:.3} | {:.3} | {:.3} | {:.3} | {cpu_s:.2} |",
            cold.subscribe_s, warm.subscribe_s, cold.refresh_s, warm.refresh_s
        );
    }
}
