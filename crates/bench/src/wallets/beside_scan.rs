//! Histories of a wallet beside scans for silent payments, and scans as Frigate's benchmark asks for them.
//!
//! Wallet and scans are connections of their own to the operator's listener, where no client has less than another. The
//! wallet stands for another machine (`birdhouse_testkit::priority`): it waits for the server alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use birdhouse_testkit::client::Client;
use birdhouse_testkit::peers::Peer;
use birdhouse_testkit::priority;
use birdhouse_testkit::usage::Usage;
use serde_json::{Value, json};

use crate::machine::process::cpu_time;
use crate::machine::server_at::turns;
use crate::report::durations::{Durations, seconds, times};
use crate::report::record::{Cell, Layout, Table, Unit};

/// Time of a turn.
const TURN: Duration = Duration::from_secs(5);
/// Pause of the wallet between two requests.
const PAUSE: Duration = Duration::from_millis(5);
/// Keys that are scanned for at once. The server waits a quarter of a second before it begins with a history, and scans
/// the others meanwhile.
const KEYS: u64 = 8;
const POLL: Duration = Duration::from_millis(100);
/// The time that a scan may take.
const PATIENCE: Duration = Duration::from_mins(5);
const SUBSCRIBE: &str = "blockchain.silentpayments.subscribe";
const UNSUBSCRIBE: &str = "blockchain.silentpayments.unsubscribe";
/// The public spend key: the generator.
const SPEND: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";

/// The last blocks of the chain, and the rows that they have.
pub(crate) struct Part {
    pub(crate) blocks: u32,
    /// Height of the first of them.
    pub(crate) start: u32,
    pub(crate) rows: u64,
}

/// Figures with or without scans.
#[derive(Default)]
struct Side {
    latencies: Durations,
    time: Duration,
    cpu: Duration,
    scans: u64,
}

/// Measures the histories of some scripts by turns with and without scans of all rows.
///
/// # Errors
/// The server refuses a request.
pub(crate) fn histories(server: &Peer, scripthashes: &[String], all: &Part, passes: usize) -> Result<Table> {
    let mut sides = [Side::default(), Side::default()];
    ask_each(&mut Client::greet(server.port())?, scripthashes)?;
    for (pass, index) in turns(sides.len(), passes) {
        let keys = if index == 0 { None } else { Some(1 + (pass as u64) * 1_000_000) };
        sides[index].measure(server, scripthashes, keys)?;
    }
    let meaning = format!(
        "One client with one request at a time and {} ms between asks for the histories of {} scripts, by turns of {} s \
         with and without {KEYS} scans at a time of {} transactions each. The client runs as soon as it is ready, where \
         this user may let it.",
        PAUSE.as_millis(),
        scripthashes.len(),
        TURN.as_secs(),
        all.rows
    );
    let columns = [
        ("answers", Unit::Count),
        ("latency", Unit::Seconds),
        ("p99, times that without scans", Unit::Times),
        ("server", Unit::Cpus),
        ("scanned", Unit::PerSecond),
    ];
    let mut table = Table::new("A wallet's histories beside scans", meaning, Layout::OneServer, columns);
    let [alone, beside] = &sides;
    ensure!(beside.scans > 0, "no scan ended");
    for (title, side) in [("without scans", alone), ("beside scans", beside)] {
        let p99 = side.latencies.percentile(99).zip(alone.latencies.percentile(99));
        let cells = [
            Cell::count(side.latencies.len() as u64),
            side.latencies.with_p99(),
            p99.map_or(Cell::Nothing, |(this, other)| times(this, other)),
            times(side.cpu, side.time),
            Cell::number(float(side.scans * all.rows) / side.time.as_secs_f64()),
        ];
        table.push(title, cells);
    }
    Ok(table)
}

/// Measures scans of some last blocks by the requests of Frigate's benchmark: `server.version` and a subscription by
/// names, in one write; a scan ends with the first progress of 1.0.
///
/// # Errors
/// The server refuses a request, or finds a payment to a stranger.
pub(crate) fn scans(server: &Peer, parts: &[Part], passes: usize) -> Result<Table> {
    let mut figures = vec![(Durations::default(), Durations::default()); parts.len()];
    for (pass, index) in turns(parts.len(), passes) {
        let before = cpu_time(server.pid())?;
        let time = scan_once(server.port(), &key(u64::MAX / 2 + (pass * parts.len() + index) as u64), &parts[index])?;
        figures[index].0.add(time);
        figures[index].1.add(cpu_time(server.pid())?.saturating_sub(before));
    }
    let meaning = "The requests of Frigate's benchmark, a key of its own for each scan. Until the last notification; the \
                   server waits 250 ms before it begins, because Sparrow loses what comes earlier.";
    let columns = [
        ("transactions", Unit::Count),
        ("time to the end", Unit::Seconds),
        ("server CPU", Unit::Seconds),
        ("of a second's CPU time", Unit::PerSecond),
    ];
    let mut table = Table::new("Scans as Frigate's benchmark asks for them", meaning, Layout::OneServer, columns);
    for (part, (times, cpu)) in parts.iter().zip(&figures) {
        let rate = cpu.median().filter(|cpu| !cpu.is_zero()).map(|cpu| float(part.rows) / cpu.as_secs_f64());
        let cells = [
            Cell::count(part.rows),
            times.with_range(),
            seconds(cpu.median()),
            rate.map_or(Cell::Nothing, Cell::number),
        ];
        table.push(format!("the last {} blocks", part.blocks), cells);
    }
    Ok(table)
}

impl Side {
    /// Measures one turn; beside scans for keys from this number on, if there is one.
    fn measure(&mut self, server: &Peer, scripthashes: &[String], keys: Option<u64>) -> Result<()> {
        let (stop, port) = (&AtomicBool::new(false), server.port());
        let (before, began) = (Usage::of(server.pid())?.cpu, Instant::now());
        let (latencies, scans) = thread::scope(|scope| {
            let wallet = scope.spawn(move || ask(port, scripthashes, stop));
            let scans = keys.map(|first| scope.spawn(move || keep_scanning(port, first, stop)));
            thread::sleep(TURN);
            stop.store(true, Ordering::Relaxed);
            let scans = scans.map(|scans| scans.join().map_err(|_| anyhow!("the scans panicked"))).transpose()?;
            let wallet = wallet.join().map_err(|_| anyhow!("the wallet panicked"))?;
            anyhow::Ok((wallet?, scans.transpose()?.unwrap_or_default()))
        })?;
        self.latencies.add_all(&latencies);
        self.time += began.elapsed();
        self.cpu += Usage::of(server.pid())?.cpu.saturating_sub(before);
        self.scans += scans;
        Ok(())
    }
}

/// Asks for one history after the other until `stop`; returns the latencies.
fn ask(port: u16, scripthashes: &[String], stop: &AtomicBool) -> Result<Vec<Duration>> {
    priority::run_at_once();
    let (mut client, mut latencies) = (Client::greet(port)?, Vec::new());
    for scripthash in scripthashes.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let began = Instant::now();
        client.call("blockchain.scripthash.get_history", json!([scripthash]))?;
        latencies.push(began.elapsed());
        thread::sleep(PAUSE);
    }
    Ok(latencies)
}

fn ask_each(client: &mut Client, scripthashes: &[String]) -> Result<()> {
    scripthashes.iter().try_for_each(|scripthash| {
        client.call("blockchain.scripthash.get_history", json!([scripthash]))?;
        Ok(())
    })
}

/// Keeps [`KEYS`] histories from the first block on under way until `stop`; returns the number of those that ended.
fn keep_scanning(port: u16, first: u64, stop: &AtomicBool) -> Result<u64> {
    let (mut client, mut keys) = (Client::greet(port)?, HashMap::new());
    let subscribe = |client: &mut Client, keys: &mut HashMap<String, String>, number: u64| {
        let key = key(first + number);
        let answer = client.call(SUBSCRIBE, json!([key, SPEND, 0, []]))?;
        keys.insert(answer["address"].as_str().context("the address is text")?.to_owned(), key);
        anyhow::Ok(())
    };
    for number in 0..KEYS {
        subscribe(&mut client, &mut keys, number)?;
    }
    let mut ended = 0;
    while !stop.load(Ordering::Relaxed) {
        let Some(notification) = client.notification(POLL)? else { continue };
        let address = notification.params["subscription"]["address"].as_str().unwrap_or_default();
        if notification.params["progress"] == json!(1.0)
            && let Some(key) = keys.remove(address)
        {
            client.call(UNSUBSCRIBE, json!([key, SPEND]))?;
            subscribe(&mut client, &mut keys, KEYS + ended)?;
            ended += 1;
        }
    }
    Ok(ended)
}

/// Returns the time of one scan on a connection of its own.
fn scan_once(port: u16, key: &str, part: &Part) -> Result<Duration> {
    let mut client = Client::connect(port)?;
    let request =
        |id: u8, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let named = json!({ "scan_private_key": key, "spend_public_key": SPEND, "start": part.start });
    let lines = [request(0, "server.version", json!(["benchmark", "1.4"])), request(1, SUBSCRIBE, named)];
    let began = Instant::now();
    client.send_line(lines.map(|line| line.to_string()).join("\n").as_bytes())?;
    client.answer()?;
    let subscription = client.answer()?["result"].take();
    loop {
        let notification = client.notification(PATIENCE)?.context("the scan does not end")?;
        ensure!(notification.params["subscription"] == subscription, "another subscription: {subscription}");
        ensure!(notification.params["history"] == json!([]), "a stranger was paid");
        if notification.params["progress"] == json!(1.0) {
            return Ok(began.elapsed());
        }
    }
}

/// Returns a scan key in hexadecimal.
fn key(number: u64) -> String {
    format!("{number:064x}")
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn float(number: u64) -> f64 {
    number as f64
}
