//! Records as Markdown, for the terminal and for BENCHMARKS.md.

use std::fmt::Write as _;

use super::Record;
use super::cell::{Cell, Spread};
use super::table::{Column, Row, Table};
use super::unit::Scale;

impl Record {
    /// Returns the record as Markdown.
    pub(crate) fn to_markdown(&self) -> String {
        markdown(self)
    }
}

fn markdown(record: &Record) -> String {
    let mut out = format!("## {}\n\n```\n{}\n```\n\n", record.title, record.command);
    line(&mut out, &format!("{}; {}.", record.began, record.machine.in_words()));
    for shown in &record.tables {
        out += "\n";
        out += &table(shown);
    }
    out += "\n";
    for note in &record.notes {
        line(&mut out, &format!("- {note}"));
    }
    for server in &record.servers {
        let version = server.version.as_ref().map_or_else(String::new, |version| format!(" ({version})"));
        let settings = if server.settings.is_empty() { "defaults" } else { &server.settings };
        line(&mut out, &format!("- {}{version}: {settings}", server.name));
    }
    out
}

/// Returns one table with its comparison.
fn table(table: &Table) -> String {
    let mut out = format!("### {}\n\n", table.title);
    line(&mut out, &table.caption());
    out += "\n";
    out += &grid(table);
    if let Some(times) = table.times_the_first() {
        write!(out, "\n{}:\n\n{}", times.title, grid(&times)).expect("writing to a string never fails");
    }
    out
}

fn grid(table: &Table) -> String {
    let scales = table.scales();
    let titles = table.columns.iter().zip(&scales).map(|(Column { title, .. }, scale)| scale.titled(title));
    let mut out = row("", titles);
    writeln!(out, "|---{}|", "|---".repeat(table.columns.len())).expect("writing to a string never fails");
    for Row { title, cells, .. } in &table.rows {
        let cells = scales
            .iter()
            .enumerate()
            .map(|(index, scale)| cells.get(index).map_or_else(|| "-".into(), |it| cell(it, *scale)));
        out += &row(title, cells);
    }
    out
}

/// Returns the text of a cell.
fn cell(cell: &Cell, scale: Scale) -> String {
    match cell {
        Cell::Figure(figure) => {
            let median = scale.show(figure.median);
            match figure.spread {
                Spread::P99(p99) => format!("{median} / {}", scale.show(p99)),
                Spread::Range { lowest, highest } => {
                    format!("{median} ({} to {})", scale.show(lowest), scale.show(highest))
                }
            }
        }
        Cell::Number { value } => scale.show(*value),
        Cell::Text { text } => text.clone(),
        Cell::Refused { reason } => format!("refused: {reason}"),
        Cell::Failed { reason } => format!("failed: {reason}"),
        Cell::Nothing => "-".to_owned(),
    }
}

fn row(title: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = std::iter::once(title.to_owned()).chain(cells).map(|text| escaped(&text)).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Escapes characters that would end a cell or begin markup.
fn escaped(text: &str) -> String {
    text.replace('|', r"\|").replace(['\n', '\r'], " ").replace('<', "&lt;")
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::record::{Figure, Layout, Unit};

    fn figure(median: f64, p99: f64) -> Cell {
        Cell::Figure(Figure { median, spread: Spread::P99(p99), count: 900 })
    }

    #[test]
    fn table_has_one_scale_and_a_caption_for_its_cells() {
        let columns = ["ours", "theirs"].map(|name| (name, Unit::Seconds));
        let mut latency = Table::new("get_balance", "One at a time.", Layout::ServersInColumns, columns);
        latency.push("10 txs", [figure(0.000_1, 0.000_2), figure(0.001, 0.002)]);
        latency.push("100 txs", [figure(0.000_2, 0.000_4), Cell::Failed { reason: "a | b".into() }]);
        assert_eq!(
            table(&latency),
            "### get_balance\n\nOne at a time. Median / p99 of 900.\n\n\
             |  | ours, ms | theirs, ms |\n|---|---|---|\n\
             | 10 txs | 0.100 / 0.200 | 1 / 2 |\n\
             | 100 txs | 0.200 / 0.400 | failed: a \\| b |\n\
             \nHow many times that of ours:\n\n|  | theirs |\n|---|---|\n| 10 txs | 10x |\n| 100 txs | - |\n"
        );
    }

    #[test]
    fn columns_of_rows_that_are_servers_have_scales_of_their_own() {
        let columns = [("wall", Unit::Seconds), ("index", Unit::Bytes)];
        let mut build = Table::new("Build", "Once.", Layout::ServersInRows, columns);
        build.push("ours", [Cell::number(10.8), Cell::number(521e6)]);
        build.push_result("theirs", &Err::<(), _>(anyhow::anyhow!("out of memory")), |()| []);
        let shown = table(&build);
        assert!(shown.contains("|  | wall, s | index, MB |"), "{shown}");
        assert!(shown.contains("| ours | 10.8 | 521 |\n| theirs | failed: out of memory | - |"), "{shown}");
        assert!(!shown.contains("How many times"), "{shown}");
    }
}
