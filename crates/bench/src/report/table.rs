//! A record's table as HTML, in a box that scrolls.

use maud::{Markup, html};

use crate::report::record::{Cell, Column, Layout, Scale, Spread, Table, Unit};

/// Returns a table as HTML.
pub(crate) fn html(table: &Table) -> Markup {
    let scales = table.scales();
    html! {
        div.scroll tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" {}
                        @for (Column { title, .. }, scale) in table.columns.iter().zip(&scales) {
                            th scope="col" { (inline(&scale.titled(title))) }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            th scope="row" { (inline(&row.title)) }
                            @for (index, scale) in scales.iter().enumerate() {
                                @let cell = row.cells.get(index).unwrap_or(&Cell::Nothing);
                                (field(cell, *scale, is_best(table, &row.cells, index)))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns text in which backquotes mark code.
pub(crate) fn inline(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// Rank of a cell among those it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    Best,
    Other,
}

fn field(cell: &Cell, scale: Scale, rank: Rank) -> Markup {
    let class = if rank == Rank::Best { "best" } else { "" };
    match cell {
        Cell::Figure(figure) => html! {
            td class=(class) {
                (scale.show(figure.median)) " "
                small {
                    @match figure.spread {
                        Spread::P99(p99) => { "/ " (scale.show(p99)) }
                        Spread::Range { lowest, highest } => {
                            "(" (scale.show(lowest)) " to " (scale.show(highest)) ")"
                        }
                    }
                }
            }
        },
        Cell::Number { value } => html! { td class=(class) { (scale.show(*value)) } },
        Cell::Text { text } => html! { td.words { (text) } },
        Cell::Refused { reason } => html! { td.words.no { "refused: " (reason) } },
        Cell::Failed { reason } => html! { td.words.no { "failed: " (reason) } },
        Cell::Nothing => html! { td { "–" } },
    }
}

/// Returns the rank of a cell; only the best figure of several servers is marked.
fn is_best(table: &Table, row: &[Cell], index: usize) -> Rank {
    let Some(value) = row.get(index).and_then(Cell::value) else { return Rank::Other };
    let rivals: Vec<f64> = match table.layout {
        Layout::ServersInRows => table.rows.iter().filter_map(|row| row.cells.get(index)?.value()).collect(),
        Layout::ServersInColumns => row.iter().filter_map(Cell::value).collect(),
        Layout::OneServer => return Rank::Other,
    };
    let is_best = match table.columns[index].unit {
        Unit::Seconds | Unit::Bytes => rivals.iter().all(|rival| value <= *rival),
        Unit::PerSecond | Unit::BytesPerSecond => rivals.iter().all(|rival| value >= *rival),
        Unit::Count | Unit::Cpus | Unit::Times | Unit::Words => false,
    };
    if is_best && rivals.len() > 1 { Rank::Best } else { Rank::Other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_the_least_time_and_the_most_a_second() {
        let columns = [("wall", Unit::Seconds), ("events", Unit::PerSecond)];
        let mut table = Table::new("t", "m", Layout::ServersInRows, columns);
        table.push("slow", [Cell::number(2.0), Cell::number(10.0)]);
        table.push("quick", [Cell::number(1.0), Cell::number(20.0)]);
        let html = html(&table).into_string();
        assert!(html.contains(r#"<td class="best">1</td><td class="best">20</td>"#), "{html}");
        assert_eq!(html.matches("best").count(), 2);
    }

    #[test]
    fn backquotes_are_code() {
        assert_eq!(inline("`a<b` c").into_string(), "<code>a&lt;b</code> c");
    }
}
