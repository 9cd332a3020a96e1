//! Results of measurements as data: every subcommand makes a [`Record`], from which tables and plots are rendered.
//!
//! Quantities are in base units (seconds, bytes, counts) and not rounded. A run that failed is a cell with the reason.

mod cell;
mod machine;
mod markdown;
mod table;
mod unit;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

pub(crate) use self::cell::{Cell, Figure, Spread};
pub(crate) use self::machine::Machine;
pub(crate) use self::table::{Column, Layout, Plot, Row, Table};
pub(crate) use self::unit::{Scale, Unit, grouped};

/// One run of one subcommand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Title of the measurement.
    pub(crate) title: String,
    /// The command line.
    pub(crate) command: String,
    /// Time of its beginning: RFC 3339, UTC.
    pub(crate) began: String,
    pub(crate) machine: Machine,
    /// Measured servers. The others are compared with the first.
    pub(crate) servers: Vec<Measured>,
    pub(crate) tables: Vec<Table>,
    /// Notes for the reader.
    pub(crate) notes: Vec<String>,
}

/// A server that was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Its name in tables.
    pub(crate) name: String,
    /// Version that it reports, or that was installed.
    pub(crate) version: Option<String>,
    /// Settings that change its defaults.
    pub(crate) settings: String,
}

// === impl Record ===

impl Record {
    /// Begins a record now; `folder` has the indexes of the measured servers.
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

    /// Reads a record that [`Record::write`] wrote.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let bytes = fs::read(file).with_context(|| format!("failed to read {}", file.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("failed to parse {}: it is no record", file.display()))
    }

    /// Writes the record as JSON.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let mut json = serde_json::to_vec_pretty(self)?;
        json.push(b'\n');
        fs::write(file, json).with_context(|| format!("failed to write {}", file.display()))
    }

    /// Returns table, row and reason of each failure.
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

/// Returns settings as text, for [`Measured::settings`].
pub(crate) fn listed(settings: &[(&str, &str)]) -> String {
    settings.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

/// Prints the failures of records to standard error; returns the exit code of this program.
pub(crate) fn exit_code(records: &[Record]) -> ExitCode {
    let failures: Vec<String> = records.iter().flat_map(Record::failures).collect();
    for failure in &failures {
        eprintln!("failed: {failure}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_from_json_with_its_numbers() {
        let mut record = Record::begin("Build", Path::new("."));
        record.servers.push(Measured::new("ours", None, "--profile lean"));
        let columns = ["wall", "delay"].map(|title| (title, Unit::Seconds));
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

    #[test]
    fn a_rate_in_no_time_is_nothing_and_the_record_can_be_read() {
        let mut record = Record::begin("Fan-out", Path::new("."));
        let mut table = Table::new("Fan-out", "Once.", Layout::ServersInRows, [("rate", Unit::PerSecond)]);
        table.push("deaf", [0.0, 1.0].map(|count| Cell::number(count / 0.0)));
        record.tables.push(table);
        let json = serde_json::to_string(&record).expect("it is plain");
        assert_eq!(serde_json::from_str::<Record>(&json).expect("what was written"), record);
        assert_eq!(record.tables[0].rows[0].cells, [Cell::Nothing, Cell::Nothing]);
    }
}
