//! The stores of a data folder, open: verified by their checksums, and backed up. A running server does both through
//! its control socket.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use birdhouse_chain::TABLES;
use birdhouse_store::{Error, Scrub, SegmentOptions, SegmentStore, Store as _, Table};
use serde::{Deserialize, Serialize};

use crate::config::Options;
use crate::index::setup;
use crate::process::private;
use crate::services::relay;

/// Parts of a second that a paced run sleeps for each part that it reads.
const REST: u32 = 3;
/// Damaged places that are described.
const DESCRIBED_MAX: usize = 100;
/// The self-signed certificate, which wallets remember.
const CERTIFICATE: &str = "electrum-tls.pem";

/// Stores that are open, and the folder of the data.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) data_dir: PathBuf,
    pub(crate) stores: Vec<(Part, PathBuf, Arc<SegmentStore>)>,
}

/// A half of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    Index,
    Relay,
}

/// The share of the machine that work takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Full,
    /// A quarter of the time, beside a server.
    Gentle,
}

/// The outcome of verifying checksums.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Checked {
    pub(crate) bytes: u64,
    pub(crate) damaged: u64,
    /// The first damaged places.
    pub(crate) places: Vec<(Part, String)>,
}

/// The outcome of a backup.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct BackedUp {
    pub(crate) parts: Vec<Part>,
    /// Bytes that were read again from the backup and proved.
    pub(crate) proved_bytes: u64,
}

impl Part {
    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Relay => "relay",
        }
    }
}

impl Stores {
    /// Opens the stores that exist, without a node and its blocks.
    ///
    /// # Errors
    /// That of the first store that cannot be opened, for example because a server runs.
    pub(crate) fn open(options: &Options) -> Result<Self> {
        let data_dir = options.data_dir()?;
        let mut stores = Vec::new();
        let mut add = |part: Part, folder: PathBuf, tables: &[Table]| -> Result<()> {
            if folder.join("VERSION").exists() {
                let store = SegmentStore::open(&folder, tables, SegmentOptions::default());
                let store = store.with_context(|| format!("failed to open the {}", part.name()))?;
                stores.push((part, folder, Arc::new(store)));
            }
            Ok(())
        };
        if options.has_bitcoin() {
            add(Part::Index, setup::index_dir(options)?, &TABLES)?;
        }
        add(Part::Relay, relay::folder(options)?, birdhouse_events::TABLES)?;
        if stores.is_empty() {
            bail!("found no data in {}; set --data-dir and --network", data_dir.display());
        }
        Ok(Self { data_dir, stores })
    }

    /// Returns the memory of what the log of each store has alone.
    pub(super) fn unflushed_bytes(&self) -> Vec<(Part, u64)> {
        self.stores.iter().map(|(part, _, store)| (*part, store.unflushed_bytes())).collect()
    }

    /// Reads all files and proves their checksums.
    pub(crate) fn check(&self, pace: Pace) -> Result<Checked> {
        let mut checked = Checked::default();
        for (part, _, store) in &self.stores {
            store.scrub(&mut Paced { pace, part: *part, since: Instant::now(), checked: &mut checked })?;
        }
        Ok(checked)
    }

    /// Writes a data folder with what is published now, and proves its checksums.
    pub(crate) fn back_up(&self, folder: &Path, pace: Pace) -> Result<BackedUp> {
        if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            bail!("failed to back up to {}: the folder is not empty; choose a new one", folder.display());
        }
        private::folder(folder)?;
        let mut done = BackedUp::default();
        for (part, from, store) in &self.stores {
            if store.manifest()?.is_none() {
                continue;
            }
            let target = folder.join(from.strip_prefix(&self.data_dir).unwrap_or(from));
            let mut since = Instant::now();
            let mut go_on = || {
                rest(pace, &mut since);
                ControlFlow::Continue(())
            };
            store.backup(&target, &mut go_on)?;
            done.proved_bytes += prove(*part, &target, pace)?;
            done.parts.push(*part);
        }
        copy_if_present(&self.data_dir, folder, Path::new(CERTIFICATE))?;
        if done.parts.contains(&Part::Relay) {
            copy_if_present(&self.data_dir, folder, &Path::new(relay::FOLDER).join(relay::RULES))?;
        }
        Ok(done)
    }
}

/// Copies a file of a data folder to the same place in another one.
fn copy_if_present(from: &Path, to: &Path, file: &Path) -> Result<()> {
    if from.join(file).exists() {
        std::fs::copy(from.join(file), to.join(file))
            .with_context(|| format!("failed to copy {} to {}", from.join(file).display(), to.display()))?;
    }
    Ok(())
}

/// Opens a backup as its user will, and proves its checksums.
fn prove(part: Part, folder: &Path, pace: Pace) -> Result<u64> {
    let tables: &[Table] = if part == Part::Index { &TABLES } else { birdhouse_events::TABLES };
    let store = SegmentStore::open(folder, tables, SegmentOptions::default());
    let store = store.with_context(|| format!("failed to open the backup of the {}", part.name()))?;
    let mut checked = Checked::default();
    store.scrub(&mut Paced { pace, part, since: Instant::now(), checked: &mut checked })?;
    match checked.places.first() {
        None => Ok(checked.bytes),
        Some((_, place)) => bail!("the backup has a damaged place: {place}; run `birdhouse verify --quick`"),
    }
}

struct Paced<'a> {
    pace: Pace,
    part: Part,
    /// End of the last rest.
    since: Instant,
    checked: &'a mut Checked,
}

impl Scrub for Paced<'_> {
    fn found(&mut self, damage: Error) {
        self.checked.damaged += 1;
        if self.checked.places.len() < DESCRIBED_MAX {
            self.checked.places.push((self.part, damage.to_string()));
        }
    }

    fn read(&mut self, bytes: u64) -> ControlFlow<()> {
        self.checked.bytes += bytes;
        rest(self.pace, &mut self.since);
        ControlFlow::Continue(())
    }
}

/// Sleeps as the pace asks, for the time since the last rest.
fn rest(pace: Pace, since: &mut Instant) {
    if pace == Pace::Gentle {
        std::thread::sleep(since.elapsed() * REST);
        *since = Instant::now();
    }
}
