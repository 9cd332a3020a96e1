//! One request at a time, by length of the history: the method of Casa's published comparison.
//!
//! Every script of a class is asked in turn, over one connection; the first pass is dropped, and proved instead.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::peers::Peer;
use serde::de::IgnoredAny;

use crate::Common;
use crate::node;
use crate::samples::{Sample, Samples};
use crate::server::{Server, print_settings};
use crate::table::{Durations, header, ms, ratio, row};
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
    scripts: Vec<&'a Sample>,
}

/// What one server gave: by method, then by class.
type Figures = Vec<Vec<Durations>>;

pub(crate) fn run(common: &Common, samples: &Samples, plan: &Plan) -> Result<()> {
    let classes = classes(samples, plan)?;
    let node = node::start(common)?;
    let mut all = Vec::new();
    for server in &common.servers {
        let peer = server.start(common, &node)?;
        let measured = METHODS
            .map(|method| classes.iter().map(|class| measure(&peer, method, class, plan)).collect::<Result<Vec<_>>>());
        let figures: Result<Figures> = measured.into_iter().collect();
        all.push((*server, figures.with_context(|| server.title())?));
    }
    for (index, method) in METHODS.iter().enumerate() {
        print(method, &classes, &all, index);
    }
    print_settings(&common.servers);
    Ok(())
}

fn classes<'a>(samples: &'a Samples, plan: &Plan) -> Result<Vec<Class<'a>>> {
    let class = |title: &str, from: &'a [Sample], txs: std::ops::RangeInclusive<u64>| -> Result<Class<'a>> {
        let fitting: Vec<&Sample> = from.iter().filter(|sample| txs.contains(&sample.txs)).collect();
        ensure!(!fitting.is_empty(), "no sample has {title} transactions");
        let step = fitting.len().div_ceil(plan.scripts.max(1));
        Ok(Class { title: format!("{title} txs"), scripts: fitting.into_iter().step_by(step).collect() })
    };
    let largest = samples.largest()?;
    Ok(vec![
        class("8-12", &samples.old, 8..=12)?,
        class("80-120", &samples.medium, 80..=120)?,
        class("300-1000", &samples.busy, 300..=1000)?,
        Class { title: format!("{} txs", largest.txs), scripts: vec![largest] },
    ])
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

fn print(method: &str, classes: &[Class<'_>], all: &[(Server, Figures)], index: usize) {
    println!("\n`{method}`, ms, median / p99:");
    header(classes.iter().map(|class| &class.title));
    for (server, figures) in all {
        let cells = figures[index].iter().map(|some| format!("{} / {}", ms(some.median()), ms(some.percentile(99))));
        row(server.title(), &cells.collect::<Vec<_>>());
    }
    let Some((ours, best)) = all.iter().find(|(server, _)| server.is_ours()) else { return };
    println!("\nMedians, how many times that of {}:", ours.title());
    header(classes.iter().map(|class| &class.title));
    for (server, figures) in all.iter().filter(|(server, _)| server != ours) {
        let pairs = figures[index].iter().zip(&best[index]);
        row(server.title(), &pairs.map(|(theirs, ours)| ratio(theirs.median(), ours.median())).collect::<Vec<_>>());
    }
    let counts: Vec<String> = best[index].iter().map(|some| some.len().to_string()).collect();
    println!("({} calls by class)", counts.join(", "));
}
