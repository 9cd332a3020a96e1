//! One request at a time, by length of the history: the method of Casa's published comparison.
//!
//! Every script of a class is asked in turn, over one connection; the first pass is dropped, and proved instead.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::Bitcoind;
use birdhouse_testkit::peers::Peer;
use serde::de::IgnoredAny;

use crate::Common;
use crate::durations::Durations;
use crate::node;
use crate::record::{Cell, Column, Layout, Plot, Record, Table, Unit};
use crate::samples::{Sample, Samples};
use crate::server::{Server, measured};
use crate::wire::{Wire, quoted, request, result};

const METHODS: [&str; 3] = ["get_balance", "get_history", "listunspent"];

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Passes over the scripts of a class; the first does not count.
    #[arg(long, default_value_t = 10)]
    passes: usize,
    /// Scripts of a class.
    #[arg(long, default_value_t = 100)]
    scripts: usize,
    /// A class that took so many seconds gets no further pass (after the second).
    #[arg(long, default_value_t = 60)]
    budget_s: u64,
}

/// Scripts of about the same length of history.
struct Class<'a> {
    title: String,
    /// In the middle of them.
    txs: f64,
    scripts: Vec<&'a Sample>,
}

/// What one server gave: by method, then by class.
type Figures = Vec<Vec<Durations>>;

pub(crate) fn run(common: &Common, samples: &Samples, plan: &Plan) -> Result<Record> {
    let classes = classes(samples, plan)?;
    let mut record = Record::begin("One request at a time", &common.work);
    record.servers = measured(common)?;
    let node = node::start(common)?;
    let mut all = Vec::new();
    for server in &common.servers {
        eprintln!("latency: {}", server.title());
        all.push((*server, figures(common, &node, *server, &classes, plan)));
    }
    record.tables.extend(METHODS.iter().enumerate().map(|(index, method)| table(method, &classes, &all, index)));
    Ok(record)
}

fn figures(common: &Common, node: &Bitcoind, server: Server, classes: &[Class<'_>], plan: &Plan) -> Result<Figures> {
    let peer = server.start(common, node)?;
    let of_method = |method: &&str| classes.iter().map(|class| measure(&peer, method, class, plan)).collect();
    METHODS.iter().map(of_method).collect()
}

fn classes<'a>(samples: &'a Samples, plan: &Plan) -> Result<Vec<Class<'a>>> {
    let class = |title: &str, from: &'a [Sample], txs: std::ops::RangeInclusive<u64>| -> Result<Class<'a>> {
        let fitting: Vec<&Sample> = from.iter().filter(|sample| txs.contains(&sample.txs)).collect();
        ensure!(!fitting.is_empty(), "no sample has {title} transactions");
        let step = fitting.len().div_ceil(plan.scripts.max(1));
        Ok(Class::new(format!("{title} txs"), fitting.into_iter().step_by(step).collect()))
    };
    let largest = samples.largest()?;
    Ok(vec![
        class("8-12", &samples.old, 8..=12)?,
        class("80-120", &samples.medium, 80..=120)?,
        class("300-1000", &samples.busy, 300..=1000)?,
        Class::new(format!("{} txs", largest.txs), vec![largest]),
    ])
}

impl<'a> Class<'a> {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn new(title: String, scripts: Vec<&'a Sample>) -> Self {
        let mut txs: Vec<u64> = scripts.iter().map(|sample| sample.txs).collect();
        txs.sort_unstable();
        Self { title, txs: txs[txs.len() / 2] as f64, scripts }
    }
}

fn measure(peer: &Peer, method: &str, class: &Class<'_>, plan: &Plan) -> Result<Durations> {
    let full = format!("blockchain.scripthash.{method}");
    let requests: Vec<Vec<u8>> =
        class.scripts.iter().map(|sample| request(&full, &quoted(&sample.scripthash))).collect();
    let mut wire = Wire::connect(peer.port())?;
    let begun = Instant::now();
    for (line, sample) in requests.iter().zip(&class.scripts) {
        let answer = wire.ask(line)?;
        prove(method, &answer, sample).with_context(|| format!("{method} of {}", sample.scripthash))?;
    }
    let mut durations = Durations::default();
    for _ in 1..plan.passes.max(2) {
        for line in &requests {
            let started = Instant::now();
            wire.ask(line)?;
            durations.add(started.elapsed());
        }
        if begun.elapsed() > Duration::from_secs(plan.budget_s) {
            break;
        }
    }
    Ok(durations)
}

/// A refusal or a cut history would be fast. (Histories may have grown since the samples were taken.)
fn prove(method: &str, answer: &[u8], sample: &Sample) -> Result<()> {
    let result = result(answer)?;
    match method {
        "get_history" => {
            let entries: Vec<IgnoredAny> = serde_json::from_str(result)?;
            ensure!(entries.len() as u64 >= sample.txs, "{} entries of {}", entries.len(), sample.txs);
        }
        "listunspent" => ensure!(result.starts_with('['), "no list"),
        _ => ensure!(result.contains("confirmed"), "no balance"),
    }
    Ok(())
}

fn table(method: &str, classes: &[Class<'_>], all: &[(Server, Result<Figures>)], index: usize) -> Table {
    let columns = all.iter().map(|(server, _)| Column::new(server.title(), Unit::Seconds));
    let meaning = "From request to answer over one connection, by transactions of the script.";
    let mut table = Table::new(format!("`{method}`"), meaning, Layout::ServersInColumns, columns)
        .drawn(Plot::Curve { x: "transactions of the script".to_owned() });
    for (place, class) in classes.iter().enumerate() {
        let cells = all.iter().map(|(_, figures)| match figures {
            Ok(figures) => figures[index][place].with_p99(),
            Err(error) => Cell::failed(error),
        });
        table.push_at(class.txs, &class.title, cells);
    }
    table
}
