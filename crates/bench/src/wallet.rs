//! Sparrow's benchmark: one wallet of 3000 used addresses over one connection, one request in flight.
//!
//! Test 1 subscribes all of them in batches of 50; test 2 refreshes: every history, then every distinct header and
//! every distinct transaction, in batches of 50. Answers are proved when the clock has stopped, but for the histories,
//! which say what to ask for next.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use birdhouse_testkit::Bitcoind;
use birdhouse_testkit::peers::Peer;
use serde::Deserialize;

use crate::Common;
use crate::durations::Durations;
use crate::node;
use crate::process::drop_file_cache;
use crate::record::{Cell, Layout, Plot, Record, Table, Unit};
use crate::samples::Samples;
use crate::server::{Server, addresses, measured, start_all};
use crate::server_at::{Effort, ServerAt, Turns, by_turns, places_by_turns};
use crate::wire::{Wire, batch, quoted, results};

const ADDRESSES: usize = 3000;
const BATCH: usize = 50;
/// Cold starts of each server, by turns: disks, too, remember what they were asked for before.
const COLD_STARTS: usize = 3;
/// Rounds after the first one.
const WARM_ROUNDS: usize = 3;

/// One round.
#[derive(Debug, Clone, Copy)]
struct Round {
    subscribe: Duration,
    refresh: Duration,
    answered_bytes: u64,
}

/// What one server gave.
#[derive(Debug, Default)]
struct Figures {
    first: Rounds,
    warm: Rounds,
}

/// Several rounds.
#[derive(Debug, Default)]
struct Rounds {
    subscribe: Durations,
    refresh: Durations,
    answered_bytes: Option<u64>,
}

/// What the server's caches held when a first round began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Nothing: the server had just been started, and the machine had no file cache.
    Cold,
    /// Nobody knows.
    Unknown,
}

#[derive(Deserialize)]
struct Entry<'a> {
    tx_hash: &'a str,
    height: u64,
}

pub(crate) fn run(common: &Common, samples: &Samples) -> Result<Record> {
    let scripthashes = wallet_of(&samples.simple);
    ensure!(scripthashes.len() == ADDRESSES, "the samples hold only {} scripts", scripthashes.len());
    let mut record = Record::begin("Sparrow's two tests", &common.work);
    record.servers = measured(common)?;
    let node = node::start(common)?;
    let cold = match drop_file_cache() {
        Ok(()) => Some(cold(common, &node, &scripthashes)),
        Err(error) => {
            record.note(format!("Nothing is cold: {error:#}."));
            None
        }
    };
    let peers = start_all(common, &node);
    let servers = addresses(common, &peers);
    let all = rounds(&servers, &scripthashes);
    record.tables.push(match cold {
        Some(cold) => table(Start::Cold, scripthashes.len(), &servers, &with_cold(all, cold)),
        None => table(Start::Unknown, scripthashes.len(), &servers, &all),
    });
    Ok(record)
}

/// Adds the table of servers that somebody else started.
pub(crate) fn measure(record: &mut Record, servers: &[ServerAt], scripthashes: &[String]) {
    let scripthashes = wallet_of(scripthashes);
    record.tables.push(table(Start::Unknown, scripthashes.len(), servers, &rounds(servers, &scripthashes)));
}

/// The addresses of the wallet, as JSON.
fn wallet_of(scripthashes: &[String]) -> Vec<String> {
    scripthashes.iter().take(ADDRESSES).map(|text| quoted(text)).collect()
}

/// First rounds of servers that have just been started, by turns.
fn cold(common: &Common, node: &Bitcoind, scripthashes: &[String]) -> Vec<Turns<Rounds>> {
    places_by_turns(common.servers.len(), COLD_STARTS, |place, start, rounds: &mut Rounds, effort| {
        let server = common.servers[place];
        eprintln!("wallet: cold, start {start}, {}", server.title());
        let peer = started_cold(common, node, server);
        let at = ServerAt::started(server.title(), &peer);
        rounds.add(effort.add(&at, || round(at.addr()?, scripthashes))?);
        Ok(())
    })
}

/// A server that has an index, and has read nothing of it yet.
fn started_cold(common: &Common, node: &Bitcoind, server: Server) -> Result<Peer> {
    // The first start may build the index.
    drop(server.start(common, node)?);
    drop_file_cache()?;
    let peer = server.start(common, node)?;
    drop_file_cache()?;
    Ok(peer)
}

/// A first round, and warm ones.
fn rounds(servers: &[ServerAt], scripthashes: &[String]) -> Vec<Turns<Figures>> {
    by_turns(servers, 1 + WARM_ROUNDS, |server, pass, figures: &mut Figures| {
        eprintln!("wallet: pass {pass}, {}", server.name);
        let rounds = if pass == 0 { &mut figures.first } else { &mut figures.warm };
        rounds.add(round(server.addr()?, scripthashes)?);
        Ok(())
    })
}

/// With first rounds that were cold in place of the one that was not.
fn with_cold(all: Vec<Turns<Figures>>, cold: Vec<Turns<Rounds>>) -> Vec<Turns<Figures>> {
    let both = all.into_iter().zip(cold).map(|(Turns { figures, mut effort }, cold)| {
        effort += cold.effort;
        let figures = cold.figures.and_then(|first| Ok(Figures { first, ..figures? }));
        Turns { figures, effort }
    });
    both.collect()
}

fn table(start: Start, addresses: usize, servers: &[ServerAt], all: &[Turns<Figures>]) -> Table {
    let (first, told) = match start {
        Start::Cold => ("cold", format!("Cold: {COLD_STARTS} times just started, and no file cache")),
        Start::Unknown => ("first", "First: what the caches held is not known".to_owned()),
    };
    let columns = [
        (format!("test 1, {first}"), Unit::Seconds),
        ("test 1, warm".to_owned(), Unit::Seconds),
        (format!("test 2, {first}"), Unit::Seconds),
        ("test 2, warm".to_owned(), Unit::Seconds),
        ("server CPU, all rounds".to_owned(), Unit::Seconds),
        ("load generator".to_owned(), Unit::Cpus),
        ("answered in a round".to_owned(), Unit::Bytes),
    ];
    let meaning = format!(
        "{addresses} used addresses over one connection, batches of {BATCH}, one in flight. Test 1 subscribes; test 2 gets \
         every history, every distinct header and transaction. {told}; warm: {WARM_ROUNDS} rounds after, by turns."
    );
    let title = format!("A wallet of {addresses} addresses");
    let mut table = Table::new(title, meaning, Layout::ServersInRows, columns).drawn(Plot::Bars);
    for (server, Turns { figures, effort }) in servers.iter().zip(all) {
        table.push_result(&server.name, figures, |figures| figures.cells(effort));
    }
    table
}

impl Figures {
    fn cells(&self, effort: &Effort) -> [Cell; 7] {
        [
            self.first.subscribe.with_range(),
            self.warm.subscribe.with_range(),
            self.first.refresh.with_range(),
            self.warm.refresh.with_range(),
            effort.server_cpu(),
            effort.client_cpus(),
            self.first.answered_bytes.map_or(Cell::Nothing, Cell::count),
        ]
    }
}

impl Rounds {
    fn add(&mut self, round: Round) {
        self.subscribe.add(round.subscribe);
        self.refresh.add(round.refresh);
        self.answered_bytes = Some(round.answered_bytes);
    }
}

fn round(addr: &str, scripthashes: &[String]) -> Result<Round> {
    let mut wire = Wire::connect(addr)?;
    let started = Instant::now();
    let statuses = batches(&mut wire, "blockchain.scripthash.subscribe", scripthashes)?;
    let subscribe = started.elapsed();
    prove(&statuses, scripthashes.len(), |status| status.len() == 66)?;

    let started = Instant::now();
    let histories = batches(&mut wire, "blockchain.scripthash.get_history", scripthashes)?;
    let (heights, txids) = mentioned(&histories)?;
    let headers = batches(&mut wire, "blockchain.block.header", &heights)?;
    let transactions = batches(&mut wire, "blockchain.transaction.get", &txids)?;
    let refresh = started.elapsed();
    prove(&headers, heights.len(), |header| header.len() == 162)?;
    prove(&transactions, txids.len(), |raw| raw.len() > 2 * 60)?;
    Ok(Round { subscribe, refresh, answered_bytes: wire.received() })
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
