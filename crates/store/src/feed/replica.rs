//! A replica in files: it applies the changes of another store, and shows each published state.
//!
//! Invariants: a change is applied wholly before its manifest is published here, so a crash leaves the state before it,
//! and applying it again is harmless. A table is emptied after every state that may read it was let go.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::change::{Change, Kind, RunFile};
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::range::{KeyRange, Page, PageLimit};
use crate::read_only::{ReadOnly, Reads};
use crate::segments::SegmentStore;
use crate::store::{Array, FinishedRun, Replica, Store};
use crate::table::{ArraySpec, Table};

/// Arrays that a replica may have.
const ARRAYS_MAX: usize = 64;
/// Pause between two looks at whether older states were let go.
const LOOK: Duration = Duration::from_millis(20);

/// A store in files that follows another one.
#[derive(Debug)]
pub struct FileReplica {
    store: Arc<SegmentStore>,
    states: Mutex<States>,
    /// Names of arrays, which live as long as the process.
    arrays: Mutex<BTreeMap<String, &'static str>>,
}

/// The published states that somebody may read.
#[derive(Debug, Default)]
struct States {
    newest: Option<Arc<ReadOnly<PublishedState>>>,
    older: Vec<Weak<ReadOnly<PublishedState>>>,
}

/// One published state.
#[derive(Debug)]
struct PublishedState {
    store: Arc<SegmentStore>,
    manifest: Vec<u8>,
}

// === impl FileReplica ===

impl FileReplica {
    /// Returns the replica in a store that was copied from the followed one. Nobody else may write it.
    ///
    /// # Errors
    /// Those of reading its manifest.
    pub fn new(store: Arc<SegmentStore>) -> Result<Self> {
        let state = |manifest| ReadOnly(PublishedState { store: Arc::clone(&store), manifest });
        let newest = store.manifest()?.map(|manifest| Arc::new(state(manifest)));
        let states = Mutex::new(States { newest, older: Vec::new() });
        Ok(Self { store, states, arrays: Mutex::default() })
    }

    /// Returns the path at which a file of a change must be, whole, before the change is applied.
    pub fn path(&self, file: RunFile) -> PathBuf {
        self.store.bulk_folder().join(format!("replica-{}.seg", file.number))
    }

    /// Applies a change, and publishes its manifest. Waits for readers of older states before it empties a table.
    /// Returns false if `stop` ended it before the publish.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when one of its files is damaged; [`Error::Engine`] when it has tables that this store lacks.
    pub fn apply(&self, change: &Change<'_>, stop: &AtomicBool) -> Result<bool> {
        if !self.apply_unpublished(change, stop)? {
            return Ok(false);
        }
        self.store.publish(change.manifest)?;
        self.show(change.manifest);
        Ok(true)
    }

    pub(super) fn apply_unpublished(&self, change: &Change<'_>, stop: &AtomicBool) -> Result<bool> {
        let mut batch = Batch::new();
        let mut runs = Vec::new();
        for operation in &change.operations {
            if !matches!(operation.kind, Kind::Put { .. } | Kind::Delete { .. }) {
                self.store.write_batch(&std::mem::take(&mut batch))?;
            }
            if !matches!(operation.kind, Kind::LoadWith(_)) {
                self.load(&mut runs)?;
            }
            match operation.kind {
                Kind::Put { key, value } => batch.put(self.table(operation.name)?, key, value),
                Kind::Delete { key } => batch.delete(self.table(operation.name)?, key),
                Kind::Records { record_bytes, first, records } => {
                    self.array(operation.name, record_bytes)?.write(first, records)?;
                }
                Kind::Cut { record_bytes, len } => {
                    let array = self.array(operation.name, record_bytes)?;
                    // It may be cut already: a crash came after.
                    array.truncate(len.min(array.len()))?;
                }
                Kind::Clear => {
                    if !self.wait_for_readers(stop) {
                        return Ok(false);
                    }
                    self.store.clear(self.table(operation.name)?)?;
                }
                Kind::Load(file) | Kind::LoadWith(file) => {
                    runs.push(self.store.adopt_run(self.table(operation.name)?, self.path(file))?);
                }
            }
        }
        self.store.write_batch(&batch)?;
        self.load(&mut runs)?;
        Ok(true)
    }

    fn load(&self, runs: &mut Vec<FinishedRun>) -> Result<()> {
        if runs.is_empty() { Ok(()) } else { self.store.bulk_load(std::mem::take(runs)) }
    }

    fn show(&self, manifest: &[u8]) {
        let state = ReadOnly(PublishedState { store: Arc::clone(&self.store), manifest: manifest.to_vec() });
        let mut states = self.states.lock();
        if let Some(before) = states.newest.replace(Arc::new(state)) {
            states.older.push(Arc::downgrade(&before));
        }
        states.older.retain(|state| state.strong_count() > 0);
    }

    /// Waits until nobody reads a state before the newest one; false if `stop` came first.
    fn wait_for_readers(&self, stop: &AtomicBool) -> bool {
        while self.states.lock().older.iter().any(|state| state.strong_count() > 0) {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    fn table(&self, name: &str) -> Result<Table> {
        let unknown = || {
            Error::Engine(format!(
                "failed to apply a change: table {name} is unknown here; run the version of the followed process"
            ))
        };
        self.store.table(name).ok_or_else(unknown)
    }

    fn array(&self, name: &str, record_bytes: u32) -> Result<Arc<dyn Array>> {
        let mut known = self.arrays.lock();
        if known.len() >= ARRAYS_MAX && !known.contains_key(name) {
            return Err(Error::Engine(format!("failed to apply a change: it has more than {ARRAYS_MAX} arrays")));
        }
        let name = *known.entry(name.to_owned()).or_insert_with(|| String::leak(name.to_owned()));
        self.store.array(ArraySpec { name, record_bytes: record_bytes as usize })
    }

    /// Returns the folder of the store.
    pub fn folder(&self) -> &Path {
        self.store.folder()
    }
}

impl Replica for FileReplica {
    fn newest(&self) -> Result<Option<Arc<dyn Store>>> {
        Ok(self.states.lock().newest.clone().map(|state| state as Arc<dyn Store>))
    }
}

// === impl PublishedState ===

impl Reads for PublishedState {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.store.get_many(table, keys)
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        self.store.scan_many(table, ranges, limit)
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>> {
        Ok(Some(self.manifest.clone()))
    }

    /// The array of the followed store, which may have more records than this state names.
    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        self.store.array(spec)
    }

    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        self.store.sizes()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.store.free_bytes()
    }

    fn is_remote(&self) -> bool {
        false
    }
}
