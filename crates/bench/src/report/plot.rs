//! Plots of tables: SVG as a pure function of the table and a width. The page defines the colours; a server has the
//! same one everywhere.

mod axis;
mod bars;
mod curve;
mod dots;
mod palette;
mod svg;

use maud::{Markup, html};

pub(crate) use self::palette::Palette;
pub(crate) use self::svg::swatch;
use crate::report::record::{Cell, Plot, Table, Unit};

/// Width of a plot on a narrow screen.
const NARROW_PX: f64 = 360.0;
const WIDE_PX: f64 = 840.0;
/// Width of one panel of bars; three fit side by side.
const PANEL_PX: f64 = 300.0;

/// Returns the plot of a table with a legend and a list of missing cells.
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
                    @for (index, column) in table.columns.iter().enumerate() {
                        // CPU shares only show whether other columns are reliable.
                        @if column.unit != Unit::Cpus { (bars::svg(table, index, palette, PANEL_PX)) }
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
            @for column in &table.columns { li { (swatch(palette.index(&column.title))) (column.title) } }
        }
    }
}

/// Describes the cells of a curve or of dots that were refused or failed.
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
