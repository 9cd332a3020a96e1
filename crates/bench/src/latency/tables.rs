//! The curves, and whether the servers agreed.

use std::collections::BTreeMap;

use super::scripts::{Script, class};
use super::{Answers, Figures, METHODS, Turns};
use crate::durations::Durations;
use crate::record::{Cell, Layout, Plot, Record, Table, Unit};
use crate::server_at::{ServerAt, effort_table};

/// Disagreements that are told one by one.
const TOLD_MAX: usize = 20;

/// What a curve goes by.
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
    let (table, told) = agreement(servers, scripts, all);
    record.tables.push(table);
    record.tables.push(effort_table(servers, all));
    record.notes.extend(told);
}

/// Counts and places of scripts by class, the least first. What counts is what the first server said that answered.
fn classes(by: By, scripts: &[Script], all: &[Turns<Figures>]) -> BTreeMap<(u64, u64), Vec<(u64, usize)>> {
    let answers = all.iter().find_map(|one| one.figures.as_ref().ok()).map(|figures| &figures.answers);
    let mut classes: BTreeMap<_, Vec<(u64, usize)>> = BTreeMap::new();
    for (place, script) in scripts.iter().enumerate() {
        let count = match (by, answers.and_then(|answers| answers.get(place))) {
            (By::Transactions, _) => script.txs,
            (By::Unspent, Some(answers)) => answers.unspent.len() as u64,
            (By::Unspent, None) => continue,
        };
        // A logarithmic axis has no place for nothing.
        if count > 0 {
            classes.entry(class(count)).or_default().push((count, place));
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
        let [least, middle, most] = [0, members.len() / 2, members.len() - 1].map(|place| members[place].0);
        let title = if least == most { least.to_string() } else { format!("{least} to {most}") };
        let cells = all.iter().map(|one| match &one.figures {
            Ok(figures) => times(figures, method, members).with_p99(),
            Err(error) => Cell::failed(error),
        });
        table.push_at(on_axis(middle), title, cells);
    }
    table
}

/// All times of the scripts of a class together.
fn times(figures: &Figures, method: usize, members: &[(u64, usize)]) -> Durations {
    let mut all = Durations::default();
    for (_, place) in members {
        figures.times[*place][method].iter().for_each(|time| all.add(*time));
    }
    all
}

#[expect(clippy::cast_precision_loss, reason = "a place on an axis")]
fn on_axis(count: u64) -> f64 {
    count as f64
}

/// How many scripts have the same answers, and what the first differences are.
fn agreement(servers: &[ServerAt], scripts: &[Script], all: &[Turns<Figures>]) -> (Table, Vec<String>) {
    let first = servers.iter().zip(all).find_map(|(server, one)| Some((&server.name, one.figures.as_ref().ok()?)));
    let name = first.map_or("nobody", |(name, _)| name);
    let columns = [("scripts", Unit::Count), ("with the same answers", Unit::Count)];
    let meaning = "Balance, history and unspent outputs of every script, as sets, before the clock runs.";
    let mut table = Table::new(format!("Answers, beside those of {name}"), meaning, Layout::OneServer, columns);
    let mut told = Vec::new();
    for (server, one) in servers.iter().zip(all) {
        table.push_result(&server.name, &one.figures, |figures| {
            let ours = first.map_or(&[][..], |(_, figures)| &figures.answers);
            let differing = differing(ours, &figures.answers);
            let tell = |(place, what): &(usize, String)| {
                format!("{name} and {} differ in {}: {what}", server.name, scripts[*place].scripthash)
            };
            told.extend(differing.iter().map(tell));
            [Cell::count(scripts.len() as u64), Cell::count((scripts.len() - differing.len()) as u64)]
        });
    }
    let more = told.len().saturating_sub(TOLD_MAX);
    told.truncate(TOLD_MAX);
    if more > 0 {
        told.push(format!("{more} more answers differ."));
    }
    (table, told)
}

fn differing(ours: &[Answers], theirs: &[Answers]) -> Vec<(usize, String)> {
    let differences = ours.iter().zip(theirs).map(|(ours, theirs)| ours.differences(theirs).join(", "));
    differences.enumerate().filter(|(_, differences)| !differences.is_empty()).collect()
}
