//! The tables of notices.

use anyhow::Result;

use super::plan::{Feed, Plan, Program, Subject};
use super::trial::Trial;
use crate::report::record::{Cell, Layout, Table, Unit};

type Trials = [(Subject, Result<Trial>)];

pub(super) fn tables(plan: &Plan, trials: &Trials) -> Vec<Table> {
    vec![delays(plan, trials), restarts(plan, trials), costs(plan, trials)]
}

fn delays(plan: &Plan, trials: &Trials) -> Table {
    let mut meaning = format!("{} watched scripts. From the call of the node until the command runs.", plan.scripts);
    if plan.feeds.contains(&Feed::Zmq) {
        meaning.push_str(" ZMQ messages are those of the test kit, which reads the node's log every 2 ms.");
    }
    let columns = [("a payment in the mempool", Unit::Seconds), ("the last of ten payments of a block", Unit::Seconds)];
    let mut table = Table::new("Delay of a notice", meaning, Layout::ServersInRows, columns);
    for (subject, trial) in trials {
        table.push_result(subject.title(), trial, |trial| [trial.delays.with_p99(), trial.blocks.delays.with_range()]);
    }
    table
}

fn restarts(plan: &Plan, trials: &Trials) -> Table {
    let meaning = format!("{} payments while the program is down after SIGKILL, half of them confirmed.", plan.missed);
    let columns = ["payments", "announced after the restart", "notices of other, earlier transactions"];
    let mut table = Table::new("Over a restart", meaning, Layout::OneServer, columns.map(|title| (title, Unit::Count)));
    for (subject, trial) in trials.iter().filter(|(subject, _)| subject.program != Program::Unwatched) {
        table.push_result(subject.title(), trial, |trial| {
            let restart = &trial.restart;
            [restart.payments, restart.announced, restart.repeated].map(|count| Cell::count(count.into()))
        });
    }
    table
}

fn costs(plan: &Plan, trials: &Trials) -> Table {
    let meaning = format!(
        "{} watched scripts; blocks of {} transactions, ten of which pay watched scripts. CPU time of a block is that until \
         a second after its last notice. The server is the Electrum server that a program asks.",
        plan.scripts, plan.transactions
    );
    let columns = [
        ("memory", Unit::Bytes),
        ("idle", Unit::Cpus),
        ("server, idle", Unit::Cpus),
        ("a block", Unit::Seconds),
        ("server, a block", Unit::Seconds),
    ];
    let mut table = Table::new("Cost of watched scripts", meaning, Layout::OneServer, columns);
    for (subject, trial) in trials {
        table.push_result(subject.title(), trial, |trial| {
            let of_server = |value| if subject.program.asks() { Cell::number(value) } else { Cell::Nothing };
            [
                Cell::count(trial.memory.program.own_bytes),
                Cell::number(trial.idle[0]),
                of_server(trial.idle[1]),
                Cell::number(trial.blocks.cpu_s[0]),
                of_server(trial.blocks.cpu_s[1]),
            ]
        });
    }
    table
}
