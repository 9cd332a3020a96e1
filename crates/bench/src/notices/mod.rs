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
use self::plan::Subject;
use self::tables::tables;
use self::trial::Trial;
use crate::machine::server::version_of;
use crate::report::record::{Measured, Record};

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    let mut record = Record::begin("Notices of payments", &std::env::temp_dir());
    let ours = version_of(&plan.birdhouse)?;
    let measured = |subject: &Subject| {
        let version = if subject.program.asks() { subject.program.title() } else { &ours };
        Measured::new(&subject.title(), Some(version), subject.settings())
    };
    let subjects = plan.subjects();
    record.servers = subjects.iter().map(measured).collect();
    let mut trials = Vec::new();
    for subject in subjects {
        eprintln!("notices: {}", subject.title());
        trials.push((subject, Trial::run(subject, plan)));
    }
    record.tables = tables(plan, &trials);
    Ok(record)
}
