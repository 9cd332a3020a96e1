//! Idle connections that each follow a script and the tip: what one costs the server in memory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::peers::{Birdhouse, Home};
use birdhouse_testkit::pipe::{Lines, Pipe, tcp, tls, ws};
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use clap::ValueEnum;
use serde_json::json;

use crate::process::{rss_bytes, used};
use crate::table::{digits, header, row};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// The binary to measure.
    #[arg(long, default_value = "target/release/birdhouse")]
    birdhouse: PathBuf,
    /// Connections. The server and this program each need as many file descriptors.
    #[arg(long, default_value_t = 10_000)]
    connections: u32,
    /// What is spoken, one after the other.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Transport::Tcp, Transport::Tls, Transport::Ws, Transport::Wss])]
    transports: Vec<Transport>,
}

/// A transport, by the name of its setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Transport {
    Tcp,
    Tls,
    Ws,
    Wss,
}

/// The server's memory, in bytes.
struct Figures {
    before: u64,
    idle: u64,
    notified: u64,
    peak: u64,
    opening: Duration,
    notifying: Duration,
    cpu_s: f64,
}

pub(crate) fn run(plan: &Plan) -> Result<()> {
    let mut chain = ChainBuilder::new(1);
    chain.mine(10);
    let node = Bitcoind::start(Options::default())?;
    chain.submit_to(&node)?;
    let connections = f64::from(plan.connections);
    println!("{} connections; memory is resident, MB:", plan.connections);
    header(["before", "idle", "after a notification", "peak", "kB each", "opened, s", "all notified, s", "CPU s"]);
    for transport in &plan.transports {
        let figures = measure(*transport, plan, &node, &mut chain).with_context(|| transport.flag())?;
        let each = kilobytes(figures.notified.saturating_sub(figures.before)) / connections;
        let mut cells: Vec<String> = [figures.before, figures.idle, figures.notified, figures.peak]
            .map(|bytes| digits(kilobytes(bytes) / 1e3))
            .into();
        cells.extend([each, figures.opening.as_secs_f64(), figures.notifying.as_secs_f64(), figures.cpu_s].map(digits));
        row(transport.flag(), &cells);
    }
    Ok(())
}

fn kilobytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1000).unwrap_or(u32::MAX))
}

fn measure(transport: Transport, plan: &Plan, node: &Bitcoind, chain: &mut ChainBuilder) -> Result<Figures> {
    let port = free_port()?;
    let address = format!("127.0.0.1:{port}");
    // Plain TCP has a listener of its own already.
    let flags = [transport.flag(), &address, "--log", "warn"];
    let flags = if transport == Transport::Tcp { &flags[2..] } else { &flags[..] };
    let peer = Birdhouse::start_in(node, Home::Temporary, &plan.birdhouse, flags)?;
    let port = if transport == Transport::Tcp { peer.port() } else { port };
    drop(transport.open(port)?);
    let before = rss_bytes(peer.pid())?;
    let started = Instant::now();
    let mut pipes: Vec<Box<dyn Pipe>> = Vec::new();
    for number in 0..plan.connections {
        pipes.push(subscribed(transport, port, number).with_context(|| format!("connection {number}"))?);
    }
    let opening = started.elapsed();
    let idle = rss_bytes(peer.pid())?;
    let started = Instant::now();
    chain.mine(1);
    chain.submit_to(node)?;
    for pipe in &mut pipes {
        ensure!(pipe.json()?["method"] == "blockchain.headers.subscribe", "not the notification");
    }
    let notifying = started.elapsed();
    let notified = rss_bytes(peer.pid())?;
    let used = used(peer.pid())?;
    Ok(Figures { before, idle, notified, peak: used.peak_rss_bytes, opening, notifying, cpu_s: used.cpu_s })
}

fn subscribed(transport: Transport, port: u16, number: u32) -> Result<Box<dyn Pipe>> {
    let mut pipe = transport.open(port)?;
    pipe.call("server.version", &json!(["bench", ["1.4", "1.6"]]))?;
    pipe.call("blockchain.headers.subscribe", &json!([]))?;
    pipe.call("blockchain.scripthash.subscribe", &json!([format!("{number:064x}")]))?;
    Ok(pipe)
}

impl Transport {
    fn flag(self) -> &'static str {
        match self {
            Self::Tcp => "--electrum-addr",
            Self::Tls => "--electrum-tls-addr",
            Self::Ws => "--electrum-ws-addr",
            Self::Wss => "--electrum-wss-addr",
        }
    }

    fn open(self, port: u16) -> Result<Box<dyn Pipe>> {
        let socket = tcp(port)?;
        Ok(match self {
            Self::Tcp => Box::new(Lines(socket)),
            Self::Tls => Box::new(Lines(tls(socket)?)),
            Self::Ws => Box::new(ws(socket)?),
            Self::Wss => Box::new(ws(tls(socket)?)?),
        })
    }
}
