//! What a measurement gave, as data: every subcommand makes a [`Record`], and what people read is rendered from it.
//!
//! Quantities are in base units (seconds, bytes, counts) and never rounded here. A run that failed is a cell that says why.

mod cell;
mod machine;
mod markdown;
mod unit;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

pub(crate) use self::cell::{Cell, Figure, Spread};
pub(crate) use self::machine::Machine;
pub(crate) use self::unit::{Scale, Unit};

/// One run of one subcommand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// What was measured.
    pub(crate) title: String,
    /// The command line.
    pub(crate) command: String,
    /// When it began: RFC 3339, UTC.
    pub(crate) began: String,
    pub(crate) machine: Machine,
    /// Who was measured. The others are compared with the first.
    pub(crate) servers: Vec<Measured>,
    pub(crate) tables: Vec<Table>,
    /// What a reader must know, one sentence or more each.
    pub(crate) notes: Vec<String>,
}

/// A server that was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Its name in tables.
    pub(crate) name: String,
    /// What it says of itself, or what was installed.
    pub(crate) version: Option<String>,
    /// What differs from its defaults.
    pub(crate) settings: String,
}

/// Figures of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// What the figures mean, in one line.
    pub(crate) meaning: String,
    pub(crate) layout: Layout,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plot: Option<Plot>,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
}

/// Where a table has its servers.
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

/// How a table is drawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Plot {
    /// A line for each column, over the rows' `at`; both axes are logarithmic.
    Curve {
        /// What `at` counts.
        x: String,
    },
    /// For each column, a bar for each row.
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
    /// Where a curve has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<f64>,
    /// One for each column; what is missing at the end is [`Cell::Nothing`].
    pub(crate) cells: Vec<Cell>,
}

// === impl Record ===

impl Record {
    /// A record that begins now. `folder` is where the servers keep what they are measured with.
    pub(crate) fn begin(title: &str, folder: &Path) -> Self {
        Self {
            title: title.to_owned(),
            command: machine::command_line(),
            began: machine::now(),
            machine: Machine::this(folder),
            servers: Vec::new(),
            tables: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Writes it as JSON.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let mut json = serde_json::to_vec_pretty(self)?;
        json.push(b'\n');
        fs::write(file, json).with_context(|| format!("write {}", file.display()))
    }

    /// As people read it in a terminal or a book.
    pub(crate) fn to_markdown(&self) -> String {
        markdown::record(self)
    }

    /// What failed: table, row and reason.
    pub(crate) fn failures(&self) -> Vec<String> {
        let rows = self.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
        let cells = rows.flat_map(|(table, row)| row.cells.iter().map(move |cell| (table, row, cell)));
        cells
            .filter_map(|(table, row, cell)| match cell {
                Cell::Failed { reason } => Some(format!("{}, {}: {reason}", table.title, row.title)),
                _ => None,
            })
            .collect()
    }
}

// === impl Measured ===

impl Measured {
    pub(crate) fn new(name: &str, version: Option<&str>, settings: impl Into<String>) -> Self {
        Self { name: name.to_owned(), version: version.map(str::to_owned), settings: settings.into() }
    }
}

// === impl Table ===

impl Table {
    pub(crate) fn new(
        title: impl Into<String>,
        meaning: impl Into<String>,
        layout: Layout,
        columns: impl IntoIterator<Item = Column>,
    ) -> Self {
        let columns = columns.into_iter().collect();
        Self { title: title.into(), meaning: meaning.into(), layout, plot: None, columns, rows: Vec::new() }
    }

    pub(crate) fn drawn(self, plot: Plot) -> Self {
        Self { plot: Some(plot), ..self }
    }

    pub(crate) fn push(&mut self, title: impl Into<String>, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(Row { title: title.into(), at: None, cells: cells.into_iter().collect() });
    }

    /// A row of a curve.
    pub(crate) fn push_at(&mut self, at: f64, title: impl Into<String>, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(Row { title: title.into(), at: Some(at), cells: cells.into_iter().collect() });
    }

    /// The row of a run, or of its failure.
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

    /// How many times that of the first server the others' figures are; `None` where nothing can be compared.
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
                    let cells = row.cells.iter().enumerate().map(|(place, cell)| ratio(cell, first.cells.get(place)));
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

    fn title_of_times(&self) -> String {
        let first = match self.layout {
            Layout::ServersInRows => self.rows.first().map(|row| &row.title),
            _ => self.columns.first().map(|column| &column.title),
        };
        format!("How many times that of {}", first.map_or("the first", String::as_str))
    }

    fn head_of_times(&self) -> Self {
        let skipped = usize::from(self.layout == Layout::ServersInColumns);
        let columns = self.columns.iter().skip(skipped).map(|column| Column::new(&column.title, Unit::Times));
        Self::new("", "", self.layout, columns)
    }
}

// === impl Column ===

impl Column {
    pub(crate) fn new(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_from_json_with_its_numbers() {
        let mut record = Record::begin("Build", Path::new("."));
        record.servers.push(Measured::new("ours", None, "--profile lean"));
        let columns = ["wall", "delay"].map(|title| Column::new(title, Unit::Seconds));
        let mut table = Table::new("Build", "Once.", Layout::ServersInRows, columns).drawn(Plot::Bars);
        let spread = Spread::Range { lowest: 1e-5, highest: 0.1 };
        table.push("ours", [Cell::number(0.1 + 0.2), Cell::Figure(Figure { median: 0.003, spread, count: 9 })]);
        table.push_result("theirs", &Err::<(), _>(anyhow::anyhow!("ended")), |()| []);
        record.tables.push(table);
        let json = serde_json::to_string(&record).expect("it is plain");
        assert_eq!(serde_json::from_str::<Record>(&json).expect("what was written"), record);
        assert!(json.contains(r#""median":0.003"#), "{json}");
        assert_eq!(record.failures(), ["Build, theirs: ended"]);
    }
}
