//! The stores of a data folder, open: verified by their checksums, and backed up. A running server does both through
//! its control socket.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use birdhouse_chain::TABLES;
use birdhouse_store::{Error, Scrub, SegmentOptions, SegmentStore, Store as _, Table};
use birdhouse_watch::{State, Watches};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::config::{Options, watch_files};
use crate::index::{derived, setup};
use crate::process::private;
use crate::process::users::OtherUser;
use crate::services::{blossom, relay, relay_members, rules, streams};
use crate::sockets::ONION_KEY;

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
    pub(crate) open: Vec<(Part, PathBuf, Arc<SegmentStore>)>,
    /// The file of watches, which need not exist, nor lie in that folder.
    pub(crate) watch_file: PathBuf,
    /// The watches of a running server.
    pub(crate) watches: Option<Watches>,
    /// The media store of a running server, where it is on.
    pub(crate) media: Option<Arc<birdhouse_blossom::Store>>,
}

/// A part of the data with a store of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Index,
    /// The derived index of this name.
    Derived(&'static str),
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
    /// Files of the media store, if there is one.
    #[serde(default)]
    pub(crate) media_files: Option<u64>,
    /// Files that are missing in it.
    #[serde(default)]
    pub(crate) media_missing: u64,
}

impl Part {
    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Derived(name) => name,
            Self::Relay => "relay",
        }
    }

    /// Returns every part.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let derived = derived::KINDS.iter().map(|kind| Self::Derived(kind.name));
        std::iter::once(Self::Index).chain(derived).chain([Self::Relay])
    }

    fn tables(self) -> &'static [Table] {
        match self {
            Self::Index => &TABLES,
            Self::Derived(_) => &[],
            Self::Relay => birdhouse_events::TABLES,
        }
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let part = Self::all().find(|part| part.name() == name);
        part.ok_or_else(|| serde::de::Error::custom(format!("unknown part of the data: {name}")))
    }
}

impl Stores {
    /// Opens the stores that exist, without a node and its blocks.
    ///
    /// # Errors
    /// That of the first store that cannot be opened, for example because a server runs.
    pub(crate) fn open(options: &Options) -> Result<Self> {
        let data_dir = options.data_dir()?;
        OtherUser::refuse(&data_dir)?;
        let mut stores = Vec::new();
        let mut add = |part: Part, folder: PathBuf| -> Result<()> {
            if folder.join("VERSION").exists() {
                let store = SegmentStore::open(&folder, part.tables(), SegmentOptions::default());
                let store = store.with_context(|| format!("failed to open the {}", part.name()))?;
                stores.push((part, folder, Arc::new(store)));
            }
            Ok(())
        };
        if options.has_bitcoin() {
            let network = setup::network(options)?;
            let index_dir = options.index_dir(network)?;
            if !index_dir.join("VERSION").exists()
                && let Some(others) = options.other_indexes(network)
            {
                bail!("found no index of {network} in {}, but of {others}; choose by --network", data_dir.display());
            }
            add(Part::Index, index_dir.clone())?;
            for kind in derived::KINDS {
                add(Part::Derived(kind.name), kind.folder(&index_dir))?;
            }
        }
        add(Part::Relay, relay::folder(options)?)?;
        if stores.is_empty() {
            bail!("found no data in {}; set --data-dir and --network", data_dir.display());
        }
        Ok(Self { data_dir, open: stores, watch_file: options.watch_file()?, watches: None, media: None })
    }

    /// Returns the memory of what the log of each store has alone.
    pub(super) fn unflushed_bytes(&self) -> Vec<(Part, u64)> {
        self.open.iter().map(|(part, _, store)| (*part, store.unflushed_bytes())).collect()
    }

    /// Reads all files and proves their checksums.
    pub(crate) fn check(&self, pace: Pace) -> Result<Checked> {
        let mut checked = Checked::default();
        for (part, _, store) in &self.open {
            store.scrub(&mut Paced { pace, part: *part, since: Instant::now(), checked: &mut checked })?;
        }
        Ok(checked)
    }

    /// Writes a data folder with what is published now, and proves its checksums.
    pub(crate) fn back_up(&self, folder: &Path, pace: Pace) -> Result<BackedUp> {
        check_is_new(folder)?;
        let mut published = Vec::new();
        for store in &self.open {
            if store.2.manifest()?.is_some() {
                published.push(store);
            }
        }
        let media = self.media();
        let is_empty = |media: &birdhouse_blossom::Store| media.total().is_ok_and(|total| total.files == 0);
        let has_media = media.as_ref().map_or(true, |media| media.as_ref().is_some_and(|media| !is_empty(media)));
        if published.is_empty() && !has_media {
            bail!("failed to back up: neither an index nor a relay has anything yet");
        }
        private::folder(folder)?;
        let mut done = BackedUp::default();
        for (part, from, store) in published {
            let target = folder.join(from.strip_prefix(&self.data_dir).unwrap_or(from));
            // Before the events: a place that is too low costs a comparison, one that is too high an event.
            let places = if *part == Part::Relay { std::fs::read(from.join(streams::FILE)).ok() } else { None };
            let mut since = Instant::now();
            let mut go_on = || {
                rest(pace, &mut since);
                ControlFlow::Continue(())
            };
            store.backup(&target, &mut go_on)?;
            if let Some(places) = places {
                std::fs::write(target.join(streams::FILE), places).context("failed to copy the places of streams")?;
            }
            done.proved_bytes += prove(*part, &target, pace)?;
            done.parts.push(*part);
        }
        for file in [CERTIFICATE, ONION_KEY, watch_files::KEY, watch_files::API_TOKEN] {
            copy_if_present(&self.data_dir.join(file), &folder.join(file))?;
        }
        copy_if_present(&self.watch_file, &folder.join(watch_files::FILE))?;
        for (part, from, _) in &self.open {
            let folder_of_part = from.strip_prefix(&self.data_dir).unwrap_or(from);
            // The log last: an entry without its change is all that a change in between leaves.
            for file in [rules::FILE, relay_members::KEY, birdhouse_relay::AUDIT_FILE] {
                copy_if_present(&from.join(file), &folder.join(folder_of_part).join(file))?;
            }
            if *part == Part::Index && done.parts.contains(part) {
                self.copy_notices(folder, &watch_files::state(folder_of_part))?;
            }
        }
        // Last: an index or a file of it that is damaged keeps nothing else from the backup.
        if let Some(media) = media? {
            self.back_up_media(&media, folder, &mut done, pace)?;
        }
        Ok(done)
    }
}

impl Stores {
    /// Returns the media store: that of the server, or of one that was on before.
    fn media(&self) -> Result<Option<Arc<birdhouse_blossom::Store>>> {
        match &self.media {
            Some(media) => Ok(Some(Arc::clone(media))),
            None => Ok(media_at(&self.data_dir.join(blossom::FOLDER))?.map(Arc::new)),
        }
    }

    /// Copies the media store, whose files are links where the disk is the same.
    fn back_up_media(
        &self,
        media: &birdhouse_blossom::Store,
        folder: &Path,
        done: &mut BackedUp,
        pace: Pace,
    ) -> Result<()> {
        let (from, target) = (self.data_dir.join(blossom::FOLDER), folder.join(blossom::FOLDER));
        private::folder(&target)?;
        let mut since = Instant::now();
        let copied = media.back_up(&target, &mut || rest(pace, &mut since));
        let copied = copied.with_context(|| format!("failed to copy {} to {}", from.display(), target.display()))?;
        done.proved_bytes += copied.usage.bytes;
        done.media_files = Some(copied.usage.files);
        done.media_missing = copied.missing;
        if let Some(first) = copied.damaged.first() {
            bail!(
                "the backup is whole but for {} damaged files of the media store, such as {}: their bytes are not those \
                 of their names; remove them, or restore them from an older backup",
                copied.damaged.len(),
                first.display()
            );
        }
        Ok(())
    }

    /// Copies the file of notices, which a running server has open.
    fn copy_notices(&self, folder: &Path, file: &Path) -> Result<()> {
        let (from, to) = (self.data_dir.join(file), folder.join(file));
        if !from.exists() {
            return Ok(());
        }
        let copied = match &self.watches {
            Some(watches) => watches.back_up(&to),
            None => State::open(&from).and_then(|state| state.back_up(&to)),
        };
        copied.with_context(|| format!("failed to copy {} to {}", from.display(), to.display()))
    }
}

/// Opens the media store of a folder, if there is one.
fn media_at(folder: &Path) -> Result<Option<birdhouse_blossom::Store>> {
    if !birdhouse_blossom::Store::is_at(folder) {
        return Ok(None);
    }
    let store = birdhouse_blossom::Store::open(folder);
    store.with_context(|| format!("failed to open the media store {}", folder.display())).map(Some)
}

/// Checks that the folder of a backup has nothing yet.
pub(crate) fn check_is_new(folder: &Path) -> Result<()> {
    if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("failed to back up to {}: the folder is not empty; choose a new one", folder.display());
    }
    Ok(())
}

/// Copies a file, if it is there.
fn copy_if_present(from: &Path, to: &Path) -> Result<()> {
    if from.exists() {
        // A relay has rules and keys before it has events.
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        }
        std::fs::copy(from, to).with_context(|| format!("failed to copy {} to {}", from.display(), to.display()))?;
    }
    Ok(())
}

/// Opens a backup as its user will, and proves its checksums.
fn prove(part: Part, folder: &Path, pace: Pace) -> Result<u64> {
    let store = SegmentStore::open(folder, part.tables(), SegmentOptions::default());
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
