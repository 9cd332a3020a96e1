//! The relays that are measured: those that run already, and those that this program starts.
//!
//! Each relay that this program starts keeps its events in a folder below one that the command line names. Queries use
//! that folder; measurements that add events use a copy of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::peers::Home;
use birdhouse_testkit::relays::{Kind, Loaded, Relay, Running};
use birdhouse_testkit::usage::Usage;

use super::relay_at::RelayAt;
use crate::machine::folder::{self, disk_bytes};
use crate::report::durations::seconds;
use crate::report::record::{Cell, Layout, Measured, Record, Row, Table, Unit, listed};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Servers {
    /// Relay that runs already: NAME=ws://HOST:PORT, with #PID for its CPU time and memory.
    #[arg(long = "relay", required_unless_present = "started")]
    relays: Vec<RelayAt>,
    /// Relays to start on loopback. They come before those of --relay; all others are compared with the first.
    #[arg(long = "servers", value_delimiter = ',', value_enum, requires = "work")]
    started: Vec<Kind>,
    /// Folder for the events of relays that are started; they are kept and used again.
    #[arg(long)]
    work: Option<PathBuf>,
    /// Server binary to measure [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::machine::args::default_birdhouse(), hide_default_value = true)]
    birdhouse: PathBuf,
}

/// File in a relay's folder, written when all events are loaded: the row with the cost.
const COST: &str = "cost.json";

/// A relay of the command line.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    /// A relay that runs already.
    At(RelayAt),
    /// A relay to start.
    Own(Kind),
}

/// Use of the events of a relay that this program starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// They are not changed.
    Events,
    /// The relay uses a copy, which is removed with it.
    Copy,
}

/// A running relay.
#[derive(Debug)]
pub(super) struct RelayInUse {
    pub(super) at: RelayAt,
    // Dropped in this order: the relay ends before its copy is removed.
    _running: Option<Running>,
    _copy: Option<Copied>,
}

/// A copy of a folder, removed when dropped.
#[derive(Debug)]
struct Copied(PathBuf);

impl Entry {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::At(at) => &at.name,
            Self::Own(kind) => kind.title(),
        }
    }

    fn settings(&self) -> String {
        match self {
            Self::At(_) => "unknown".to_owned(),
            Self::Own(kind) => listed(kind.settings()),
        }
    }
}

impl Servers {
    pub(super) fn entries(&self) -> Vec<Entry> {
        let own = self.started.iter().copied().map(Entry::Own);
        own.chain(self.relays.iter().cloned().map(Entry::At)).collect()
    }

    /// Begins a record of these relays.
    pub(super) fn begin(&self, title: &str) -> Record {
        let mut record = Record::begin(title, self.work.as_deref().unwrap_or(Path::new(".")));
        record.servers =
            self.entries().iter().map(|entry| Measured::new(entry.name(), None, entry.settings())).collect();
        record
    }

    /// Loads events into the relays to start that have none; returns the table of costs, also for earlier loads.
    pub(super) fn fill(&self, events: &Path) -> Result<Option<Table>> {
        let columns = [
            ("wall", Unit::Seconds),
            ("CPU", Unit::Seconds),
            ("most memory", Unit::Bytes),
            ("on disk", Unit::Bytes),
            ("way", Unit::Words),
        ];
        let meaning =
            format!("{} is loaded into an empty relay in its fastest way, before its first start.", file_name(events));
        let mut table = Table::new("Loading of events", meaning, Layout::ServersInRows, columns);
        for kind in self.started.iter().copied() {
            match filled(kind, &self.birdhouse, &self.folder(kind)?, events) {
                Ok(row) => table.rows.push(row),
                Err(error) => table.push(kind.title(), [Cell::failed(&error)]),
            }
        }
        Ok((!table.rows.is_empty()).then_some(table))
    }

    /// Starts a relay, or returns one that runs already.
    pub(super) fn start(&self, entry: &Entry, keep: Keep) -> Result<RelayInUse> {
        let kind = match entry {
            Entry::At(at) => return Ok(RelayInUse { at: at.clone(), _running: None, _copy: None }),
            Entry::Own(kind) => *kind,
        };
        let folder = self.folder(kind)?;
        let copy = (keep == Keep::Copy).then(|| Copied::of(&folder)).transpose()?;
        let home = Home::Folder(copy.as_ref().map_or(folder, |copy| copy.0.clone()));
        let running = Relay::new(kind, &self.birdhouse, home)?.start()?;
        let at = RelayAt::started(entry.name(), &running);
        Ok(RelayInUse { at, _running: Some(running), _copy: copy })
    }

    fn folder(&self, kind: Kind) -> Result<PathBuf> {
        let name = kind.title().replace(' ', "-").to_lowercase();
        Ok(self.work.as_ref().context("no folder for the events of relays; set --work")?.join(name))
    }
}

/// Loads events into a relay unless an earlier run did; returns the row with the cost.
pub(crate) fn filled(kind: Kind, birdhouse: &Path, folder: &Path, events: &Path) -> Result<Row> {
    let cost = folder.join(COST);
    if cost.exists() {
        let row = serde_json::from_slice(&fs::read(&cost)?);
        return row.with_context(|| format!("failed to parse {}: it is no file of this program", cost.display()));
    }
    folder::remove(folder)?;
    let relay = Relay::new(kind, birdhouse, Home::Folder(folder.to_owned()))?;
    let loaded = relay.load(events)?;
    let cells = cells(kind, &loaded, disk_bytes(&relay.events_dir())?);
    let row = Row { title: kind.title().to_owned(), at: None, cells: cells.into() };
    fs::write(&cost, serde_json::to_vec(&row)?)?;
    Ok(row)
}

fn cells(kind: Kind, loaded: &Loaded, disk_bytes: u64) -> [Cell; 5] {
    let way = match loaded.taken {
        Some(taken) => format!("{}; {taken} accepted", kind.way_of_loading()),
        None => kind.way_of_loading().to_owned(),
    };
    [
        seconds(Some(loaded.wall)),
        seconds(Some(loaded.usage.cpu)),
        Cell::count(loaded.usage.resident_bytes_max),
        Cell::count(disk_bytes),
        Cell::text(way),
    ]
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl RelayInUse {
    /// Returns its CPU time and memory, if its process is known.
    pub(super) fn usage(&self) -> Result<Option<Usage>> {
        Ok(self.at.pid.map(Usage::of).transpose()?)
    }
}

/// Makes a table of the relays' memory.
pub(super) fn memory<'a>(relays: impl IntoIterator<Item = &'a RelayInUse>) -> Table {
    let columns = ["resident", "without mapped files", "most"].map(|title| (title, Unit::Bytes));
    let meaning =
        "At the end. The rest of the resident memory is mapped files, which the system reclaims when it needs memory.";
    let mut table = Table::new("Memory", meaning, Layout::ServersInRows, columns);
    for relay in relays {
        table.push_result(&relay.at.name, &relay.usage(), |usage| match usage {
            Some(Usage { resident_bytes, own_bytes, resident_bytes_max, .. }) => {
                [*resident_bytes, *own_bytes, *resident_bytes_max].map(Cell::count)
            }
            None => [Cell::Nothing, Cell::Nothing, Cell::Nothing],
        });
    }
    table
}

// === impl Copied ===

impl Copied {
    fn of(folder: &Path) -> Result<Self> {
        let mut name = folder.file_name().unwrap_or_default().to_owned();
        name.push("-copy");
        let copy = Self(folder.with_file_name(name));
        folder::remove(&copy.0)?;
        if folder.exists() {
            // The file of LMDB is sparse.
            let copying = Command::new("cp").args(["-a", "--sparse=always"]).arg(folder).arg(&copy.0).output()?;
            ensure!(
                copying.status.success(),
                "failed to copy the folder: {}",
                String::from_utf8_lossy(&copying.stderr)
            );
        }
        Ok(copy)
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // If this fails the folder remains, and the next copy removes it or fails.
        let _ = folder::remove(&self.0);
    }
}
