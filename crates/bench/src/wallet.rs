//! Sparrow's benchmark: one wallet of 3000 used addresses over one connection, one request in flight.
//!
//! Test 1 subscribes all of them in batches of 50; test 2 refreshes: every history, then every distinct header and
//! every distinct transaction, in batches of 50. Answers are proved when the clock has stopped, but for the histories,
//! which say what to ask for next.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Result, ensure};
use birdhouse_testkit::Bitcoind;
use serde::Deserialize;

use crate::Common;
use crate::node;
use crate::process::{drop_file_cache, used};
use crate::record::{Cell, Column, Layout, Plot, Record, Table, Unit};
use crate::samples::Samples;
use crate::server::{Server, measured};
use crate::wire::{Wire, batch, quoted, results};

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

/// What one server gave; CPU seconds of the server for all rounds.
struct Figures {
    cold: Round,
    warm: Round,
    cpu_s: f64,
}

#[derive(Deserialize)]
struct Entry<'a> {
    tx_hash: &'a str,
    height: u64,
}

pub(crate) fn run(common: &Common, samples: &Samples) -> Result<Record> {
    let scripthashes: Vec<String> = samples.simple.iter().take(ADDRESSES).map(|text| quoted(text)).collect();
    ensure!(scripthashes.len() == ADDRESSES, "the samples hold only {} scripts", scripthashes.len());
    let mut record = Record::begin("Sparrow's two tests", &common.work);
    record.servers = measured(common)?;
    let node = node::start(common)?;
    let columns = ["test 1, cold", "test 1, warm", "test 2, cold", "test 2, warm", "server CPU, all rounds"];
    let columns = columns.map(|title| Column::new(title, Unit::Seconds));
    let meaning = format!(
        "{ADDRESSES} used addresses over one connection, batches of {BATCH}, one in flight. Test 1 subscribes; test 2 gets \
         every history, every distinct header and transaction. Cold: without a file cache; warm: the best of {WARM_ROUNDS} rounds after."
    );
    let mut table = Table::new("A wallet of 3000 addresses", meaning, Layout::ServersInRows, columns).drawn(Plot::Bars);
    for server in &common.servers {
        eprintln!("wallet: {}", server.title());
        let figures = measure(common, &node, *server, &scripthashes);
        table.push_result(server.title(), &figures, Figures::cells);
    }
    record.tables.push(table);
    Ok(record)
}

impl Figures {
    fn cells(&self) -> [Cell; 5] {
        let Self { cold, warm, cpu_s } = self;
        [cold.subscribe_s, warm.subscribe_s, cold.refresh_s, warm.refresh_s, *cpu_s].map(Cell::number)
    }
}

/// A cold round, right after the server started without a file cache, and the best of some warm ones.
fn measure(common: &Common, node: &Bitcoind, server: Server, scripthashes: &[String]) -> Result<Figures> {
    // The first start may build the index.
    drop(server.start(common, node)?);
    drop_file_cache()?;
    let peer = server.start(common, node)?;
    drop_file_cache()?;
    let cpu_before = used(peer.pid())?.cpu_s;
    let cold = round(peer.port(), scripthashes)?;
    let mut warm = round(peer.port(), scripthashes)?;
    for _ in 1..WARM_ROUNDS {
        let next = round(peer.port(), scripthashes)?;
        warm.subscribe_s = warm.subscribe_s.min(next.subscribe_s);
        warm.refresh_s = warm.refresh_s.min(next.refresh_s);
    }
    Ok(Figures { cold, warm, cpu_s: used(peer.pid())?.cpu_s - cpu_before })
}

fn round(port: u16, scripthashes: &[String]) -> Result<Round> {
    let mut wire = Wire::connect(port)?;
    let started = Instant::now();
    let statuses = batches(&mut wire, "blockchain.scripthash.subscribe", scripthashes)?;
    let subscribe_s = started.elapsed().as_secs_f64();
    prove(&statuses, scripthashes.len(), |status| status.len() == 66)?;

    let started = Instant::now();
    let histories = batches(&mut wire, "blockchain.scripthash.get_history", scripthashes)?;
    let (heights, txids) = mentioned(&histories)?;
    let headers = batches(&mut wire, "blockchain.block.header", &heights)?;
    let transactions = batches(&mut wire, "blockchain.transaction.get", &txids)?;
    let refresh_s = started.elapsed().as_secs_f64();
    prove(&headers, heights.len(), |header| header.len() == 162)?;
    prove(&transactions, txids.len(), |raw| raw.len() > 2 * 60)?;
    Ok(Round { subscribe_s, refresh_s })
}

fn batches(wire: &mut Wire, method: &str, arguments: &[String]) -> Result<Vec<Vec<u8>>> {
    arguments.chunks(BATCH).map(|some| wire.ask(&batch(method, some))).collect()
}

/// The distinct heights and txids of histories, as JSON.
fn mentioned(histories: &[Vec<u8>]) -> Result<(Vec<String>, Vec<String>)> {
    let (mut heights, mut txids) = (BTreeSet::new(), BTreeSet::new());
    for line in histories {
        for history in results(line)? {
            for entry in serde_json::from_str::<Vec<Entry<'_>>>(history)? {
                heights.insert(entry.height);
                txids.insert(quoted(entry.tx_hash));
            }
        }
    }
    Ok((heights.iter().map(u64::to_string).collect(), txids.into_iter().collect()))
}

/// Every request has an answer that looks like one.
fn prove(lines: &[Vec<u8>], count: usize, looks_right: impl Fn(&str) -> bool) -> Result<()> {
    let mut seen = 0;
    for line in lines {
        for result in results(line)? {
            ensure!(looks_right(result), "not the result that was asked for: {result:.200}");
            seen += 1;
        }
    }
    ensure!(seen == count, "{seen} answers to {count} requests");
    Ok(())
}
