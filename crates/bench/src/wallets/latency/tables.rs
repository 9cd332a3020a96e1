//! The curves of latencies, and the agreement of the servers.

use std::collections::BTreeMap;

use super::answers::Answers;
use super::figures::{Figures, METHODS};
use super::scripts::{Script, class};
use crate::machine::server_at::{ServerAt, Turns, effort_table};
use crate::report::durations::Durations;
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

/// Returns counts and indexes of scripts by class, the least first. The counts are those of the first server that
/// answered.
fn classes(by: By, scripts: &[Script], all: &[Turns<Figures>]) -> BTreeMap<(u64, u64), Vec<(u64, usize)>> {
    let answers = all.iter().find_map(|one| one.figures.as_ref().ok()).map(|figures| &figures.answers);
    let mut classes: BTreeMap<_, Vec<(u64, usize)>> = BTreeMap::new();
    for (index, script) in scripts.iter().enumerate() {
        let count = match (by, answers.and_then(|answers| answers.get(index))) {
            (By::Transactions, _) => script.txs,
            (By::Unspent, Some(answers)) => answers.unspent.len() as u64,
            (By::Unspent, None) => continue,
        };
        // A logarithmic axis has no 0.
        if count > 0 {
            classes.entry(class(count)).or_default().push((count, index));
        }
    }
    for members in classes.values_mut() {
        members.sort_unstable();
    }
    classes
}

fn curve(
    by: By,
    method: usize,
    classes: &BTreeMap<(u64, u64), Vec<(u64, usize)>>,
    servers: &[ServerAt],
    all: &[Turns<Figures>],
) -> Table {
    let (what, x) = match by {
        By::Transactions => ("transactions", "transactions of the script"),
        By::Unspent => ("unspent outputs", "unspent outputs of the script"),
    };
    let title = format!("`{}` by {what}", METHODS[method]);
    let columns = servers.iter().map(|server| (&server.name, Unit::Seconds));
    let meaning = "From request to answer over one connection, one at a time.";
    let mut table =
        Table::new(title, meaning, Layout::ServersInColumns, columns).drawn(Plot::Curve { x: x.to_owned() });
    for members in classes.values() {
        let [least, middle, most] = [0, members.len() / 2, members.len() - 1].map(|index| members[index].0);
        let title = if least == most { least.to_string() } else { format!("{least} to {most}") };
        let cells = all.iter().map(|one| match &one.figures {
            Ok(figures) => times(figures, method, members).with_p99(),
            Err(error) => Cell::failed(error),
        });
        table.push_at(on_axis(middle), title, cells);
    }
    table
}

/// Returns all times of the scripts of a class.
fn times(figures: &Figures, method: usize, members: &[(u64, usize)]) -> Durations {
    let mut all = Durations::default();
    for (_, index) in members {
        all.add_all(&figures.times[*index][method]);
    }
    all
}

#[expect(clippy::cast_precision_loss, reason = "a position on an axis")]
fn on_axis(count: u64) -> f64 {
    count as f64
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
