//! A replica: it copies the index of another process once, follows its changes, and serves it as a front end does
//! (`--follow`).
//!
//! Invariant: what it serves is a state that the primary published. Whatever fails, it serves the last one, and tries
//! again.
//!
//! A replica that is too far behind copies what differs into `replica/N+1` while it serves `N`. The index reads the
//! copy as one on a cluster, and mempool and blocks from a node of its own.

mod copy;
pub(super) mod failure;
pub(super) mod primary;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use birdhouse_chain::source::BlockSource;
use birdhouse_chain::{Index, TABLES, is_same_index};
use birdhouse_store::{Change, FileReplica, Replica, RunFile, SegmentOptions, SegmentStore, Store};
use bitcoin::Network;
use bitcoin::blockdata::constants::genesis_block;
use parking_lot::{Mutex, RwLock};

use self::copy::{Copies, write_pieces};
use self::failure::Failure;
use self::primary::{Next, Place, Primary};
use crate::config::{Options, secrets};
use crate::sockets::listeners;
use crate::sockets::protocols::RELAY;
use crate::storage::CopiedIndex;

/// Pause before a failed request is repeated: doubled each time, from the first to the second.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(3);
/// Time of failures after which the health reports them.
const REPORTED_AFTER: Duration = Duration::from_secs(10);

/// The replica that is served, and the copies it lies in.
pub(crate) struct Follower {
    primary: Primary,
    copies: Copies,
    cache_bytes: u64,
    /// Replaced when the index was copied anew.
    replica: RwLock<Arc<FileReplica>>,
    /// The last failure, and the time since which the primary could not be followed.
    failing: Mutex<Option<(Instant, String)>>,
}

/// Opens the replica of another process; copies its index first where there is none yet.
pub(crate) fn open(
    options: &Options,
    url: &str,
    network: Network,
    folder: &Path,
    source: &Arc<dyn BlockSource>,
) -> Result<(Arc<Follower>, Index)> {
    if options.store.is_some() || options.role.is_some() {
        bail!("--follow copies an index into files; remove it, or --store and --role");
    }
    if !listeners::plan_of(options, &RELAY)?.is_empty() {
        bail!("failed to follow {url}: a replica has the index alone; run the relay in a process with --bitcoin off");
    }
    let primary = Primary::new(url, secrets::of_replicas(options)?.as_deref())?;
    let copies = Copies::of(folder)?;
    let cache_bytes = options.sizes().cache;
    let copied = match copies.newest()? {
        Some(folder) => folder,
        None => patiently(|| copies.copy(&primary, |_| Ok(())))?,
    };
    copies.remove_older()?;
    let replica = RwLock::new(Arc::new(open_copy(&copied, cache_bytes)?));
    let follower = Arc::new(Follower { primary, copies, cache_bytes, replica, failing: Mutex::default() });
    let index = Index::open_front(&*follower, Arc::clone(source), genesis_block(network).block_hash())
        .map_err(|error| anyhow!(error).context("failed to open the copied index"))?;
    let following = Arc::clone(&follower);
    // It ends with the process: a change that is cut off is applied again.
    std::thread::Builder::new().name("follow".into()).spawn(move || following.keep_following())?;
    Ok((follower, index))
}

fn open_copy(folder: &Path, cache_bytes: u64) -> Result<FileReplica, Failure> {
    let options = SegmentOptions { cache_bytes, ..SegmentOptions::default() };
    let advice = |error: birdhouse_store::Error| match error {
        birdhouse_store::Error::Corrupt { .. } => Failure::Permanent(format!(
            "failed to open the copied index: {error}; remove {} to copy it anew",
            folder.display()
        )),
        error => Failure::Transient(error.to_string()),
    };
    let store = SegmentStore::open(folder, &TABLES, options).map_err(advice)?;
    FileReplica::new(Arc::new(store)).map_err(advice)
}

/// Returns the newest finished copy in the folder of an index. Creates nothing.
pub(crate) fn newest_copy(index_dir: &Path) -> Option<PathBuf> {
    Copies::in_folder(index_dir).newest().ok().flatten()
}

/// Opens a copy that nothing follows.
///
/// # Errors
/// It cannot be read.
pub(crate) fn open_stopped(store: Arc<SegmentStore>, source: Arc<dyn BlockSource>, network: Network) -> Result<Index> {
    let replica = FileReplica::new(store)?;
    Ok(Index::open_front(&replica, source, genesis_block(network).block_hash())?)
}

/// Repeats what may pass.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    let mut pause = RETRY_MIN;
    loop {
        match attempt() {
            Err(Failure::Transient(reason)) => {
                tracing::warn!(reason, "failed to copy the index of the primary; trying again");
                std::thread::sleep(pause);
                pause = (pause * 2).min(RETRY_MAX);
            }
            outcome => return outcome,
        }
    }
}

// === impl Follower ===

impl Follower {
    fn keep_following(&self) {
        let mut pause = RETRY_MIN;
        loop {
            match self.follow() {
                Ok(()) => pause = RETRY_MIN,
                Err(failure) => {
                    if self.note(failure.to_string()) {
                        pause = RETRY_MIN;
                    }
                }
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(RETRY_MAX);
        }
    }

    /// Notes a failure; returns true, and logs it, if it is the first one since the primary was followed.
    fn note(&self, reason: String) -> bool {
        let mut failing = self.failing.lock();
        let since = failing.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        let is_first = failing.is_none();
        if is_first {
            tracing::warn!(reason, "failed to follow the primary; serving what is known, trying again");
        }
        *failing = Some((since, reason));
        is_first
    }

    /// Follows until something fails, or until the index has to be copied anew or was.
    fn follow(&self) -> Result<(), Failure> {
        let replica = Arc::clone(&self.replica.read());
        let manifest = manifest_of(&*replica)?;
        let Some(mut place) = self.primary.place(&manifest)? else { return self.copy_anew(&manifest) };
        loop {
            match self.primary.change(place)? {
                Next::NotYet => {}
                Next::Gone => return Ok(()),
                Next::Change(bytes) => {
                    self.apply(&replica, place, &bytes)?;
                    place.number += 1;
                }
            }
            // Not before: a change may be there and not fit on the disk.
            if self.failing.lock().take().is_some() {
                tracing::info!("following the primary again");
            }
        }
    }

    fn apply(&self, replica: &FileReplica, place: Place, bytes: &[u8]) -> Result<(), Failure> {
        let change = Change::decode(bytes)?;
        for file in change.files() {
            self.fetch(place.run, file, &replica.path(file))?;
        }
        replica.apply(&change, &AtomicBool::new(false))?;
        let file_bytes: u64 = change.files().map(|file| file.bytes).sum();
        tracing::debug!(number = place.number, bytes = bytes.len(), file_bytes, "applied a change");
        Ok(())
    }

    fn fetch(&self, run: u64, file: RunFile, path: &Path) -> Result<(), Failure> {
        let mut out = File::create(path).map_err(|error| Failure::io("write", path, &error))?;
        write_pieces(&mut out, path, 0..file.bytes, |at| self.primary.piece_of_run(run, file, at))
    }

    /// Copies the index beside the one that is served, and serves the copy then.
    fn copy_anew(&self, manifest: &[u8]) -> Result<(), Failure> {
        let is_ours = |theirs: &[u8]| match is_same_index(manifest, theirs) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::Permanent(format!(
                "{} has another index than this replica: it was built anew; start with an empty --data-dir to copy it",
                self.primary.url()
            ))),
            Err(error) => Err(Failure::Permanent(error.to_string())),
        };
        tracing::info!("the primary no longer has the changes that follow; copying what differs");
        let folder: PathBuf = self.copies.copy(&self.primary, is_ours)?;
        *self.replica.write() = Arc::new(open_copy(&folder, self.cache_bytes)?);
        Ok(())
    }
}

fn manifest_of(replica: &dyn Replica) -> Result<Vec<u8>, Failure> {
    let newest = replica.newest()?.map(|state| state.manifest()).transpose()?.flatten();
    newest.ok_or_else(|| Failure::Permanent("the copied index has no manifest".to_owned()))
}

impl Replica for Follower {
    fn newest(&self) -> birdhouse_store::Result<Option<Arc<dyn Store>>> {
        self.replica.read().newest()
    }
}

impl CopiedIndex for Follower {
    fn failure(&self) -> Option<String> {
        let failing = self.failing.lock();
        failing.as_ref().filter(|(since, _)| since.elapsed() >= REPORTED_AFTER).map(|(_, reason)| reason.clone())
    }
}
