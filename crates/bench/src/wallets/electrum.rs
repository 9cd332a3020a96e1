//! Measurement of Electrum servers that run already.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::rpc::Rpc;

use crate::machine::server_at::ServerAt;
use crate::machine::wire::version_at;
use crate::report::record::{Measured, Record};
use crate::wallets::latency::{self, counted, of_file};
use crate::wallets::samples::Samples;
use crate::wallets::throughput::{self, Class};
use crate::wallets::tip;
use crate::wallets::wallet;

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Server to measure: NAME=HOST:PORT (TCP), with #PID for its CPU time. The others are compared with the first.
    #[arg(long = "server", required = true)]
    servers: Vec<ServerAt>,
    #[command(flatten)]
    scripts: ScriptsFile,
    /// Data folder of the servers' node, a running regtest: measure the delay of notifications too. Mines blocks.
    #[arg(long, requires = "samples")]
    node_datadir: Option<PathBuf>,
    /// RPC port of that node on 127.0.0.1.
    #[arg(long, default_value_t = 18443)]
    node_rpc_port: u16,
    #[command(flatten)]
    latency: latency::Plan,
    #[command(flatten)]
    throughput: throughput::Plan,
    #[command(flatten)]
    tip: tip::Plan,
}

/// The scripts to ask for.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct ScriptsFile {
    /// File that `make-chain --samples` wrote.
    #[arg(long)]
    samples: Option<PathBuf>,
    /// File of script hashes in the protocol's form, one a line; the first 3000 are the wallet. The first server that
    /// answers tells the lengths of their histories.
    #[arg(long)]
    scripthashes: Option<PathBuf>,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = Record::begin("Electrum servers", Path::new("."));
    record.servers = plan.servers.iter().map(measured).collect();
    record.note("The servers were running already: their settings and their machine are unknown.");
    let samples = plan.scripts.samples.as_deref().map(Samples::read).transpose()?;
    let (wallet, scripts, classes) = match (&samples, &plan.scripts.scripthashes) {
        (Some(samples), _) => (samples.simple.clone(), latency::of_samples(samples), throughput::of_samples(samples)),
        (None, file) => {
            let all = of_file(file.as_deref().context("no scripts to ask for; set --samples or --scripthashes")?)?;
            let scripts = lengths(&plan.servers, &all)?;
            let class = Class { title: "all scripts".to_owned(), scripthashes: all.clone() };
            (all, scripts, vec![class])
        }
    };
    wallet::measure(&mut record, &plan.servers, &wallet);
    latency::measure(&mut record, &plan.servers, scripts, &plan.latency)?;
    throughput::measure(&mut record, &plan.servers, &classes, &plan.throughput);
    if let (Some(datadir), Some(samples)) = (&plan.node_datadir, &samples) {
        let node = Rpc::new(plan.node_rpc_port, datadir.join("regtest/.cookie"));
        tip::measure(&mut record, &plan.servers, &node, samples.largest()?, &plan.tip)?;
    }
    Ok(record)
}

fn measured(server: &ServerAt) -> Measured {
    let version = server.addr().and_then(version_at).ok();
    Measured::new(&server.name, version.as_deref(), "unknown")
}

/// Returns the lengths of histories, from the first server that answers.
fn lengths(servers: &[ServerAt], scripthashes: &[String]) -> Result<Vec<latency::Script>> {
    let mut last = None;
    for server in servers {
        match server.addr().and_then(|addr| counted(addr, scripthashes)) {
            Ok(scripts) => {
                ensure!(scripts.iter().any(|script| script.txs > 0), "no script of the list has a history");
                return Ok(scripts);
            }
            Err(error) => {
                last = Some(error.context(format!("failed to read the lengths of histories from {}", server.name)));
            }
        }
    }
    Err(last.context("no server")?)
}
