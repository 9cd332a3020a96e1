//! The embedded engine: `RocksDB`, a column family per table, and arrays as plain files beside it.
//!
//! Invariants: the mark is the only synced write, and the one log of all column families keeps the order
//! of writes, so what is found after a crash is a prefix that holds the mark; arrays are synced before it, or what was written
//! to them since is written with it (see `journal`).
//! Damage is an error: every scan ends by asking the iterator why it ended.
//!
//! Folder: `VERSION`, `lock`, `db/` (the engine), `arrays/` (one file each), `bulk/` (runs under way).

mod bulk;
mod folder;
mod options;
mod scan;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use rust_rocksdb::properties::LIVE_SST_FILES_SIZE;
use rust_rocksdb::{
    BoundColumnFamily, Cache, ColumnFamilyDescriptor, DBWithThreadMode, ErrorKind, IteratorMode, MultiThreaded,
    WriteBatch, WriteOptions,
};

use self::bulk::RocksRun;
use self::folder::Folder;
pub use self::options::RocksOptions;
use crate::array::Arrays;
use crate::error::DISK_FULL;
use crate::journal::{self, Due, Journal};
use crate::{Array, ArraySpec, Batch, BulkRun, Error, KeyRange, Page, PageLimit, Result, SealedRun, Store, Table};

type Db = DBWithThreadMode<MultiThreaded>;

/// The column family of the mark; `RocksDB` always has it, and no table may take its name.
const MARK_FAMILY: &str = rust_rocksdb::DEFAULT_COLUMN_FAMILY_NAME;
const MARK_KEY: &[u8] = b"mark";
/// Beside the mark: the leaves of the arrays' journal, by number.
const LEAF_KEYS: &[u8] = b"leaf";

/// The embedded engine; one is shared by all threads.
pub struct RocksStore {
    // Fields drop in this order: the lock is let go last.
    db: Db,
    arrays: Arrays,
    /// Whoever holds it publishes.
    publishing: Mutex<()>,
    tables: Vec<Table>,
    options: RocksOptions,
    cache: Cache,
    /// Numbers the files of bulk runs.
    bulk_number: Arc<AtomicU64>,
    folder: Folder,
}

// === impl RocksStore ===

impl RocksStore {
    /// Opens the store in the folder `path`, creating what is missing. `tables` is the full list.
    ///
    /// # Errors
    /// [`Error::Io`] when another process holds the folder, [`Error::Engine`] when its format is
    /// another one, [`Error::Corrupt`] when it is damaged.
    pub fn open(path: &Path, tables: &[Table], options: RocksOptions) -> Result<Self> {
        let folder = Folder::open(path)?;
        let cache = Cache::new_lru_cache(options.cache_bytes);
        let database = options::database(&options);
        let db = Db::open_cf_descriptors(&database, folder.db(), families(&folder.db(), tables, &options, &cache)?)
            .map_err(|error| engine_error("opening", &path.display().to_string(), error))?;
        let leaves = leaves(&db)?;
        journal::replay(&leaves, &folder.arrays())?;
        tracing::debug!(path = %path.display(), tables = tables.len(), leaves = leaves.len(), "opened store");
        Ok(Self {
            db,
            arrays: Arrays::new(folder.arrays(), Journal::after(leaves.len() as u64)),
            publishing: Mutex::new(()),
            tables: tables.to_vec(),
            options,
            cache,
            bulk_number: Arc::default(),
            folder,
        })
    }

    /// Merges a table into one run, which reads fastest. It costs a rewrite of the table.
    pub fn compact(&self, table: Table) -> Result<()> {
        let family = self.family(table)?;
        self.db.flush_cf(&family).map_err(|error| engine_error("flushing", table.name, error))?;
        self.db.compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    /// Reads every block of every table and proves its checksum. Arrays have none.
    pub fn verify_checksums(&self) -> Result<()> {
        self.db.verify_checksum().map_err(|error| engine_error("verifying", "(all)", error))
    }

    /// Memory that cached blocks take.
    pub fn cache_bytes(&self) -> u64 {
        u64::try_from(self.cache.get_usage()).unwrap_or(u64::MAX)
    }

    fn family(&self, table: Table) -> Result<Arc<BoundColumnFamily<'_>>> {
        self.db
            .cf_handle(table.name)
            .ok_or_else(|| Error::Engine(format!("table {} is not among those the store was opened with", table.name)))
    }

    fn publish_with(&self, due: Due, mark: &[u8]) -> Result<()> {
        let mut writes = WriteBatch::default();
        match due {
            Due::Nothing => {}
            Due::Leaf(number, leaf) => writes.put(leaf_key(number), leaf),
            Due::Sync(leaves) => {
                self.arrays.sync()?;
                if leaves > 0 {
                    // Of a publish that failed there may be more than are counted.
                    writes.delete_range(leaf_key(0), leaf_key(u64::MAX));
                }
            }
        }
        writes.put(MARK_KEY, mark);
        let mut durable = WriteOptions::default();
        durable.set_sync(true);
        self.db.write_opt(&writes, &durable).map_err(|error| engine_error("publishing", "(mark)", error))
    }

    fn ingest(&self, table: Table, files: &[PathBuf]) -> Result<()> {
        self.db
            .ingest_external_file_cf_opts(&self.family(table)?, &options::ingest(), files.to_vec())
            .map_err(|error| engine_error("loading", table.name, error))
    }
}

impl std::fmt::Debug for RocksStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksStore").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Store for RocksStore {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let family = self.family(table)?;
        let failed = |error| engine_error("reading", table.name, error);
        if let [key] = keys {
            let value = self.db.get_pinned_cf(&family, key).map_err(failed)?;
            return Ok(vec![value.map(|value| value.to_vec())]);
        }
        let values = self.db.batched_multi_get_pinned_batch_cf(&family, keys, keys.is_sorted()).map_err(failed)?;
        values.iter().map(|value| Ok(value.map_err(failed)?.map(<[u8]>::to_vec))).collect()
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        scan::scan_many(&self.db, &self.family(table)?, table, ranges, limit)
            .map_err(|error| engine_error("scanning", table.name, error))
    }

    fn write(&self, batch: Batch) -> Result<()> {
        let mut writes = WriteBatch::default();
        let mut last = None;
        for (table, key, value) in batch.iter() {
            // A batch comes table by table: most rows share the family of the one before.
            let family = match last.take() {
                Some((name, family)) if name == table.name => family,
                _ => self.family(table)?,
            };
            match value {
                Some(value) => writes.put_cf(&family, key, value),
                None => writes.delete_cf(&family, key),
            }
            last = Some((table.name, family));
        }
        self.db.write(&writes).map_err(|error| engine_error("writing to", "(batch)", error))
    }

    fn publish(&self, mark: &[u8]) -> Result<()> {
        let _alone = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let journal = self.arrays.journal();
        let published = self.publish_with(journal.take(), mark);
        if published.is_err() {
            journal.failed();
        }
        published
    }

    fn mark(&self) -> Result<Option<Vec<u8>>> {
        self.db.get(MARK_KEY).map_err(|error| engine_error("reading", "(mark)", error))
    }

    fn bulk_run(&self, table: Table) -> Result<Box<dyn BulkRun>> {
        self.family(table)?;
        Ok(Box::new(RocksRun::new(
            self.folder.bulk(),
            table,
            self.options.bulk_file_bytes,
            Arc::clone(&self.bulk_number),
        )))
    }

    fn bulk_load(&self, runs: Vec<SealedRun>) -> Result<()> {
        for (table, files) in bulk::files_by_table(runs)? {
            self.ingest(table, &files)?;
        }
        Ok(())
    }

    fn clear(&self, table: Table) -> Result<()> {
        let failed = |error| engine_error("clearing", table.name, error);
        self.family(table)?;
        self.db.drop_cf(table.name).map_err(failed)?;
        self.db.create_cf(table.name, &options::family(table, &self.options, &self.cache)).map_err(failed)
    }

    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        self.arrays.open(spec)
    }

    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        let mut sizes = Vec::with_capacity(self.tables.len());
        for table in &self.tables {
            let bytes = self
                .db
                .property_int_value_cf(&self.family(*table)?, LIVE_SST_FILES_SIZE)
                .map_err(|error| engine_error("measuring", table.name, error))?;
            sizes.push((table.name.to_owned(), bytes.unwrap_or_default()));
        }
        sizes.extend(self.arrays.sizes()?);
        Ok(sizes)
    }
}

/// The column families to open: the tables, and those of tables this version no longer has, which the
/// engine insists on.
fn families(db: &Path, tables: &[Table], options: &RocksOptions, cache: &Cache) -> Result<Vec<ColumnFamilyDescriptor>> {
    if tables.iter().any(|table| table.name == MARK_FAMILY) {
        return Err(Error::Engine(format!("a table must not be named {MARK_FAMILY}")));
    }
    let mark = Table { name: MARK_FAMILY, partition_bytes: 0, compress: false };
    let mut families: Vec<_> = std::iter::once(&mark)
        .chain(tables)
        .map(|&table| ColumnFamilyDescriptor::new(table.name, options::family(table, options, cache)))
        .collect();
    if db.join("CURRENT").exists() {
        let there = Db::list_cf(&options::database(options), db)
            .map_err(|error| engine_error("opening", &db.display().to_string(), error))?;
        for name in there {
            if families.iter().all(|family| family.name() != name) {
                tracing::warn!(table = name, "unknown table in the store");
                families.push(ColumnFamilyDescriptor::new(name, options::family(mark, options, cache)));
            }
        }
    }
    Ok(families)
}

fn leaf_key(number: u64) -> Vec<u8> {
    [LEAF_KEYS, &number.to_be_bytes()].concat()
}

/// What was written to arrays since they were synced, in its order.
fn leaves(db: &Db) -> Result<Vec<Vec<u8>>> {
    let from = IteratorMode::From(&leaf_key(0), rust_rocksdb::Direction::Forward);
    let rows = db
        .iterator(from)
        .take_while(|row| row.as_ref().is_ok_and(|(key, _)| key.starts_with(LEAF_KEYS)) || row.is_err());
    rows.map(|row| row.map(|(_, leaf)| leaf.into_vec()))
        .collect::<Result<_, _>>()
        .map_err(|error| engine_error("reading", "(journal)", error))
}

/// Our error for the engine's; `what` is the table or path.
fn engine_error(verb: &str, what: &str, error: rust_rocksdb::Error) -> Error {
    let kind = error.kind();
    let reason = error.into_string();
    match kind {
        ErrorKind::Corruption => Error::Corrupt { table: what.to_owned(), reason },
        // The engine passes the system's error on as text only.
        ErrorKind::IOError if reason.contains("No space left on device") => Error::Io {
            action: format!("{verb} {what}{DISK_FULL}"),
            source: std::io::Error::new(std::io::ErrorKind::StorageFull, reason),
        },
        ErrorKind::IOError => Error::Io { action: format!("{verb} {what}"), source: std::io::Error::other(reason) },
        _ => Error::Engine(format!("{verb} {what}: {reason}")),
    }
}

#[cfg(test)]
mod tests;
