//! Plots with a line for each row and a mark for each server, on one logarithmic axis.

use maud::{Markup, html};

use super::axis::{Axis, Labels};
use super::palette::Palette;
use super::svg::{Anchor, drawing, fitted, line, mark, text, times, width_px};
use crate::report::record::{Cell, Row, Table};

const ROW_PX: f64 = 20.0;
const TOP_PX: f64 = 10.0;
const BOTTOM_PX: f64 = 46.0;
const RIGHT_PX: f64 = 26.0;
/// Largest share of the width for the names of rows.
const NAMES_SHARE_MAX: f64 = 0.4;

/// Draws the marks of a table.
pub(super) fn svg(table: &Table, palette: &Palette, width: f64) -> Markup {
    let names = table.rows.iter().map(|row| width_px(&row.title)).fold(0.0, f64::max).min(width * NAMES_SHARE_MAX);
    let (left, right) = (names + 12.0, width - RIGHT_PX);
    let values: Vec<f64> = table.rows.iter().flat_map(|row| &row.cells).filter_map(Cell::value).collect();
    let axis = Axis::logarithmic(&values, table.scale_of_servers(), (left, right), Labels::Horizontal);
    let bottom = times(table.rows.len(), ROW_PX) + TOP_PX;
    let height = bottom + BOTTOM_PX;
    let title = axis.title(table.unit_of_servers().quantity());
    let content = html! {
        @for tick in &axis.ticks {
            (line((tick.px, 0.0), (tick.px, bottom), "grid"))
            (text(tick.px, bottom + 18.0, Anchor::Middle, "tick", &tick.label))
        }
        (line((left, bottom), (right, bottom), "axis"))
        @for (number, row) in table.rows.iter().enumerate() {
            @let middle = times(number, ROW_PX) + TOP_PX + ROW_PX / 2.0;
            (text(names + 2.0, middle + 4.0, Anchor::End, "name", &fitted(&row.title, names)))
            (marks(table, row, &axis, palette, middle))
        }
        (text(f64::midpoint(left, right), height - 8.0, Anchor::Middle, "title", &title))
    };
    drawing(width, height, &table.title, &content)
}

fn marks(table: &Table, row: &Row, axis: &Axis, palette: &Palette, y: f64) -> Markup {
    let marks = table.columns.iter().zip(&row.cells);
    let marks: Vec<(f64, usize)> =
        marks.filter_map(|(column, cell)| Some((axis.at(cell.value()?), palette.index(&column.title)))).collect();
    let (low, high) = marks.iter().fold((f64::INFINITY, 0.0), |(low, high), (x, _)| (x.min(low), x.max(high)));
    html! {
        @if low < high { (line((low, y), (high, y), "axis")) }
        // The first server's mark is on top.
        @for (x, index) in marks.iter().rev() { (mark(*x, y, *index)) }
    }
}
