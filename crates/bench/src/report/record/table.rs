//! A table of figures, with its layout, its plot and the comparison of its servers.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::cell::{Cell, Spread};
use super::unit::{Scale, Unit};

/// Figures of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// Meaning of the figures, in one line.
    pub(crate) meaning: String,
    pub(crate) layout: Layout,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plot: Option<Plot>,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
}

/// Place of the servers in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Layout {
    /// Each row is a server; columns may differ in unit.
    ServersInRows,
    /// Each column is a server; all are of one unit.
    ServersInColumns,
    /// All figures are of one server.
    OneServer,
}

/// Plot of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Plot {
    /// A line for each column, over the rows' `at`; both axes are logarithmic.
    Curve {
        /// Title of the axis of `at`.
        x: String,
    },
    /// For each column except those of CPU shares, a bar for each row.
    Bars,
    /// For each row, a dot for each column, on one logarithmic axis.
    Dots,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Column {
    pub(crate) title: String,
    pub(crate) unit: Unit,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) title: String,
    /// Position on the horizontal axis of a curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<f64>,
    /// Cells, one for each column; missing ones at the end are [`Cell::Nothing`].
    pub(crate) cells: Vec<Cell>,
}

// === impl Table ===

impl Table {
    pub(crate) fn new(
        title: impl Into<String>,
        meaning: impl Into<String>,
        layout: Layout,
        columns: impl IntoIterator<Item = impl Into<Column>>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { title: title.into(), meaning: meaning.into(), layout, plot: None, columns, rows: Vec::new() }
    }

    pub(crate) fn drawn(self, plot: Plot) -> Self {
        Self { plot: Some(plot), ..self }
    }

    pub(crate) fn push(&mut self, title: impl Into<String>, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(Row { title: title.into(), at: None, cells: cells.into_iter().collect() });
    }

    /// Adds a row of a curve, at a position on its axis.
    #[expect(clippy::cast_precision_loss, reason = "a position on an axis")]
    pub(crate) fn push_at(&mut self, at: u64, title: impl Into<String>, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(Row { title: title.into(), at: Some(at as f64), cells: cells.into_iter().collect() });
    }

    /// Adds the row of a run, or of its failure.
    pub(crate) fn push_result<T, I: IntoIterator<Item = Cell>>(
        &mut self,
        title: impl Into<String>,
        result: &Result<T>,
        cells: impl FnOnce(&T) -> I,
    ) {
        match result {
            Ok(figures) => self.push(title, cells(figures)),
            Err(error) => self.push(title, [Cell::failed(error)]),
        }
    }

    /// Returns the ratios of the others' figures to those of the first server; `None` where none can be compared.
    pub(crate) fn times_the_first(&self) -> Option<Self> {
        let ratio = |cell: &Cell, base: Option<&Cell>| match (cell.value(), base.and_then(Cell::value)) {
            (Some(theirs), Some(ours)) if ours != 0.0 => Cell::number(theirs / ours),
            _ => Cell::Nothing,
        };
        let mut rows = Vec::new();
        match self.layout {
            Layout::OneServer => return None,
            Layout::ServersInRows => {
                let (first, others) = self.rows.split_first()?;
                for row in others {
                    let cells = row.cells.iter().enumerate().map(|(index, cell)| ratio(cell, first.cells.get(index)));
                    rows.push(Row { title: row.title.clone(), at: None, cells: cells.collect() });
                }
            }
            Layout::ServersInColumns => {
                for row in &self.rows {
                    let (first, others) = row.cells.split_first()?;
                    let cells = others.iter().map(|cell| ratio(cell, Some(first))).collect();
                    rows.push(Row { title: row.title.clone(), at: row.at, cells });
                }
            }
        }
        let is_comparison = rows.iter().flat_map(|row| &row.cells).any(|cell| cell.value().is_some());
        is_comparison.then(|| Self { title: self.title_of_times(), rows, ..self.head_of_times() })
    }

    /// Returns the meaning of the figures and the form of the cells.
    pub(crate) fn caption(&self) -> String {
        let spreads = self.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| match cell {
            Cell::Figure(figure) => Some((figure.spread, figure.count)),
            _ => None,
        });
        let (mut form, mut least, mut most) = (None, u64::MAX, 0);
        for (spread, count) in spreads {
            form = Some(spread);
            (least, most) = (least.min(count), most.max(count));
        }
        let form = match form {
            None => return self.meaning.clone(),
            Some(Spread::P99(_)) => "Median / p99",
            Some(Spread::Range { .. }) => "Median (lowest to highest)",
        };
        let counts = if least == most { most.to_string() } else { format!("{least} to {most}") };
        format!("{} {form} of {counts}.", self.meaning)
    }

    /// Returns the scale of each column. Where columns are servers, all have the same scale.
    pub(crate) fn scales(&self) -> Vec<Scale> {
        let values = |index: usize| self.rows.iter().filter_map(move |row| row.cells.get(index)?.value());
        let columns = 0..self.columns.len();
        if self.layout == Layout::ServersInColumns {
            return vec![self.scale_of_servers(); columns.len()];
        }
        columns.map(|index| self.columns[index].unit.scale_of(values(index))).collect()
    }

    /// Returns the scale of a table whose columns are servers.
    pub(crate) fn scale_of_servers(&self) -> Scale {
        self.unit_of_servers().scale_of(self.rows.iter().flat_map(|row| &row.cells).filter_map(Cell::value))
    }

    /// Returns the unit of a table whose columns are servers.
    pub(crate) fn unit_of_servers(&self) -> Unit {
        self.columns.first().map_or(Unit::Words, |column| column.unit)
    }

    fn title_of_times(&self) -> String {
        let first = match self.layout {
            Layout::ServersInRows => self.rows.first().map(|row| &row.title),
            _ => self.columns.first().map(|column| &column.title),
        };
        format!("How many times that of {}", first.map_or("the first", String::as_str))
    }

    fn head_of_times(&self) -> Self {
        let skipped = usize::from(self.layout == Layout::ServersInColumns);
        let columns = self.columns.iter().skip(skipped).map(|column| (&column.title, Unit::Times));
        Self::new("", "", self.layout, columns)
    }
}

// === impl Column ===

impl<T: Into<String>> From<(T, Unit)> for Column {
    fn from((title, unit): (T, Unit)) -> Self {
        Self { title: title.into(), unit }
    }
}
