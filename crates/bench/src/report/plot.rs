//! Plots of tables: SVG as a pure function of the table and a width. Colours are the page's; a server has its own everywhere.

mod axis;
mod bars;
mod curve;
mod dots;
mod svg;

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

pub(crate) use self::svg::swatch;
use crate::record::{Cell, Plot, Table, Unit};

/// Of a plot on a narrow screen.
const NARROW_PX: f64 = 360.0;
const WIDE_PX: f64 = 840.0;
/// Of one panel of bars: three stand side by side.
const PANEL_PX: f64 = 300.0;

/// Which colour and mark a server has: the same one everywhere, and the first server of each record the first one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Palette(BTreeMap<String, usize>);

impl Palette {
    /// `groups` are the servers that stand beside each other.
    pub(crate) fn of<'a>(groups: impl IntoIterator<Item = Vec<&'a str>>) -> Self {
        let mut palette = Self::default();
        for group in groups {
            let mut taken: BTreeSet<usize> = group.iter().filter_map(|name| palette.0.get(*name).copied()).collect();
            for name in group {
                if palette.0.contains_key(name) {
                    continue;
                }
                let place = (0..=taken.len()).find(|place| !taken.contains(place)).expect("more places than are taken");
                taken.insert(place);
                palette.0.insert(name.to_owned(), place);
            }
        }
        palette
    }

    /// 0 for what is no server.
    pub(crate) fn place(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or(0)
    }
}

/// The plot of a table, with a legend, and with what could not be drawn.
pub(crate) fn figure(table: &Table, palette: &Palette) -> Markup {
    let Some(plot) = &table.plot else { return html! {} };
    let both = |draw: &dyn Fn(f64) -> Markup| {
        html! { div.wide { (draw(WIDE_PX)) } div.narrow { (draw(NARROW_PX)) } }
    };
    html! {
        figure {
            @match plot {
                Plot::Curve { x } => { (legend(table, palette)) (both(&|width| curve::svg(table, x, palette, width))) }
                Plot::Dots => { (legend(table, palette)) (both(&|width| dots::svg(table, palette, width))) }
                Plot::Bars => div.panels {
                    @for (place, column) in table.columns.iter().enumerate() {
                        // They tell whether other columns can be trusted.
                        @if column.unit != Unit::Cpus { (bars::svg(table, place, palette, PANEL_PX)) }
                    }
                },
            }
            @let missing = missing(table);
            @if !missing.is_empty() && *plot != Plot::Bars { figcaption { "Not drawn: " (missing.join("; ")) "." } }
        }
    }
}

fn legend(table: &Table, palette: &Palette) -> Markup {
    html! {
        ul.legend {
            @for column in &table.columns { li { (swatch(palette.place(&column.title))) (column.title) } }
        }
    }
}

/// Cells of a curve, or of dots, that were refused or failed, in words.
fn missing(table: &Table) -> Vec<String> {
    let mut missing = Vec::new();
    for row in &table.rows {
        for (cell, column) in row.cells.iter().zip(&table.columns) {
            let reason = match cell {
                Cell::Refused { .. } => "refused",
                Cell::Failed { .. } => "failed",
                _ => continue,
            };
            missing.push(format!("{} of {} ({reason})", row.title, column.title));
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_keeps_its_colour_and_neighbours_differ() {
        let palette =
            Palette::of([vec!["ours", "electrs", "e-x"], vec!["relay", "strfry"], vec!["e-x", "fulcrum", "new"]]);
        let places = ["ours", "electrs", "e-x", "relay", "strfry", "fulcrum", "new", "nobody"];
        assert_eq!(places.map(|name| palette.place(name)), [0, 1, 2, 0, 1, 0, 1, 0]);
    }
}
