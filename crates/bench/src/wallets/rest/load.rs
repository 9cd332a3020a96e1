//! Small requests over many connections that are kept alive: requests a second, latency, and CPU time for one.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use birdhouse_testkit::http_client::{HttpClient, get};

use super::Plan;
use super::paths::Paths;
use super::subject::Subject;
use crate::machine::server_at::{Effort, ServerAt};
use crate::report::durations::Durations;
use crate::report::record::{Cell, Layout, Plot, Record, Table, Unit};

/// Work of all connections.
#[derive(Debug, Default)]
struct Figures {
    latencies: Durations,
    bytes: u64,
    effort: Effort,
}

/// Adds a table with a row for each kind of request.
pub(super) fn measure(record: &mut Record, birdhouse: &Subject, paths: &Paths, plan: &Plan) {
    let columns = [
        ("requests", Unit::PerSecond),
        ("latency", Unit::Seconds),
        ("server CPU for one", Unit::Seconds),
        ("server", Unit::Cpus),
        ("answered", Unit::BytesPerSecond),
        ("load generator", Unit::Cpus),
    ];
    let Plan { connections, seconds, .. } = plan;
    let meaning = format!("{connections} connections, one request at a time on each, {seconds} s.");
    let mut table = Table::new("Small requests", meaning, Layout::OneServer, columns).drawn(Plot::Bars);
    for (title, paths) in kinds(paths) {
        eprintln!("small requests: {title}");
        let requests: Vec<Vec<u8>> = paths.iter().map(|path| get(path)).collect();
        table.push_result(title, &loaded(birdhouse, &requests, plan), Figures::cells);
    }
    record.tables.push(table);
}

/// Returns the kinds of request with their paths.
fn kinds(paths: &Paths) -> Vec<(&'static str, Vec<String>)> {
    let of = |list: &[String], before: &str, after: &str| -> Vec<String> {
        list.iter().map(|one| format!("{before}{one}{after}")).collect()
    };
    let Paths { wallet, txids, blocks, .. } = paths;
    vec![
        ("height of the tip", vec!["/blocks/tip/height".to_owned()]),
        ("status of a transaction", of(txids, "/tx/", "/status")),
        ("counts and sums of a short script", of(wallet, "", "")),
        ("unspent outputs of a short script", of(wallet, "", "/utxo")),
        ("transactions of a short script", of(wallet, "", "/txs")),
        ("transaction", of(txids, "/tx/", "")),
        ("spenders of a transaction's outputs", of(txids, "/tx/", "/outspends")),
        ("block", of(blocks, "/block/", "")),
        ("25 transactions of a block", of(blocks, "/block/", "/txs")),
        ("newest ten blocks", vec!["/blocks".to_owned()]),
    ]
}

impl Figures {
    fn cells(&self) -> [Cell; 6] {
        let count = count(self.latencies.len());
        [
            Cell::number(count / self.effort.wall_s),
            self.latencies.with_p99(),
            self.effort.server_cpu_by(count),
            self.effort.server_cpus(),
            Cell::number(bytes(self.bytes) / self.effort.wall_s),
            self.effort.client_cpus(),
        ]
    }
}

fn loaded(birdhouse: &Subject, requests: &[Vec<u8>], plan: &Plan) -> Result<Figures> {
    let server = birdhouse.rest.as_ref().context("the server has no REST API")?;
    let connections = (0..plan.connections).map(|_| warmed(server, requests)).collect::<Result<Vec<_>>>()?;
    let mut figures = Figures::default();
    let end = Instant::now() + Duration::from_secs(plan.seconds);
    for (latencies, bytes) in figures.effort.add(server, || all_at_once(connections, requests, end))? {
        for latency in latencies {
            figures.latencies.add(latency);
        }
        figures.bytes += bytes;
    }
    Ok(figures)
}

/// Connects and sends a first request, which checks the answer.
fn warmed(server: &ServerAt, requests: &[Vec<u8>]) -> Result<HttpClient> {
    let mut http = HttpClient::connect(server.addr()?)?;
    http.body(requests.first().context("there is nothing to request")?)?;
    Ok(http)
}

/// Runs all connections; returns latencies and answered bytes of each.
fn all_at_once(connections: Vec<HttpClient>, requests: &[Vec<u8>], end: Instant) -> Result<Vec<(Vec<Duration>, u64)>> {
    let count = connections.len();
    thread::scope(|scope| {
        let threads: Vec<_> = connections
            .into_iter()
            .enumerate()
            // Connections request the same paths, each from an index of its own.
            .map(|(number, http)| scope.spawn(move || run(http, requests, number * requests.len() / count, end)))
            .collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a connection panicked"))?).collect()
    })
}

fn run(mut http: HttpClient, requests: &[Vec<u8>], first: usize, end: Instant) -> Result<(Vec<Duration>, u64)> {
    let (mut latencies, before) = (Vec::new(), http.received());
    let mut started = Instant::now();
    for request in requests.iter().cycle().skip(first) {
        if started >= end {
            break;
        }
        http.body(request)?;
        let answered = Instant::now();
        latencies.push(answered - started);
        started = answered;
    }
    Ok((latencies, http.received() - before))
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn count(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn bytes(number: u64) -> f64 {
    number as f64
}
