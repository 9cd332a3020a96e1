//! Opens the file and the state, reads the file again, and lends both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use birdhouse_chain::Index;
use bitcoin::Network;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::running::Running;
use super::status::WatchStatus;
use crate::channel::{Channels, Surroundings};
use crate::error::{Error, Result};
use crate::file::{HealthSettings, WatchFile};
use crate::notice::{Health, Notice};
use crate::state::State;

/// All watches of a server. Clones share them.
#[derive(Clone)]
pub struct Watches {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) paths: Paths,
    pub(super) network: Network,
    pub(super) index: Arc<Index>,
    pub(super) runtime: Handle,
    /// Makes the channels of the file; without it notices stay in the log.
    pub(super) delivery: OnceLock<Channels>,
    /// The file of notices, once somebody needs it.
    pub(super) state: Mutex<Option<State>>,
    /// Everything that runs, once the file has a watch or a channel. Held for no longer than a clone takes.
    pub(super) running: Mutex<Option<Arc<Running>>>,
    /// Held while the file is read and put to work, which waits for an update under way.
    pub(super) reloading: Mutex<()>,
    /// The reason why the file could not be put to work when it was read last.
    pub(super) fault: Mutex<Option<String>>,
}

/// The files of watches.
#[derive(Debug, Clone)]
pub struct Paths {
    /// `watches.toml`.
    pub file: PathBuf,
    /// `watch-<network>.redb`.
    pub state: PathBuf,
}

impl std::fmt::Debug for Watches {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Watches").field("paths", &self.inner.paths).finish_non_exhaustive()
    }
}

impl Watches {
    /// Returns the watches of an index, before the file is read.
    pub fn new(paths: Paths, network: Network, index: Arc<Index>, runtime: Handle) -> Self {
        Self {
            inner: Arc::new(Inner {
                paths,
                network,
                index,
                runtime,
                delivery: OnceLock::new(),
                state: Mutex::default(),
                running: Mutex::default(),
                reloading: Mutex::default(),
                fault: Mutex::default(),
            }),
        }
    }

    /// Delivers notices by the channels of the file. Called once, before the file is read.
    pub fn deliver_with(&self, surroundings: Surroundings) {
        let _ = self.inner.delivery.set(Channels::new(surroundings));
    }

    /// Returns the path of the watch file.
    pub fn path(&self) -> &Path {
        &self.inner.paths.file
    }

    /// Reads the watch file again, and begins to follow the index if there is a first watch or channel. A file with a
    /// mistake changes nothing but the [status](Self::status), which has the reason.
    ///
    /// # Errors
    /// The file has a mistake, or the state cannot be opened.
    pub fn reload(&self) -> Result<()> {
        let _one_at_a_time = self.inner.reloading.lock();
        let read = self.read_file();
        *self.inner.fault.lock() = read.as_ref().err().map(ToString::to_string);
        read
    }

    fn read_file(&self) -> Result<()> {
        let inner = &self.inner;
        let file = WatchFile::read(&inner.paths.file, inner.network)?;
        if let Some(running) = self.running() {
            // An empty file is a decision; a missing one may be a disk that is not there.
            let missing = || Error::File(format!("{} is missing; the watches go on", inner.paths.file.display()));
            let file = file.ok_or_else(missing)?;
            let channels = inner.open_channels(&file)?;
            running.set_file(file);
            return inner.deliver(&running, channels);
        }
        let file = file.unwrap_or_default();
        let channels = inner.open_channels(&file)?;
        if file == WatchFile::default() {
            return Ok(());
        }
        let state = self.open_state()?;
        let started = Arc::new(Running::new(state, file, Arc::clone(&inner.index), inner.network)?);
        inner.deliver(&started, channels)?;
        inner.runtime.spawn(Arc::clone(&started).follow());
        *inner.running.lock() = Some(started);
        Ok(())
    }

    /// Opens the file of notices, which is made without a watch file, too.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open_state(&self) -> Result<State> {
        let mut state = self.inner.state.lock();
        if let Some(state) = &*state {
            return Ok(state.clone());
        }
        Ok(state.insert(State::open(&self.inner.paths.state)?).clone())
    }

    /// Copies the file of notices for a backup, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or the copy cannot be written.
    pub fn back_up(&self, target: &Path) -> Result<()> {
        if self.inner.paths.state.exists() { self.open_state()?.back_up(target) } else { Ok(()) }
    }

    pub(super) fn running(&self) -> Option<Arc<Running>> {
        self.inner.running.lock().clone()
    }

    /// Returns the file that is in effect; empty if none is.
    pub fn file(&self) -> WatchFile {
        self.running().map(|running| running.file.read().clone()).unwrap_or_default()
    }

    /// Returns the settings of notices of the server's own state.
    pub fn health(&self) -> HealthSettings {
        self.running().map(|running| running.file.read().health.clone()).unwrap_or_default()
    }

    /// Returns the state, for readers of the log; `None` without a watch file.
    pub fn state(&self) -> Option<State> {
        self.running().map(|running| running.state.clone())
    }

    /// Receives the position of the last notice whenever it changes; `None` without a watch file.
    pub fn subscribe(&self) -> Option<watch::Receiver<u64>> {
        self.running().map(|running| running.last.subscribe())
    }

    /// Returns notices of the log from a position on, ascending, at most `count`.
    ///
    /// # Errors
    /// Damage, and failures of the disk.
    pub fn notices(&self, from_seq: u64, count: usize) -> Result<Vec<Notice>> {
        self.running().map_or(Ok(Vec::new()), |running| running.state.notices(from_seq, count))
    }

    /// Appends a change of the server's own state, for the channels that the file names for it, and keeps what it is
    /// about until its end is announced.
    ///
    /// # Errors
    /// Failures of the file of notices. Nothing is appended then.
    pub fn tell_health(&self, about: &str, health: &Health) -> Result<()> {
        let Some(running) = self.running() else { return Ok(()) };
        let channels = running.file.read().health.channels.clone();
        if channels.is_empty() { Ok(()) } else { running.append(about, health, channels) }
    }

    /// Returns the troubles of the server that were announced, and whose end was not, by what they are about. A process
    /// that ended meanwhile leaves them to the next one.
    ///
    /// # Errors
    /// Damage, and failures of the disk.
    pub fn standing_health(&self) -> Result<BTreeMap<String, Health>> {
        self.running().map_or_else(|| Ok(BTreeMap::new()), |running| running.state.warnings())
    }

    /// Returns the state of all watches.
    pub fn status(&self) -> WatchStatus {
        let fault = self.inner.fault.lock().clone();
        let Some(running) = self.running() else { return WatchStatus { fault, ..WatchStatus::default() } };
        WatchStatus {
            watches: running.views.lock().clone(),
            channels: running.channels(),
            waiting: running.waiting.lock().clone(),
            fault,
            notices: *running.last.borrow(),
        }
    }
}
