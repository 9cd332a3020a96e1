//! Plots with a line for each column over a quantity, on two logarithmic axes.

use maud::{Markup, html};

use super::axis::{Axis, Labels};
use super::palette::Palette;
use super::svg::{Anchor, colour, drawing, line, mark, px, text};
use crate::report::record::{Cell, Spread, Table, Unit};

const HEIGHT_PX: f64 = 340.0;
const LEFT_PX: f64 = 56.0;
const RIGHT_PX: f64 = 24.0;
const TOP_PX: f64 = 30.0;
const BOTTOM_PX: f64 = 46.0;

/// Draws the lines of a table.
pub(super) fn svg(table: &Table, x_title: &str, palette: &Palette, width: f64) -> Markup {
    let (bottom, right) = (HEIGHT_PX - BOTTOM_PX, width - RIGHT_PX);
    let ats: Vec<f64> = table.rows.iter().filter_map(|row| row.at).collect();
    let x = Axis::logarithmic(&ats, Unit::Count.scale(1.0), (LEFT_PX, right), Labels::Horizontal);
    let values: Vec<f64> = table.rows.iter().flat_map(|row| &row.cells).flat_map(ends).collect();
    let y = Axis::logarithmic(&values, table.scale_of_servers(), (bottom, TOP_PX), Labels::Vertical);
    let content = html! {
        @for tick in &y.ticks {
            (line((LEFT_PX, tick.px), (right, tick.px), "grid"))
            (text(LEFT_PX - 8.0, tick.px + 4.0, Anchor::End, "tick", &tick.label))
        }
        @for tick in &x.ticks {
            (line((tick.px, TOP_PX), (tick.px, bottom), "grid"))
            (text(tick.px, bottom + 18.0, Anchor::Middle, "tick", &tick.label))
        }
        (line((LEFT_PX, bottom), (right, bottom), "axis"))
        (line((LEFT_PX, TOP_PX), (LEFT_PX, bottom), "axis"))
        (text(4.0, 14.0, Anchor::Start, "title", &y.title(table.unit_of_servers().quantity())))
        (text(f64::midpoint(LEFT_PX, right), HEIGHT_PX - 8.0, Anchor::Middle, "title", &x.title(x_title)))
        @for (index, column) in table.columns.iter().enumerate() {
            (series(table, index, palette.index(&column.title), &x, &y))
        }
    };
    drawing(width, HEIGHT_PX, &format!("{}, by {x_title}", table.title), &content)
}

/// Returns the values of a cell that the axis must contain.
fn ends(cell: &Cell) -> Vec<f64> {
    match cell {
        Cell::Figure(figure) => match figure.spread {
            Spread::P99(p99) => vec![figure.median, p99],
            Spread::Range { lowest, highest } => vec![lowest, highest],
        },
        _ => cell.value().into_iter().collect(),
    }
}

fn series(table: &Table, index: usize, palette_index: usize, x: &Axis, y: &Axis) -> Markup {
    let points: Vec<(f64, f64, &Cell)> = table
        .rows
        .iter()
        .filter_map(|row| {
            let cell = row.cells.get(index)?;
            Some((x.at(row.at?), y.at(cell.value()?), cell))
        })
        .collect();
    let path: Vec<String> = points.iter().map(|(x, y, _)| format!("{},{}", px(*x), px(*y))).collect();
    let class = colour(palette_index);
    html! {
        @for (at, _, cell) in &points {
            @let ends = ends(cell);
            @if let [low, high] = ends[..] { (line((*at, y.at(low)), (*at, y.at(high)), &format!("spread {class}"))) }
        }
        polyline class={ (class) " curve" } points=(path.join(" ")) {}
        @for (x, y, _) in &points { (mark(*x, *y, palette_index)) }
    }
}
