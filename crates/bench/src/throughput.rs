//! Many connections that pipeline histories: requests a second, and the server's CPU time for one.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use birdhouse_testkit::peers::Peer;

use crate::Common;
use crate::node;
use crate::process::{cpu_of_this, used};
use crate::samples::Samples;
use crate::server::{Server, print_settings};
use crate::table::{digits, header, row};
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

pub(crate) fn run(common: &Common, samples: &Samples, plan: &Plan) -> Result<()> {
    let scripthashes = |some: &[crate::samples::Sample]| some.iter().map(|one| one.scripthash.clone()).collect();
    let classes = [
        Class { title: "wallet scripts (one or a few txs)", scripthashes: samples.simple.clone() },
        Class { title: "30 to 120 txs", scripthashes: scripthashes(&samples.medium) },
    ];
    let node = node::start(common)?;
    let mut all = Vec::new();
    for server in &common.servers {
        let peer = server.start(common, &node)?;
        let figures: Result<Vec<Figures>> = classes.iter().map(|class| measure(&peer, class, plan)).collect();
        all.push((*server, figures.with_context(|| server.title())?));
    }
    for (index, class) in classes.iter().enumerate() {
        print(class.title, plan, &all, index);
    }
    print_settings(&common.servers);
    Ok(())
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

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn print(title: &str, plan: &Plan, all: &[(Server, Vec<Figures>)], index: usize) {
    println!("\n{title}, {} connections, {} requests at once each:", plan.connections, plan.window);
    header([
        "requests/s",
        "server CPU us/request",
        "server CPUs",
        "MB/s",
        "load generator CPUs",
        "requests/s, of ours",
    ]);
    let per_s = |figures: &Figures| figures.requests as f64 / figures.wall.as_secs_f64();
    let ours = all.iter().find(|(server, _)| server.is_ours()).map(|(_, figures)| per_s(&figures[index]));
    for (server, figures) in all {
        let figures = &figures[index];
        let wall_s = figures.wall.as_secs_f64();
        let cells = [
            format!("{:.0}", per_s(figures)),
            digits(figures.server_cpu_s * 1e6 / figures.requests as f64),
            digits(figures.server_cpu_s / wall_s),
            digits(figures.bytes as f64 / 1e6 / wall_s),
            digits(figures.client_cpu_s / wall_s),
            ours.map_or_else(|| "-".into(), |ours| digits(per_s(figures) / ours)),
        ];
        row(server.title(), &cells);
    }
}
