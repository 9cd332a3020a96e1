//! Plots with a bar for each row of one column.

use maud::{Markup, html};

use super::axis::Axis;
use super::palette::Palette;
use super::svg::{Anchor, colour, drawing, fitted, line, px, text, times, width_px};
use crate::report::record::{Cell, Layout, Row, Spread, Table};

const ROW_PX: f64 = 40.0;
const BAR_PX: f64 = 14.0;
const BOTTOM_PX: f64 = 44.0;
const EDGE_PX: f64 = 18.0;

/// Draws the bars of a column; returns nothing for a column without numbers.
pub(super) fn svg(table: &Table, index: usize, palette: &Palette, width: f64) -> Markup {
    let column = &table.columns[index];
    let values: Vec<f64> = table.rows.iter().filter_map(|row| row.cells.get(index)?.value()).collect();
    if values.is_empty() {
        return html! {};
    }
    // The longest bar leaves room for its number.
    let scale = table.scales()[index];
    let numbers = values.iter().map(|value| width_px(&scale.show(*value))).fold(0.0, f64::max);
    let axis = Axis::for_bars(&values, scale, (EDGE_PX, width - numbers - EDGE_PX));
    let bottom = times(table.rows.len(), ROW_PX) + 4.0;
    let height = bottom + BOTTOM_PX;
    let content = html! {
        @for tick in &axis.ticks {
            (line((tick.px, 0.0), (tick.px, bottom), "grid"))
            (text(tick.px, bottom + 16.0, Anchor::Middle, "tick", &tick.label))
        }
        @for (number, row) in table.rows.iter().enumerate() {
            @let top = times(number, ROW_PX);
            @let colour_index = if table.layout == Layout::ServersInRows { palette.index(&row.title) } else { 0 };
            (text(EDGE_PX, top + 14.0, Anchor::Start, "name", &fitted(&row.title, width - EDGE_PX)))
            (bar(row, index, &axis, top + 20.0, &colour(colour_index)))
        }
        (line((EDGE_PX, 0.0), (EDGE_PX, bottom), "axis"))
        (text(EDGE_PX, height - 8.0, Anchor::Start, "title", &fitted(&axis.title(&column.title), width - EDGE_PX)))
    };
    drawing(width, height, &format!("{}: {}", table.title, column.title), &content)
}

fn bar(row: &Row, index: usize, axis: &Axis, top: f64, class: &str) -> Markup {
    let middle = top + BAR_PX / 2.0;
    // A row that failed has one cell.
    let cell = row.cells.get(index).or(row.cells.last());
    let Some(value) = cell.and_then(Cell::value) else {
        let word = match cell {
            Some(Cell::Failed { .. }) => "failed",
            Some(Cell::Refused { .. }) => "refused",
            _ => "not measured",
        };
        return text(EDGE_PX + 6.0, middle + 4.0, Anchor::Start, "no", word);
    };
    let end = axis.at(value);
    html! {
        rect.(class) x=(px(EDGE_PX)) y=(px(top)) width=(px((end - EDGE_PX).max(1.0))) height=(px(BAR_PX)) {}
        @if let Some(Cell::Figure(figure)) = cell && let Spread::Range { lowest, highest } = figure.spread {
            (line((axis.at(lowest), middle), (axis.at(highest), middle), "range"))
        }
        (text(end + 6.0, middle + 4.0, Anchor::Start, "value", &axis.scale().show(value)))
    }
}
