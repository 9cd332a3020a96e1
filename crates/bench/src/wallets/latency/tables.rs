//! The curves of latencies, and the agreement of the servers.

use super::answers::Answers;
use super::classes::Class;
use super::figures::{Figures, METHODS};
use super::scripts::Script;
use crate::machine::server_at::{ServerAt, Turns, effort_table};
use crate::report::record::{Cell, Layout, Plot, Record, Table, Unit};

/// Most differences that are listed one by one.
const DIFFERENCES_MAX: usize = 20;

/// Quantity of a curve's horizontal axis.
#[derive(Debug, Clone, Copy)]
enum By {
    Transactions,
    Unspent,
}

pub(super) fn add(record: &mut Record, servers: &[ServerAt], scripts: &[Script], all: &[Turns<Figures>]) {
    for by in [By::Transactions, By::Unspent] {
        let classes = classes(by, scripts, all);
        record.tables.extend((0..METHODS.len()).map(|method| curve(by, method, &classes, servers, all)));
    }
    let (table, notes) = agreement(servers, scripts, all);
    record.tables.push(table);
    record.tables.push(effort_table(servers, all));
    record.notes.extend(notes);
}

/// Returns the classes of scripts. Numbers of unspent outputs are those of the first server that answered.
fn classes(by: By, scripts: &[Script], all: &[Turns<Figures>]) -> Vec<Class> {
    let answers = all.iter().find_map(|one| one.figures.as_ref().ok()).map(|figures| &figures.answers);
    let unspent = |index: usize| Some(answers?.get(index)?.unspent.len() as u64);
    Class::by_count(scripts.iter().enumerate().map(|(index, script)| match by {
        By::Transactions => Some(script.txs),
        By::Unspent => unspent(index),
    }))
}

fn curve(by: By, method: usize, classes: &[Class], servers: &[ServerAt], all: &[Turns<Figures>]) -> Table {
    let (what, x) = match by {
        By::Transactions => ("transactions", "transactions of the script"),
        By::Unspent => ("unspent outputs", "unspent outputs of the script"),
    };
    let title = format!("`{}` by {what}", METHODS[method]);
    let columns = servers.iter().map(|server| (&server.name, Unit::Seconds));
    let meaning = "From request to answer over one connection, one at a time.";
    let mut table =
        Table::new(title, meaning, Layout::ServersInColumns, columns).drawn(Plot::Curve { x: x.to_owned() });
    for class in classes {
        class.add_row(&mut table, all, |figures, index| &figures.times[index][method]);
    }
    table
}

/// Returns a table of the number of scripts with equal answers, and notes with the first differences.
fn agreement(servers: &[ServerAt], scripts: &[Script], all: &[Turns<Figures>]) -> (Table, Vec<String>) {
    let first = servers.iter().zip(all).find_map(|(server, one)| Some((&server.name, one.figures.as_ref().ok()?)));
    let name = first.map_or("no server", |(name, _)| name);
    let columns = [("scripts", Unit::Count), ("with the same answers", Unit::Count)];
    let meaning = "Balance, history and unspent outputs of every script, as sets, before the clock runs.";
    let mut table = Table::new(format!("Answers, beside those of {name}"), meaning, Layout::OneServer, columns);
    let mut notes = Vec::new();
    for (server, one) in servers.iter().zip(all) {
        table.push_result(&server.name, &one.figures, |figures| {
            let ours = first.map_or(&[][..], |(_, figures)| &figures.answers);
            let differing = differing(ours, &figures.answers);
            let note = |(index, what): &(usize, String)| {
                format!("{name} and {} differ in {}: {what}", server.name, scripts[*index].scripthash)
            };
            notes.extend(differing.iter().map(note));
            [Cell::count(scripts.len() as u64), Cell::count((scripts.len() - differing.len()) as u64)]
        });
    }
    let more = notes.len().saturating_sub(DIFFERENCES_MAX);
    notes.truncate(DIFFERENCES_MAX);
    if more > 0 {
        notes.push(format!("{more} more answers differ."));
    }
    (table, notes)
}

fn differing(ours: &[Answers], theirs: &[Answers]) -> Vec<(usize, String)> {
    let differences = ours.iter().zip(theirs).map(|(ours, theirs)| ours.differences(theirs).join(", "));
    differences.enumerate().filter(|(_, differences)| !differences.is_empty()).collect()
}
