//! The first index build.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::Bitcoind;
use serde_json::Value;

use crate::machine::folder::{self, disk_bytes, warm};
use crate::machine::node;
use crate::machine::server::{Server, Setup, measured};
use crate::report::record::{Cell, Layout, Plot, Record, Table, Unit};

/// Time for a server's compactions after it serves the tip, before its size is measured.
const SETTLE: Duration = Duration::from_secs(20);

/// Figures of one server.
struct Figures {
    wall_s: f64,
    cpu_s: f64,
    peak_rss_bytes: u64,
    index_bytes: u64,
    /// Bytes by table, for Birdhouse.
    by_table: Option<Table>,
}

pub(crate) fn run(setup: &Setup) -> Result<Record> {
    let mut record = Record::begin("The first index build", &setup.work);
    record.servers = measured(setup)?;
    let node = node::start(setup)?;
    warm(&node.blocks_dir())?;
    record.note(format!("Blocks on disk: {} MB, in the file cache.", disk_bytes(&node.blocks_dir())? / 1_000_000));
    let columns = [
        ("wall time", Unit::Seconds),
        ("CPU time", Unit::Seconds),
        ("most memory", Unit::Bytes),
        ("index on disk", Unit::Bytes),
    ];
    let meaning = "From an empty folder until the node's tip is served; the size of the folder after compactions.";
    let mut table = Table::new("Build", meaning, Layout::ServersInRows, columns).drawn(Plot::Bars);
    for server in &setup.servers {
        eprintln!("build: {}", server.title());
        let figures = measure(setup, &node, *server);
        table.push_result(server.title(), &figures, Figures::cells);
        record.tables.extend(figures.ok().and_then(|figures| figures.by_table));
    }
    record.tables.insert(0, table);
    Ok(record)
}

impl Figures {
    fn cells(&self) -> [Cell; 4] {
        let Self { wall_s, cpu_s, peak_rss_bytes, index_bytes, .. } = self;
        [Cell::number(*wall_s), Cell::number(*cpu_s), Cell::count(*peak_rss_bytes), Cell::count(*index_bytes)]
    }
}

fn measure(setup: &Setup, node: &Bitcoind, server: Server) -> Result<Figures> {
    let folder = setup.work.join(server.folder());
    folder::remove(&folder)?;
    fs::create_dir_all(&folder)?;
    if server.is_birdhouse() { measure_birdhouse(setup, node, server) } else { measure_peer(setup, node, server) }
}

fn measure_birdhouse(setup: &Setup, node: &Bitcoind, server: Server) -> Result<Figures> {
    let folder = setup.work.join(server.folder());
    let output = Command::new(&setup.birdhouse)
        .args(["index", "--json", "--network", "regtest", "--profile", server.profile(), "--log", "warn"])
        .arg("--node-dir")
        .arg(node.datadir())
        .arg("--data-dir")
        .arg(&folder)
        .args(["--rpc-addr", &format!("127.0.0.1:{}", node.rpc_port())])
        .output()
        .with_context(|| format!("failed to run {}", setup.birdhouse.display()))?;
    ensure!(output.status.success(), "birdhouse index failed: {}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let number = |name: &str| report[name].as_f64().with_context(|| format!("the report has no {name}"));
    let bytes = |name: &str| report[name].as_u64().with_context(|| format!("the report has no {name}"));
    Ok(Figures {
        wall_s: number("seconds")?,
        cpu_s: number("cpu_seconds")?,
        peak_rss_bytes: bytes("peak_rss_bytes")?,
        index_bytes: disk_bytes(&folder)?,
        by_table: Some(by_table(server.title(), &report, number("scripts")?, number("txs")?)),
    })
}

/// Makes a table of bytes per script and per transaction by table.
fn by_table(server: &str, report: &Value, scripts: f64, txs: f64) -> Table {
    let columns = [("bytes", Unit::Count), ("per script", Unit::Count), ("per transaction", Unit::Count)];
    let meaning = format!("Bytes of {scripts} scripts and {txs} transactions.");
    let mut table = Table::new(format!("Tables of {server}"), meaning, Layout::OneServer, columns);
    for (name, bytes) in report["tables"].as_object().into_iter().flatten() {
        let Some(bytes) = bytes.as_f64() else { continue };
        table.push(format!("`{name}`"), [bytes, bytes / scripts, bytes / txs].map(Cell::number));
    }
    table
}

fn measure_peer(setup: &Setup, node: &Bitcoind, server: Server) -> Result<Figures> {
    let (peer, wall_s, usage) = server.start_measured(setup, node)?;
    std::thread::sleep(SETTLE);
    let index_bytes = disk_bytes(&peer.index_dir())?;
    Ok(Figures {
        wall_s,
        cpu_s: usage.cpu.as_secs_f64(),
        peak_rss_bytes: usage.resident_bytes_max,
        index_bytes,
        by_table: None,
    })
}
