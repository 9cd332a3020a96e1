//! The first index build.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::Bitcoind;
use serde_json::Value;

use crate::process::{disk_bytes, used, warm};
use crate::server::{Server, print_settings};
use crate::{Common, node};

/// How long a peer may go on compacting after its tip is served, before its size is taken.
const SETTLE: Duration = Duration::from_secs(20);

/// One server's figures.
struct Row {
    server: Server,
    wall_s: f64,
    cpu_s: f64,
    peak_rss_bytes: u64,
    index_bytes: u64,
}

pub(crate) fn run(common: &Common) -> Result<()> {
    let node = node::start(common)?;
    warm(&node.blocks_dir())?;
    println!("blocks on disk: {} MB", disk_bytes(&node.blocks_dir())? / 1_000_000);
    let mut rows = Vec::new();
    for server in &common.servers {
        let folder = common.work.join(server.folder());
        remove(&folder)?;
        rows.push(if server.is_ours() { ours(common, &node, *server)? } else { peer(common, &node, *server)? });
    }
    print(&rows);
    print_settings(&common.servers);
    Ok(())
}

fn ours(common: &Common, node: &Bitcoind, server: Server) -> Result<Row> {
    let folder = common.work.join(server.folder());
    let output = Command::new(&common.birdhouse)
        .args(["index", "--json", "--network", "regtest", "--profile", server.profile(), "--log", "warn"])
        .arg("--node-dir")
        .arg(node.datadir())
        .arg("--data-dir")
        .arg(&folder)
        .args(["--rpc-addr", &format!("127.0.0.1:{}", node.rpc_port())])
        .output()
        .with_context(|| format!("run {}", common.birdhouse.display()))?;
    ensure!(output.status.success(), "birdhouse index failed: {}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    println!("{}: {report}", server.title());
    tables(&report);
    let number = |name: &str| report[name].as_f64().with_context(|| format!("{name} in the report"));
    let bytes = |name: &str| report[name].as_u64().with_context(|| format!("{name} in the report"));
    Ok(Row {
        server,
        wall_s: number("seconds")?,
        cpu_s: number("cpu_seconds")?,
        peak_rss_bytes: bytes("peak_rss_bytes")?,
        index_bytes: disk_bytes(&folder)?,
    })
}

/// Bytes per script and per transaction, table by table.
fn tables(report: &Value) {
    let (Some(scripts), Some(txs)) = (report["scripts"].as_f64(), report["txs"].as_f64()) else { return };
    println!("| table | bytes | per script | per transaction |\n|---|---|---|---|");
    for (name, bytes) in report["tables"].as_object().into_iter().flatten() {
        let Some(bytes) = bytes.as_f64() else { continue };
        println!("| `{name}` | {bytes} | {:.2} | {:.2} |", bytes / scripts, bytes / txs);
    }
}

fn peer(common: &Common, node: &Bitcoind, server: Server) -> Result<Row> {
    let started = Instant::now();
    let peer = server.start(common, node)?;
    let wall_s = started.elapsed().as_secs_f64();
    let used = used(peer.pid())?;
    std::thread::sleep(SETTLE);
    let index_bytes = disk_bytes(&peer.index_dir())?;
    Ok(Row { server, wall_s, cpu_s: used.cpu_s, peak_rss_bytes: used.peak_rss_bytes, index_bytes })
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    Ok(fs::create_dir_all(folder)?)
}

fn print(rows: &[Row]) {
    println!("| | wall s | CPU s | peak memory MB | index MB |\n|---|---|---|---|---|");
    for row in rows {
        println!(
            "| {} | {:.1} | {:.1} | {} | {} |",
            row.server.title(),
            row.wall_s,
            row.cpu_s,
            row.peak_rss_bytes / 1_000_000,
            row.index_bytes / 1_000_000
        );
    }
    for ours in rows.iter().filter(|row| row.server.is_ours()) {
        for peer in rows.iter().filter(|row| !row.server.is_ours()) {
            compare(ours, peer);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "ratios for people")]
fn compare(ours: &Row, peer: &Row) {
    println!(
        "{}: {:.1}x faster, {:.1}x less CPU, {:.2}x the disk of {}",
        ours.server.title(),
        peer.wall_s / ours.wall_s,
        peer.cpu_s / ours.cpu_s,
        ours.index_bytes as f64 / peer.index_bytes as f64,
        peer.server.title()
    );
}
