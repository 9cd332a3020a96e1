//! Notices of payments beside `sentrum`, which asks an Electrum server: their delay, those that a restart loses or
//! repeats, and the cost of many watched scripts.
//!
//! Every program has a node with the same chain. It runs this program as its command for each notice, which says so on
//! a socket, so that both are measured by the same means.

mod chain;
mod hook;
mod plan;
mod tables;
mod teller;
mod trial;

use anyhow::Result;

pub(crate) use self::hook::{TellPlan, tell};
pub(crate) use self::plan::Plan;
use self::plan::Program;
use self::tables::tables;
use self::trial::Trial;
use crate::machine::server::version_of;
use crate::report::record::{Measured, Record};

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = Record::begin("Notices of payments", &std::env::temp_dir());
    let ours = version_of(&plan.birdhouse)?;
    let measured = |program: &Program| {
        let version = if program.asks() { program.title() } else { &ours };
        Measured::new(program.title(), Some(version), program.settings())
    };
    record.servers = plan.programs.iter().map(measured).collect();
    let mut trials = Vec::new();
    for program in &plan.programs {
        eprintln!("notices: {}", program.title());
        trials.push((*program, Trial::run(*program, plan)));
    }
    record.tables = tables(plan, &trials);
    Ok(record)
}
