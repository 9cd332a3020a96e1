//! The tables of the writer: their generations, and what is written into them.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use super::epoch::Epoch;
use super::layout;
use super::published::TableState;
use super::rows::{self, TableRef};
use crate::error::Result;
use crate::table::Table;

/// Buckets of one table that are known to be noted. Beyond that they are noted again.
const KNOWN_BUCKETS_MAX: usize = 1 << 20;

/// The tables of a place.
pub(super) struct WrittenTables {
    place: String,
    tables: Mutex<BTreeMap<String, WrittenTable>>,
}

/// One table.
#[derive(Debug, Clone)]
struct WrittenTable {
    state: TableState,
    /// Buckets that are noted in the cluster.
    buckets: BTreeSet<Vec<u8>>,
}

/// Rows to write and to delete, by table.
#[derive(Debug, Default)]
pub(super) struct Changes(BTreeMap<&'static str, (Table, TableChanges)>);

/// Changes of one table by bucket and key.
type Buckets = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Option<Vec<u8>>>>;

#[derive(Debug, Default)]
struct TableChanges {
    buckets: Buckets,
    /// Bytes of keys and values.
    bytes: u64,
}

// === impl Changes ===

impl Changes {
    /// Adds a row to write, or to delete without a value. Of several changes of one key the last one counts.
    pub(super) fn add(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
        let (_, changes) = self.0.entry(table.name).or_insert_with(|| (table, TableChanges::default()));
        changes.bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        let (bucket, inside) = layout::split(key, layout::bucket_bytes(table));
        let rows = match changes.buckets.get_mut(bucket) {
            Some(rows) => rows,
            None => changes.buckets.entry(bucket.to_vec()).or_default(),
        };
        rows.insert(inside.to_vec(), value.map(<[u8]>::to_vec));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

// === impl WrittenTables ===

impl WrittenTables {
    pub(super) fn new(place: &str, published: BTreeMap<String, TableState>) -> Self {
        let table = |(name, state)| (name, WrittenTable { state, buckets: BTreeSet::new() });
        Self { place: place.to_owned(), tables: Mutex::new(published.into_iter().map(table).collect()) }
    }

    /// The current generation of a table; `None` if it never had a row.
    pub(super) fn current(&self, table: Table) -> Option<TableRef> {
        let generation = self.tables.lock().get(table.name)?.state.generation;
        Some(TableRef::new(&self.place, table, generation))
    }

    pub(super) fn states(&self) -> BTreeMap<String, TableState> {
        self.tables.lock().iter().map(|(name, table)| (name.clone(), table.state)).collect()
    }

    /// Begins a generation, and returns the one that it replaces.
    pub(super) fn begin(&self, epoch: &Epoch, name: &str) -> Option<i64> {
        let old = self.tables.lock().insert(name.to_owned(), WrittenTable::new(epoch));
        old.map(|old| old.state.generation)
    }

    /// Begins a generation of every table without rows, for the last owner of the lease may still write into the old
    /// one. Returns the names and generations that it replaces.
    pub(super) fn begin_empty(&self, epoch: &Epoch) -> Result<Vec<(String, i64)>> {
        let mut replaced = Vec::new();
        for (name, TableState { generation, .. }) in self.states() {
            // The shape of buckets does not matter for a look at the first row.
            let table = TableRef { name: layout::name_of(&self.place, &name).into(), generation, bucket_bytes: 1 };
            if epoch.cluster.wait(|link| table.has_no_row(link))? {
                replaced.extend(self.begin(epoch, &name).map(|generation| (name, generation)));
            }
        }
        Ok(replaced)
    }

    /// Writes and deletes rows.
    pub(super) fn change(&self, epoch: &Epoch, changes: Changes) -> Result<()> {
        epoch.check()?;
        let timestamp = epoch.next_timestamp();
        let mut written = Vec::with_capacity(changes.0.len());
        for (table, TableChanges { buckets, bytes }) in changes.0.into_values() {
            let (current, unknown) = self.prepare(epoch, table, &buckets, bytes);
            if !unknown.is_empty() {
                let (noted, buckets) = (current.clone(), unknown.clone());
                epoch.cluster.wait(|link| async move { noted.note_buckets(&link, &buckets, timestamp).await })?;
                self.note(table, current.generation, unknown);
            }
            let rows = buckets.into_iter().map(|(bucket, rows)| (bucket, rows.into_iter().collect())).collect();
            written.push((current, rows));
        }
        epoch.cluster.wait(|link| async move { rows::write(&link, written, timestamp).await })
    }

    /// Returns the generation to write into, and those of the buckets that are not noted.
    fn prepare(&self, epoch: &Epoch, table: Table, buckets: &Buckets, bytes: u64) -> (TableRef, Vec<Vec<u8>>) {
        let mut tables = self.tables.lock();
        let written = tables.entry(table.name.to_owned()).or_insert_with(|| WrittenTable::new(epoch));
        written.state.bytes += bytes;
        let unknown = buckets.keys().filter(|bucket| !written.buckets.contains(*bucket)).cloned().collect();
        (TableRef::new(&self.place, table, written.state.generation), unknown)
    }

    fn note(&self, table: Table, generation: i64, buckets: Vec<Vec<u8>>) {
        let mut tables = self.tables.lock();
        let noted = tables.get_mut(table.name).filter(|written| written.state.generation == generation);
        if let Some(written) = noted {
            if written.buckets.len() >= KNOWN_BUCKETS_MAX {
                written.buckets.clear();
            }
            written.buckets.extend(buckets);
        }
    }
}

impl WrittenTable {
    fn new(epoch: &Epoch) -> Self {
        let state = TableState { generation: epoch.next_generation(), bytes: 0 };
        Self { state, buckets: BTreeSet::new() }
    }
}
