//! Histories pipelined over many connections: requests a second, and the server's CPU time for one.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};

use crate::machine::args::at_least_one;
use crate::machine::node;
use crate::machine::server::{Setup, addresses, measured, start_all};
use crate::machine::server_at::{Effort, ServerAt, Turns, by_turns};
use crate::machine::wire::{Wire, quoted, request, result};
use crate::report::record::{Cell, Figure, Layout, Plot, Record, Spread, Table, Unit};
use crate::wallets::samples::{Sample, Samples};

#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Plan {
    /// Number of connections, each with a thread of its own.
    #[arg(long, default_value_t = 50, value_parser = at_least_one::<usize>())]
    pub(crate) connections: usize,
    /// Number of requests that a connection sends together; it reads all answers before the next ones.
    #[arg(long, default_value_t = 100, value_parser = at_least_one::<usize>())]
    pub(crate) window: usize,
    /// Seconds of a round; requests sent by then are answered before it ends.
    #[arg(long, default_value_t = 5, value_parser = at_least_one::<u64>())]
    pub(crate) seconds: u64,
    /// Number of rounds, servers by turns.
    #[arg(long, default_value_t = 3, value_parser = at_least_one::<usize>())]
    pub(crate) rounds: usize,
}

/// A class of scripts to request.
pub(crate) struct Class {
    pub(crate) title: String,
    pub(crate) scripthashes: Vec<String>,
}

/// Work of one server for one class.
#[derive(Debug, Default)]
struct Figures {
    requests: u64,
    bytes: u64,
    /// CPU and wall time without connecting.
    effort: Effort,
    /// Requests a second by round.
    rates: Vec<f64>,
}

pub(crate) fn run(setup: &Setup, samples: &Samples, plan: &Plan) -> Result<Record> {
    let mut record = Record::begin("Histories over many connections", &setup.work);
    record.servers = measured(setup)?;
    let node = node::start(setup)?;
    let peers = start_all(setup, &node);
    measure(&mut record, &addresses(setup, &peers), &of_samples(samples), plan);
    Ok(record)
}

/// Returns the classes of samples: scripts of a wallet, and longer ones.
pub(crate) fn of_samples(samples: &Samples) -> Vec<Class> {
    let scripthashes = |some: &[Sample]| some.iter().map(|one| one.scripthash.clone()).collect();
    vec![
        Class { title: "scripts of one or a few transactions".to_owned(), scripthashes: samples.simple.clone() },
        Class { title: "scripts of 30 to 120 transactions".to_owned(), scripthashes: scripthashes(&samples.medium) },
    ]
}

/// Adds a table for each class.
pub(crate) fn measure(record: &mut Record, servers: &[ServerAt], classes: &[Class], plan: &Plan) {
    for class in classes {
        let windows = windows(class, plan);
        let all = by_turns(servers, plan.rounds, |server, pass, figures: &mut Figures| {
            eprintln!("throughput: {}, pass {pass}, {}", class.title, server.name);
            figures.add(server, &windows, plan)
        });
        let mut table = table(&class.title, plan);
        for (server, Turns { figures, .. }) in servers.iter().zip(&all) {
            table.push_result(&server.name, figures, Figures::cells);
        }
        record.tables.push(table);
    }
}

fn table(title: &str, plan: &Plan) -> Table {
    let columns = [
        ("histories", Unit::PerSecond),
        ("server CPU for one", Unit::Seconds),
        ("server", Unit::Cpus),
        ("answered", Unit::BytesPerSecond),
        ("load generator", Unit::Cpus),
    ];
    let Plan { connections, window, seconds, rounds } = plan;
    let meaning = format!(
        "{connections} connections, {window} requests at once on each, {rounds} rounds of {seconds} s by turns."
    );
    Table::new(format!("Histories of {title}"), meaning, Layout::ServersInRows, columns).drawn(Plot::Bars)
}

impl Figures {
    fn add(&mut self, server: &ServerAt, windows: &[Vec<u8>], plan: &Plan) -> Result<()> {
        let wires = (0..plan.connections).map(|_| warmed(server, windows, plan)).collect::<Result<Vec<_>>>()?;
        let (mut effort, mut requests) = (Effort::default(), 0);
        for (asked, bytes) in effort.add(server, || all_at_once(wires, windows, plan))? {
            requests += asked;
            self.bytes += bytes;
        }
        self.requests += requests;
        self.rates.push(count(requests) / effort.wall_s);
        self.effort += effort;
        Ok(())
    }

    fn cells(&self) -> [Cell; 5] {
        [
            self.rate(),
            self.effort.server_cpu_by(count(self.requests)),
            self.effort.server_cpus(),
            Cell::number(count(self.bytes) / self.effort.wall_s),
            self.effort.client_cpus(),
        ]
    }

    fn rate(&self) -> Cell {
        let mut sorted = self.rates.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let (Some(lowest), Some(highest)) = (sorted.first(), sorted.last()) else { return Cell::Nothing };
        let spread = Spread::Range { lowest: *lowest, highest: *highest };
        Cell::Figure(Figure { median: sorted[(sorted.len() - 1) / 2], spread, count: sorted.len() as u64 })
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn count(number: u64) -> f64 {
    number as f64
}

/// Connects and sends a first window, which checks the answers and warms the caches.
fn warmed(server: &ServerAt, windows: &[Vec<u8>], plan: &Plan) -> Result<Wire> {
    let mut wire = Wire::connect(server.addr()?)?;
    wire.send(windows.first().context("there are fewer scripts than requests in a window")?)?;
    for _ in 0..plan.window {
        result(&wire.line()?)?;
    }
    Ok(wire)
}

/// Runs all connections; returns requests and answered bytes of each.
fn all_at_once(wires: Vec<Wire>, windows: &[Vec<u8>], plan: &Plan) -> Result<Vec<(u64, u64)>> {
    let end = Instant::now() + Duration::from_secs(plan.seconds);
    thread::scope(|scope| {
        let threads: Vec<_> = wires
            .into_iter()
            .enumerate()
            .map(|(number, wire)| scope.spawn(move || load(wire, windows, number, plan, end)))
            .collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a connection panicked"))?).collect()
    })
}

/// Returns windows of lines to send together, which request every script.
fn windows(class: &Class, plan: &Plan) -> Vec<Vec<u8>> {
    let line = |scripthash: &String| request("blockchain.scripthash.get_history", &quoted(scripthash));
    let lines: Vec<Vec<u8>> = class.scripthashes.iter().map(line).collect();
    lines.chunks_exact(plan.window).map(<[Vec<u8>]>::concat).collect()
}

/// Runs one connection; returns its requests and answered bytes.
fn load(mut wire: Wire, windows: &[Vec<u8>], number: usize, plan: &Plan, end: Instant) -> Result<(u64, u64)> {
    let (mut requests, before) = (0, wire.received());
    // Connections request the same scripts, each from an index of its own.
    for lines in windows.iter().cycle().skip(number * windows.len() / plan.connections) {
        if Instant::now() >= end {
            break;
        }
        wire.send(lines)?;
        wire.skip_lines(plan.window)?;
        requests += plan.window as u64;
    }
    Ok((requests, wire.received() - before))
}
