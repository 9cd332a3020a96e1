//! Published states of a store that another process writes.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::array::{ArrayRef, Known, check_numbers, check_run, check_runs};
use super::chunk_cache::ChunkCache;
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
    cache: Arc<ChunkCache>,
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
    cache: Arc<ChunkCache>,
    lifetime: Arc<Lifetime>,
}

/// The time for which a state may be read.
struct Lifetime {
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
            cluster: Arc::new(Cluster::connect(options, Tables::Expect)?),
            place: options.place.clone(),
            validity: options.grace / 2,
            cache: Arc::new(ChunkCache::new(options.cache_bytes)),
            newest: Mutex::new(None),
        })
    }

    fn state(&self, bytes: &[u8], seen: Instant) -> Result<Arc<ReadOnly<PublishedState>>> {
        Ok(Arc::new(ReadOnly(PublishedState {
            cluster: Arc::clone(&self.cluster),
            place: self.place.clone(),
            published: Published::decode(bytes)?,
            cache: Arc::clone(&self.cache),
            lifetime: Arc::new(Lifetime { validity: self.validity, seen: Mutex::new(seen) }),
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
            Some(known) if known.number == number => *known.state.0.lifetime.seen.lock() = before,
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

    fn valid<T>(&self, answer: T) -> Result<T> {
        self.lifetime.check().map(|()| answer)
    }
}

impl Lifetime {
    /// Fails unless what was read was there: read before anything that the state names can have been deleted.
    fn check(&self) -> Result<()> {
        if self.seen.lock().elapsed() <= self.validity {
            return Ok(());
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
        Ok(Arc::new(PublishedArray {
            cluster: Arc::clone(&self.cluster),
            array: ArrayRef::new(&self.place, spec, Arc::clone(&self.cache)),
            lifetime: Arc::clone(&self.lifetime),
            spec,
            len: state.map_or(0, |state| state.len),
            cuts: state.map_or(0, |state| state.cuts),
        }))
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

/// An array at the length of a published state.
struct PublishedArray {
    cluster: Arc<Cluster>,
    array: ArrayRef,
    lifetime: Arc<Lifetime>,
    spec: ArraySpec,
    len: u64,
    cuts: u32,
}

impl PublishedArray {
    fn known(&self) -> Known {
        Known { cuts: self.cuts, ..Known::default() }
    }
}

impl Array for PublishedArray {
    fn read_many(&self, numbers: &[u64]) -> Result<Vec<u8>> {
        check_numbers(self.spec, numbers, self.len)?;
        let records = self.array.records(&self.cluster, numbers, self.known())?;
        self.lifetime.check().map(|()| records)
    }

    fn read_run(&self, first: u64, count: usize) -> Result<Vec<u8>> {
        check_run(self.spec, first, count, self.len)?;
        let records = self.array.run(&self.cluster, first, count, self.known())?;
        self.lifetime.check().map(|()| records)
    }

    fn visit_runs(&self, runs: &[(u64, usize)], visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<()> {
        check_runs(self.spec, runs, self.len)?;
        let mut checked = Ok(());
        self.array.visit(&self.cluster, runs, self.known(), &mut |bytes| {
            checked = self.lifetime.check();
            if checked.is_ok() { visit(bytes) } else { ControlFlow::Break(()) }
        })?;
        checked
    }

    fn is_remote(&self) -> bool {
        true
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
