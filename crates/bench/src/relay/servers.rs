//! Who is measured: relays at an address, and relays that are started here.
//!
//! Those that are started here keep their events in a folder for each, below one that the command line names. Questions are asked of
//! what lies there; what changes it goes to a copy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::peers::Home;
use birdhouse_testkit::relays::{Kind, Loaded, Relay, Running};
use birdhouse_testkit::usage::Usage;

use super::RelayAt;
use crate::durations::seconds;
use crate::folder::{self, disk_bytes};
use crate::record::{Cell, Layout, Measured, Record, Row, Table, Unit, listed};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Servers {
    /// A relay that runs: NAME=ws://HOST:PORT, and #PID for its CPU time and memory.
    #[arg(long = "relay", required_unless_present = "started")]
    relays: Vec<RelayAt>,
    /// Relays that are started here, on loopback. The first of all is compared with the others; these come first.
    #[arg(long = "servers", value_delimiter = ',', value_enum, requires = "work")]
    started: Vec<Kind>,
    /// A folder for the events of relays that are started here; they are kept and used again.
    #[arg(long)]
    work: Option<PathBuf>,
    /// The binary to measure: by default the one beside this program.
    #[arg(long, default_value_os_t = crate::birdhouse_beside())]
    birdhouse: PathBuf,
}

/// In a relay's folder, when it is filled: the row that tells what that cost.
const COST: &str = "cost.json";

/// Somebody on the list.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    /// It runs already.
    At(RelayAt),
    /// It is started here.
    Own(Kind),
}

/// What the events of a relay that is started here may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// They stay as they are.
    Events,
    /// A copy is made, and gone with the relay.
    Copy,
}

/// A relay that can be asked.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) at: RelayAt,
    // In the order in which they go.
    _running: Option<Running>,
    _copy: Option<Copied>,
}

/// A folder that goes with us.
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
            Self::At(_) => "not known here".to_owned(),
            Self::Own(kind) => listed(kind.settings()),
        }
    }
}

impl Servers {
    pub(super) fn entries(&self) -> Vec<Entry> {
        let own = self.started.iter().copied().map(Entry::Own);
        own.chain(self.relays.iter().cloned().map(Entry::At)).collect()
    }

    /// A record of what is measured at these.
    pub(super) fn begin(&self, title: &str) -> Record {
        let mut record = Record::begin(title, self.work.as_deref().unwrap_or(Path::new(".")));
        record.servers =
            self.entries().iter().map(|entry| Measured::new(entry.name(), None, entry.settings())).collect();
        record
    }

    /// Those that are started here and have no events take these in; what that cost, now or when it was done.
    pub(super) fn fill(&self, events: &Path) -> Result<Option<Table>> {
        let columns = [
            ("wall", Unit::Seconds),
            ("CPU", Unit::Seconds),
            ("most memory", Unit::Bytes),
            ("on disk", Unit::Bytes),
            ("way", Unit::Words),
        ];
        let meaning =
            format!("{} goes into an empty relay, the fastest way, when it is started here first.", file_name(events));
        let mut table = Table::new("Events taken in", meaning, Layout::ServersInRows, columns);
        for kind in self.started.iter().copied() {
            match filled(kind, &self.birdhouse, &self.folder(kind)?, events) {
                Ok(row) => table.rows.push(row),
                Err(error) => table.push(kind.title(), [Cell::failed(&error)]),
            }
        }
        Ok((!table.rows.is_empty()).then_some(table))
    }

    /// One who can be asked.
    pub(super) fn stand(&self, entry: &Entry, keep: Keep) -> Result<Standing> {
        let kind = match entry {
            Entry::At(at) => return Ok(Standing { at: at.clone(), _running: None, _copy: None }),
            Entry::Own(kind) => *kind,
        };
        let folder = self.folder(kind)?;
        let copy = (keep == Keep::Copy).then(|| Copied::of(&folder)).transpose()?;
        let home = Home::Folder(copy.as_ref().map_or(folder, |copy| copy.0.clone()));
        let running = Relay::new(kind, &self.birdhouse, home)?.start()?;
        let at = RelayAt::started(entry.name(), &running);
        Ok(Standing { at, _running: Some(running), _copy: copy })
    }

    fn folder(&self, kind: Kind) -> Result<PathBuf> {
        let name = kind.title().replace(' ', "-").to_lowercase();
        Ok(self.work.as_ref().context("--work says where relays keep their events")?.join(name))
    }
}

/// Takes events into a relay that has not taken them in to the end yet; the row that tells what that cost, now or when it was done.
pub(crate) fn filled(kind: Kind, birdhouse: &Path, folder: &Path, events: &Path) -> Result<Row> {
    let cost = folder.join(COST);
    if cost.exists() {
        let row = serde_json::from_slice(&fs::read(&cost)?);
        return row.with_context(|| format!("{} is not of this program", cost.display()));
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
        Some(taken) => format!("{}; it took {taken}", kind.way_of_loading()),
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

impl Standing {
    /// Its memory now, if its process is known.
    pub(super) fn usage(&self) -> Result<Option<Usage>> {
        Ok(self.at.pid.map(Usage::of).transpose()?)
    }
}

/// What relays hold in memory.
pub(super) fn memory<'a>(standings: impl IntoIterator<Item = &'a Standing>) -> Table {
    let columns = ["resident", "of that its own", "most"].map(|title| (title, Unit::Bytes));
    let meaning =
        "At the end. What is not its own are maps of files, which the system takes back when it needs memory.";
    let mut table = Table::new("Memory", meaning, Layout::ServersInRows, columns);
    for standing in standings {
        table.push_result(&standing.at.name, &standing.usage(), |usage| match usage {
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
            // LMDB's file has holes.
            let copying = Command::new("cp").args(["-a", "--sparse=always"]).arg(folder).arg(&copy.0).output()?;
            ensure!(copying.status.success(), "cannot copy: {}", String::from_utf8_lossy(&copying.stderr));
        }
        Ok(copy)
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // At worst it stays, and the next copy says so.
        let _ = folder::remove(&self.0);
    }
}
