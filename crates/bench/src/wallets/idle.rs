//! Memory of a server for idle connections, each subscribed to a script and the tip.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::peers::{Birdhouse, Home};
use birdhouse_testkit::pipe::{Lines, Pipe, tcp, tls, ws};
use birdhouse_testkit::usage::Usage;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use clap::ValueEnum;
use serde_json::json;

use crate::machine::args::at_least_one;
use crate::machine::server::version_of;
use crate::report::record::{Cell, Layout, Measured, Record, Table, Unit};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Server binary to measure [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::machine::args::default_birdhouse(), hide_default_value = true)]
    birdhouse: PathBuf,
    /// Number of connections. The server and this program each need as many file descriptors.
    #[arg(long, default_value_t = 10_000, value_parser = at_least_one::<u32>())]
    connections: u32,
    /// Transports to measure, in this order.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Transport::ALL)]
    transports: Vec<Transport>,
}

/// A transport of the Electrum protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Transport {
    Tcp,
    Tls,
    Ws,
    Wss,
}

/// Memory of the server in bytes, and times.
struct Figures {
    before: u64,
    idle: u64,
    notified: u64,
    peak: u64,
    opening: Duration,
    notifying: Duration,
    cpu_s: f64,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = Record::begin("Idle connections", &std::env::temp_dir());
    record.servers = vec![Measured::new("birdhouse", Some(&version_of(&plan.birdhouse)?), "")];
    let mut chain = ChainBuilder::new(1);
    chain.mine(10);
    let node = Bitcoind::start(Options::default())?;
    chain.submit_to(&node)?;
    let meaning =
        format!("{} connections, each subscribed to a script and the tip; memory is resident.", plan.connections);
    let memory = ["before", "idle", "after a notification", "peak", "each"].map(|title| (title, Unit::Bytes));
    let times = [("opened in", Unit::Seconds), ("all notified in", Unit::Seconds), ("server CPU", Unit::Seconds)];
    let columns = memory.into_iter().chain(times);
    let mut table = Table::new("Idle connections", meaning, Layout::OneServer, columns);
    for transport in &plan.transports {
        let figures = measure(*transport, plan, &node, &mut chain);
        table.push_result(transport.flag(), &figures, |figures| figures.cells(plan.connections));
    }
    record.tables.push(table);
    Ok(record)
}

impl Figures {
    fn cells(&self, connections: u32) -> [Cell; 8] {
        [
            Cell::count(self.before),
            Cell::count(self.idle),
            Cell::count(self.notified),
            Cell::count(self.peak),
            Cell::count(self.notified.saturating_sub(self.before) / u64::from(connections.max(1))),
            Cell::number(self.opening.as_secs_f64()),
            Cell::number(self.notifying.as_secs_f64()),
            Cell::number(self.cpu_s),
        ]
    }
}

fn measure(transport: Transport, plan: &Plan, node: &Bitcoind, chain: &mut ChainBuilder) -> Result<Figures> {
    let port = free_port()?;
    let address = format!("127.0.0.1:{port}");
    // The server always has a listener for plain TCP.
    let flags = [transport.flag(), &address, "--log", "warn"];
    let flags = if transport == Transport::Tcp { &flags[2..] } else { &flags[..] };
    let peer = Birdhouse::start_in(node, Home::Temporary, &plan.birdhouse, flags)?;
    let port = if transport == Transport::Tcp { peer.port() } else { port };
    drop(transport.open(port)?);
    let before = Usage::of(peer.pid())?.resident_bytes;
    let started = Instant::now();
    let mut pipes: Vec<Box<dyn Pipe>> = Vec::new();
    for number in 0..plan.connections {
        pipes.push(subscribed(transport, port, number).with_context(|| format!("failed to open connection {number}"))?);
    }
    let opening = started.elapsed();
    let idle = Usage::of(peer.pid())?.resident_bytes;
    let started = Instant::now();
    chain.mine(1);
    chain.submit_to(node)?;
    for pipe in &mut pipes {
        ensure!(
            pipe.json()?["method"] == "blockchain.headers.subscribe",
            "an unexpected message instead of the notification"
        );
    }
    let notifying = started.elapsed();
    let usage = Usage::of(peer.pid())?;
    let (notified, peak) = (usage.resident_bytes, usage.resident_bytes_max);
    Ok(Figures { before, idle, notified, peak, opening, notifying, cpu_s: usage.cpu.as_secs_f64() })
}

fn subscribed(transport: Transport, port: u16, number: u32) -> Result<Box<dyn Pipe>> {
    let mut pipe = transport.open(port)?;
    pipe.call("server.version", &json!(["bench", ["1.4", "1.6"]]))?;
    pipe.call("blockchain.headers.subscribe", &json!([]))?;
    pipe.call("blockchain.scripthash.subscribe", &json!([format!("{number:064x}")]))?;
    Ok(pipe)
}

impl Transport {
    const ALL: [Self; 4] = [Self::Tcp, Self::Tls, Self::Ws, Self::Wss];

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
