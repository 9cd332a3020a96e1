//! The copy of the index that replicas begin with: a backup in the folder of the index, made when one asks.
//!
//! Invariant: at most one copy is held. It is replaced when no replica can follow from it any more and none has read it
//! lately, and removed when none has read it for a while.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use birdhouse_store::{SegmentStore, Store as _};
use parking_lot::Mutex;

use super::wire::{ListedFile, Listing, sha256_of};
use crate::process::random;

/// Folder of the copy in the folder of the index.
const FOLDER: &str = "replica-copy";
/// Time without a read after which another replica may have the copy replaced.
const READ_LATELY: Duration = Duration::from_mins(1);
/// Time without a read after which the copy is removed.
const IDLE_MAX: Duration = Duration::from_mins(10);
/// File of a store without which it is none.
const VERSION: &str = "VERSION";

/// The copy, made or not.
pub(super) struct Copies {
    store: Arc<SegmentStore>,
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Clone)]
enum State {
    None,
    Making,
    Ready { listing: Arc<Listing>, read: Instant },
    Failed(String),
}

/// The answer to a replica that wants a copy.
pub(super) enum Wanted {
    Making,
    Ready(Arc<Listing>),
    /// Another replica reads an older one.
    Busy,
    Failed(String),
}

impl Copies {
    pub(super) fn new(store: Arc<SegmentStore>, index_dir: &Path) -> Self {
        Self { store, folder: index_dir.join(FOLDER), state: Mutex::new(State::None) }
    }

    /// Returns the copy, or begins to make it. `is_followable` tells whether the changes after a manifest are kept.
    pub(super) fn want(self: &Arc<Self>, is_followable: impl Fn(&[u8]) -> bool) -> Wanted {
        let mut state = self.state.lock();
        match &*state {
            State::Making => return Wanted::Making,
            State::Ready { listing, .. } if is_followable(&listing.manifest) => {
                return Wanted::Ready(Arc::clone(listing));
            }
            State::Ready { read, .. } if read.elapsed() < READ_LATELY => return Wanted::Busy,
            State::Failed(reason) => {
                let reason = reason.clone();
                *state = State::None;
                return Wanted::Failed(reason);
            }
            State::Ready { .. } | State::None => {}
        }
        *state = State::Making;
        let copies = Arc::clone(self);
        std::thread::spawn(move || {
            let made = copies.make();
            if let Err(error) = &made {
                tracing::warn!(error = format!("{error:#}"), "failed to make a copy for replicas");
            }
            *copies.state.lock() = match made {
                Ok(listing) => State::Ready { listing: Arc::new(listing), read: Instant::now() },
                Err(error) => State::Failed(format!("{error:#}")),
            };
        });
        Wanted::Making
    }

    fn make(&self) -> Result<Listing> {
        let began = Instant::now();
        remove(&self.folder)?;
        // The copy has this manifest, or a later one.
        let manifest = self.store.manifest()?.context("nothing was published yet")?;
        self.store.backup(&self.folder, &mut || ControlFlow::Continue(()))?;
        let mut files = Vec::new();
        list(&self.folder, "", &mut files)?;
        files.sort_by_key(|file| (file.path == VERSION, file.path.clone()));
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let id = u64::from_le_bytes(random::bytes()?);
        tracing::info!(
            files = files.len(),
            bytes,
            elapsed_ms = began.elapsed().as_millis(),
            "made a copy for replicas"
        );
        Ok(Listing { id, manifest, files })
    }

    /// Returns the path of a file of a copy; `None` if the copy is gone.
    pub(super) fn path(&self, id: u64, path: &str) -> Option<PathBuf> {
        let mut state = self.state.lock();
        let State::Ready { listing, read } = &mut *state else { return None };
        let file = listing.files.iter().find(|file| listing.id == id && file.path == path)?;
        *read = Instant::now();
        Some(self.folder.join(&file.path))
    }

    /// Removes the copy if nobody has read it for a while, or if an earlier process left it.
    pub(super) fn expire(&self) {
        let mut state = self.state.lock();
        let is_unused = match &*state {
            State::Ready { read, .. } => read.elapsed() > IDLE_MAX,
            State::None => self.folder.exists(),
            State::Making | State::Failed(_) => false,
        };
        if is_unused {
            *state = State::None;
            if let Err(error) = remove(&self.folder) {
                tracing::warn!(error = format!("{error:#}"), "failed to remove the copy for replicas");
            }
        }
    }
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("failed to remove {}", folder.display()))?;
    }
    Ok(())
}

fn list(folder: &Path, inside: &str, files: &mut Vec<ListedFile>) -> Result<()> {
    let failed = || format!("failed to read {}", folder.display());
    for entry in folder.read_dir().with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let path = format!("{inside}{}", entry.file_name().to_string_lossy());
        let metadata = entry.metadata().with_context(failed)?;
        if metadata.is_dir() {
            list(&entry.path(), &format!("{path}/"), files)?;
        } else {
            let sha256 = sha256_of(&entry.path()).with_context(failed)?;
            files.push(ListedFile { path, bytes: metadata.len(), sha256 });
        }
    }
    Ok(())
}
