//! Published states of a store that another process writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::array::{ArrayRef, check_numbers, check_run};
use super::cluster::{Cluster, Tables};
use super::lease;
use super::options::CqlOptions;
use super::published::Published;
use super::rows::TableRef;
use crate::error::{Error, Result, not_whole_records, record_size_differs};
use crate::range::{KeyRange, Page, PageLimit};
use crate::read_only::{ReadOnly, Reads, refused};
use crate::store::{Array, Replica, Store};
use crate::table::{ArraySpec, Table};

/// A reader of a store on a cluster. It writes nothing and needs no disk.
pub struct CqlReplica {
    cluster: Arc<Cluster>,
    place: String,
    /// Time for which a state may be read after it was last seen to be the newest.
    validity: Duration,
    newest: Mutex<Option<Newest>>,
}

struct Newest {
    number: i64,
    state: Arc<ReadOnly<PublishedState>>,
}

/// One published state.
struct PublishedState {
    cluster: Arc<Cluster>,
    place: String,
    published: Published,
    validity: Duration,
    /// A time at which the state was the newest.
    seen: Mutex<Instant>,
}

// === impl CqlReplica ===

impl CqlReplica {
    /// Connects to a cluster. Of the options it takes address, place and grace.
    ///
    /// # Errors
    /// [`Error::Cluster`] when no host answers, or when no process has created the store yet.
    pub fn open(options: &CqlOptions) -> Result<Self> {
        Ok(Self {
            cluster: Arc::new(Cluster::connect(&options.address, Tables::Expect)?),
            place: options.place.clone(),
            validity: options.grace / 2,
            newest: Mutex::new(None),
        })
    }

    fn state(&self, bytes: &[u8], seen: Instant) -> Result<Arc<ReadOnly<PublishedState>>> {
        Ok(Arc::new(ReadOnly(PublishedState {
            cluster: Arc::clone(&self.cluster),
            place: self.place.clone(),
            published: Published::decode(bytes)?,
            validity: self.validity,
            seen: Mutex::new(seen),
        })))
    }
}

impl Replica for CqlReplica {
    fn newest(&self) -> Result<Option<Arc<dyn Store>>> {
        let mut newest = self.newest.lock();
        let before = Instant::now();
        let place = self.place.clone();
        let row = self.cluster.wait(|link| async move { lease::read(&link, &place).await })?;
        let Some((number, bytes)) = row.and_then(|row| Some((row.published, row.state?))) else { return Ok(None) };
        match &*newest {
            Some(known) if known.number == number => *known.state.0.seen.lock() = before,
            // An answer that was late: ours is newer.
            Some(known) if known.number > number => {}
            _ => *newest = Some(Newest { number, state: self.state(&bytes, before)? }),
        }
        Ok(newest.as_ref().map(|newest| Arc::clone(&newest.state) as Arc<dyn Store>))
    }
}

// === impl PublishedState ===

impl PublishedState {
    fn table(&self, table: Table) -> Option<TableRef> {
        let state = self.published.tables.get(table.name)?;
        Some(TableRef::new(&self.place, table, state.generation))
    }

    /// Passes an answer on if it was read before anything that this state names can have been deleted.
    fn valid<T>(&self, answer: T) -> Result<T> {
        if self.seen.lock().elapsed() <= self.validity {
            return Ok(answer);
        }
        Err(Error::Engine("failed to read a published state: it has expired; ask again".to_owned()))
    }
}

impl Reads for PublishedState {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let Some(table) = self.table(table) else { return Ok(vec![None; keys.len()]) };
        let keys = keys.iter().map(|key| key.to_vec()).collect();
        self.valid(self.cluster.wait(|link| table.get_many(link, keys))?)
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        let Some(table) = self.table(table) else { return Ok(vec![Page::default(); ranges.len()]) };
        let ranges = ranges.to_vec();
        self.valid(self.cluster.wait(|link| table.scan_many(link, ranges, limit))?)
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.published.manifest.clone())
    }

    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        if spec.record_bytes == 0 {
            return Err(not_whole_records(spec.name, 0, 0));
        }
        let state = self.published.arrays.get(spec.name);
        if let Some(state) = state.filter(|state| state.record_bytes != spec.record_bytes) {
            return Err(record_size_differs(spec.name, state.record_bytes, spec.record_bytes));
        }
        let (cluster, array) = (Arc::clone(&self.cluster), ArrayRef::new(&self.place, spec));
        Ok(Arc::new(PublishedArray { cluster, array, spec, len: state.map_or(0, |state| state.len) }))
    }

    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        let tables = self.published.tables.iter().map(|(name, state)| (name.clone(), state.bytes));
        let arrays = self.published.arrays.iter().map(|(name, state)| (name.clone(), state.used_bytes()));
        Ok(tables.chain(arrays).collect())
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// An array at the length of a published state. Published records stay as they are, so it does not expire.
struct PublishedArray {
    cluster: Arc<Cluster>,
    array: ArrayRef,
    spec: ArraySpec,
    len: u64,
}

impl Array for PublishedArray {
    fn read_many(&self, numbers: &[u64]) -> Result<Vec<u8>> {
        check_numbers(self.spec, numbers, self.len)?;
        self.array.records(&self.cluster, numbers, std::collections::BTreeMap::new())
    }

    fn read_run(&self, first: u64, count: usize) -> Result<Vec<u8>> {
        check_run(self.spec, first, count, self.len)?;
        self.array.run(&self.cluster, first, count, std::collections::BTreeMap::new())
    }

    fn write(&self, _first: u64, records: &[u8]) -> Result<()> {
        if records.is_empty() { Ok(()) } else { refused() }
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn truncate(&self, len: u64) -> Result<()> {
        if len == self.len { Ok(()) } else { refused() }
    }
}
