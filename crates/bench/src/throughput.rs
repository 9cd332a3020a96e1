//! Many connections that pipeline histories: requests a second, and the server's CPU time for one.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use birdhouse_testkit::peers::Peer;

use crate::Common;
use crate::node;
use crate::process::{cpu_of_this, used};
use crate::record::{Cell, Column, Layout, Plot, Record, Table, Unit};
use crate::samples::Samples;
use crate::server::measured;
use crate::wire::{Wire, quoted, request, result};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Connections, each with a thread of its own.
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Requests that a connection sends at once; it reads all answers before it sends the next ones.
    #[arg(long, default_value_t = 100)]
    window: usize,
    /// How long to go on, in seconds; what was asked by then is waited for.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// Scripts to ask for.
struct Class {
    title: &'static str,
    scripthashes: Vec<String>,
}

/// What one server did for one class.
struct Figures {
    requests: u64,
    bytes: u64,
    wall: Duration,
    server_cpu_s: f64,
    client_cpu_s: f64,
}

pub(crate) fn run(common: &Common, samples: &Samples, plan: &Plan) -> Result<Record> {
    let scripthashes = |some: &[crate::samples::Sample]| some.iter().map(|one| one.scripthash.clone()).collect();
    let classes = [
        Class { title: "wallet scripts (one or a few txs)", scripthashes: samples.simple.clone() },
        Class { title: "30 to 120 txs", scripthashes: scripthashes(&samples.medium) },
    ];
    let mut record = Record::begin("Many connections that pipeline", &common.work);
    record.servers = measured(common)?;
    let node = node::start(common)?;
    let mut tables = classes.iter().map(|class| table(class.title, plan)).collect::<Vec<_>>();
    for server in &common.servers {
        eprintln!("throughput: {}", server.title());
        let peer = server.start(common, &node);
        for (class, table) in classes.iter().zip(&mut tables) {
            let figures = match &peer {
                Ok(peer) => measure(peer, class, plan),
                Err(error) => Err(anyhow!("{error}")),
            };
            table.push_result(server.title(), &figures, Figures::cells);
        }
    }
    record.tables = tables;
    Ok(record)
}

fn table(title: &str, plan: &Plan) -> Table {
    let columns = [
        ("histories", Unit::PerSecond),
        ("server CPU for one", Unit::Seconds),
        ("server", Unit::Cpus),
        ("answered", Unit::BytesPerSecond),
        ("load generator", Unit::Cpus),
    ];
    let columns = columns.map(|(title, unit)| Column::new(title, unit));
    let meaning = format!("{} connections, {} requests at once on each.", plan.connections, plan.window);
    Table::new(format!("Histories: {title}"), meaning, Layout::ServersInRows, columns).drawn(Plot::Bars)
}

impl Figures {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn cells(&self) -> [Cell; 5] {
        let (wall_s, requests) = (self.wall.as_secs_f64(), self.requests as f64);
        [
            Cell::number(requests / wall_s),
            Cell::number(self.server_cpu_s / requests),
            Cell::number(self.server_cpu_s / wall_s),
            Cell::number(self.bytes as f64 / wall_s),
            Cell::number(self.client_cpu_s / wall_s),
        ]
    }
}

fn measure(peer: &Peer, class: &Class, plan: &Plan) -> Result<Figures> {
    let windows = windows(class, plan);
    let mut wires = Vec::new();
    for _ in 0..plan.connections {
        let mut wire = Wire::connect(peer.port())?;
        // The first window of each proves that there are answers, and warms the caches.
        wire.send(windows.first().context("a window")?)?;
        for _ in 0..plan.window {
            result(&wire.line()?)?;
        }
        wires.push(wire);
    }
    let (server_before, client_before) = (used(peer.pid())?.cpu_s, cpu_of_this()?);
    let started = Instant::now();
    let end = started + Duration::from_secs(plan.seconds);
    let counts: Result<Vec<(u64, u64)>> = thread::scope(|scope| {
        let windows = &windows;
        let threads: Vec<_> = wires
            .into_iter()
            .enumerate()
            .map(|(number, wire)| scope.spawn(move || load(wire, windows, number, plan.window, end)))
            .collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a connection panicked"))?).collect()
    });
    let wall = started.elapsed();
    let counts = counts?;
    Ok(Figures {
        requests: counts.iter().map(|(requests, _)| requests).sum(),
        bytes: counts.iter().map(|(_, bytes)| bytes).sum(),
        wall,
        server_cpu_s: used(peer.pid())?.cpu_s - server_before,
        client_cpu_s: cpu_of_this()? - client_before,
    })
}

/// Lines to send at once; together they ask for every script.
fn windows(class: &Class, plan: &Plan) -> Vec<Vec<u8>> {
    let line = |scripthash: &String| request("blockchain.scripthash.get_history", &quoted(scripthash));
    let lines: Vec<Vec<u8>> = class.scripthashes.iter().map(line).collect();
    lines.chunks_exact(plan.window).map(<[Vec<u8>]>::concat).collect()
}

/// One connection's requests and answered bytes.
fn load(mut wire: Wire, windows: &[Vec<u8>], number: usize, window: usize, end: Instant) -> Result<(u64, u64)> {
    let (mut requests, mut bytes) = (0, 0);
    // Connections walk the same scripts, each from a place of its own.
    for lines in windows.iter().cycle().skip(number * windows.len() / 50) {
        if Instant::now() >= end {
            break;
        }
        wire.send(lines)?;
        bytes += wire.skip_lines(window)?;
        requests += window as u64;
    }
    Ok((requests, bytes))
}
