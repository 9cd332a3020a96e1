//! Sparrow's benchmark: one wallet of 3000 used addresses over one connection, one request in flight.
//!
//! Test 1 subscribes all addresses in batches of 50. Test 2 refreshes them: every history, then every distinct header
//! and every distinct transaction, in batches of 50. Answers are checked when the clock has stopped, except histories,
//! which name the next requests.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use birdhouse_testkit::Bitcoind;
use birdhouse_testkit::peers::Peer;
use serde::Deserialize;

use crate::machine::node;
use crate::machine::process::drop_file_cache;
use crate::machine::server::{Server, Setup, addresses, measured, start_all};
use crate::machine::server_at::{Effort, ServerAt, Turns, by_turns, indexes_by_turns};
use crate::machine::wire::{Wire, batch, quoted, results};
use crate::report::durations::Durations;
use crate::report::record::{Cell, Layout, Plot, Record, Table, Unit};
use crate::wallets::samples::Samples;

const ADDRESSES: usize = 3000;
const BATCH: usize = 50;
/// Cold starts of each server, by turns, because disks have caches too.
const COLD_STARTS: usize = 3;
/// Number of rounds after the first one.
const WARM_ROUNDS: usize = 3;

/// Times of one round.
#[derive(Debug, Clone, Copy)]
struct Round {
    subscribe: Duration,
    refresh: Duration,
    answered_bytes: u64,
}

/// Rounds of one server.
#[derive(Debug, Default)]
struct Figures {
    first: Rounds,
    warm: Rounds,
}

/// Times of several rounds.
#[derive(Debug, Default)]
struct Rounds {
    subscribe: Durations,
    refresh: Durations,
    answered_bytes: Option<u64>,
}

/// State of the server's caches at the beginning of a first round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Empty: the server had just been started, and the machine's file cache was dropped.
    Cold,
    /// Unknown.
    Unknown,
}

#[derive(Deserialize)]
struct Entry<'a> {
    tx_hash: &'a str,
    height: u64,
}

pub(crate) fn run(setup: &Setup, samples: &Samples) -> Result<Record> {
    let scripthashes = wallet_of(&samples.simple);
    ensure!(scripthashes.len() == ADDRESSES, "the samples have only {} scripts", scripthashes.len());
    let mut record = Record::begin("Sparrow's two tests", &setup.work);
    record.servers = measured(setup)?;
    let node = node::start(setup)?;
    let cold = match drop_file_cache() {
        Ok(()) => Some(cold(setup, &node, &scripthashes)),
        Err(error) => {
            record.note(format!("There are no cold rounds: {error:#}."));
            None
        }
    };
    let peers = start_all(setup, &node);
    let servers = addresses(setup, &peers);
    let all = rounds(&servers, &scripthashes);
    record.tables.push(match cold {
        Some(cold) => table(Start::Cold, scripthashes.len(), &servers, &with_cold(all, cold)),
        None => table(Start::Unknown, scripthashes.len(), &servers, &all),
    });
    Ok(record)
}

/// Adds the table of servers that run already.
pub(crate) fn measure(record: &mut Record, servers: &[ServerAt], scripthashes: &[String]) {
    let scripthashes = wallet_of(scripthashes);
    record.tables.push(table(Start::Unknown, scripthashes.len(), servers, &rounds(servers, &scripthashes)));
}

/// Returns the addresses of the wallet, as JSON.
fn wallet_of(scripthashes: &[String]) -> Vec<String> {
    scripthashes.iter().take(ADDRESSES).map(|text| quoted(text)).collect()
}

/// Measures first rounds of servers that have just been started, by turns.
fn cold(setup: &Setup, node: &Bitcoind, scripthashes: &[String]) -> Vec<Turns<Rounds>> {
    indexes_by_turns(setup.servers.len(), COLD_STARTS, |index, start, rounds: &mut Rounds, effort| {
        let server = setup.servers[index];
        eprintln!("wallet: cold, start {start}, {}", server.title());
        let peer = started_cold(setup, node, server);
        let at = ServerAt::started(server.title(), &peer);
        rounds.add(effort.add(&at, || round(at.addr()?, scripthashes))?);
        Ok(())
    })
}

/// Starts a server that has an index and has read nothing of it yet.
fn started_cold(setup: &Setup, node: &Bitcoind, server: Server) -> Result<Peer> {
    // The first start may build the index.
    drop(server.start(setup, node)?);
    drop_file_cache()?;
    let peer = server.start(setup, node)?;
    drop_file_cache()?;
    Ok(peer)
}

/// Measures a first round and warm ones.
fn rounds(servers: &[ServerAt], scripthashes: &[String]) -> Vec<Turns<Figures>> {
    by_turns(servers, 1 + WARM_ROUNDS, |server, pass, figures: &mut Figures| {
        eprintln!("wallet: pass {pass}, {}", server.name);
        let rounds = if pass == 0 { &mut figures.first } else { &mut figures.warm };
        rounds.add(round(server.addr()?, scripthashes)?);
        Ok(())
    })
}

/// Replaces the first round by the cold ones.
fn with_cold(all: Vec<Turns<Figures>>, cold: Vec<Turns<Rounds>>) -> Vec<Turns<Figures>> {
    let both = all.into_iter().zip(cold).map(|(Turns { figures, mut effort }, cold)| {
        effort += cold.effort;
        let figures = cold.figures.and_then(|first| Ok(Figures { first, ..figures? }));
        Turns { figures, effort }
    });
    both.collect()
}

fn table(start: Start, addresses: usize, servers: &[ServerAt], all: &[Turns<Figures>]) -> Table {
    let (first, meaning_of_first) = match start {
        Start::Cold => ("cold", format!("Cold: {COLD_STARTS} starts with an empty file cache")),
        Start::Unknown => ("first", "First: the state of the caches is unknown".to_owned()),
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
        "{addresses} used addresses over one connection, batches of {BATCH}, one in flight. Test 1 subscribes; test 2 \
         gets every history, every distinct header and transaction. {meaning_of_first}; warm: {WARM_ROUNDS} rounds \
         after, by turns."
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

/// Returns the distinct heights and txids of histories, as JSON.
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

/// Checks that every request has an answer of the right form.
fn prove(lines: &[Vec<u8>], count: usize, looks_right: impl Fn(&str) -> bool) -> Result<()> {
    let mut seen = 0;
    for line in lines {
        for result in results(line)? {
            ensure!(looks_right(result), "unexpected result: {result:.200}");
            seen += 1;
        }
    }
    ensure!(seen == count, "{seen} answers to {count} requests");
    Ok(())
}
