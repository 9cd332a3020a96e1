//! Latency of one request at a time, by length of the history and by number of unspent outputs: the method of Casa's
//! published comparison.
//!
//! One connection requests every script in turn; servers take turns from pass to pass. The first pass is not timed: its
//! answers are compared instead.

mod answers;
mod classes;
mod figures;
mod scripts;
mod tables;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

pub(crate) use self::answers::Answers;
pub(crate) use self::classes::{Class, class, span};
use self::figures::{Figures, METHODS, Times};
pub(crate) use self::scripts::{Script, chosen, counted, of_file, of_samples};
use crate::machine::args::at_least_one;
use crate::machine::node;
use crate::machine::server::{Setup, addresses, measured, start_all};
use crate::machine::server_at::{ServerAt, by_turns};
use crate::machine::wire::{Wire, quoted, request};
use crate::report::record::Record;
use crate::wallets::samples::Samples;

#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Plan {
    /// Number of passes over the scripts; the first is not timed.
    #[arg(long, default_value_t = 10, value_parser = at_least_one::<usize>())]
    pub(crate) passes: usize,
    /// Number of scripts in each class of lengths: 10 to 19 transactions, 20 to 49, 50 to 99, and so on.
    #[arg(long, default_value_t = 40, value_parser = at_least_one::<usize>())]
    pub(crate) scripts: usize,
    /// Milliseconds of a server's answers after which a script is no longer requested (from the third pass on).
    #[arg(long, default_value_t = 5000, value_parser = at_least_one::<u64>())]
    pub(crate) budget_ms: u64,
}

pub(crate) fn run(setup: &Setup, samples: &Samples, plan: &Plan) -> Result<Record> {
    let mut record = Record::begin("One request at a time", &setup.work);
    record.servers = measured(setup)?;
    let node = node::start(setup)?;
    let peers = start_all(setup, &node);
    measure(&mut record, &addresses(setup, &peers), of_samples(samples), plan)?;
    Ok(record)
}

/// Adds the tables to a record.
pub(crate) fn measure(record: &mut Record, servers: &[ServerAt], scripts: Vec<Script>, plan: &Plan) -> Result<()> {
    let scripts = chosen(scripts, plan.scripts);
    ensure!(!scripts.is_empty(), "no script has a history");
    let lines: Vec<[Vec<u8>; 3]> = scripts.iter().map(requests).collect();
    let all = by_turns(servers, plan.passes.max(2), |server, pass, figures: &mut Figures| {
        eprintln!("latency: pass {pass}, {}", server.name);
        let mut wire = Wire::connect(server.addr()?)?;
        if pass == 0 { compare(&mut wire, &scripts, &lines, figures) } else { time(&mut wire, &lines, plan, figures) }
    });
    tables::add(record, servers, &scripts, &all);
    Ok(())
}

fn requests(script: &Script) -> [Vec<u8>; 3] {
    METHODS.map(|method| request(&format!("blockchain.scripthash.{method}"), &quoted(&script.scripthash)))
}

/// Checks and keeps the answers: an error or a cut history would be fast. (Histories may have grown since they were
/// counted.)
fn compare(wire: &mut Wire, scripts: &[Script], lines: &[[Vec<u8>; 3]], figures: &mut Figures) -> Result<()> {
    for (script, [balance, history, unspent]) in scripts.iter().zip(lines) {
        let lines = [wire.ask(balance)?, wire.ask(history)?, wire.ask(unspent)?];
        let answers = Answers::read(&lines).with_context(|| script.scripthash.clone())?;
        let entries = answers.history.len() as u64;
        ensure!(entries >= script.txs, "{entries} transactions of {} of {}", script.txs, script.scripthash);
        figures.answers.push(answers);
        figures.times.push(Times::default());
    }
    Ok(())
}

fn time(wire: &mut Wire, lines: &[[Vec<u8>; 3]], plan: &Plan, figures: &mut Figures) -> Result<()> {
    let budget = Duration::from_millis(plan.budget_ms);
    for method in 0..METHODS.len() {
        for (times, lines) in figures.times.iter_mut().zip(lines) {
            let times = &mut times[method];
            if times.iter().sum::<Duration>() > budget {
                continue;
            }
            let started = Instant::now();
            wire.ask(&lines[method])?;
            times.push(started.elapsed());
        }
    }
    Ok(())
}
