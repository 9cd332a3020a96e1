//! The embedded engine: `RocksDB`, a column family per table, and arrays as plain files beside it.
//!
//! Invariants: the manifest is the only synced write, and one log for all column families keeps the order of writes, so
//! a crash leaves a prefix of the log that holds the manifest. A publish syncs the arrays before, or writes their
//! changes with the manifest (see `journal`). Damage is an error: every scan ends by asking the iterator why it ended.
//!
//! Folder: `VERSION`, `lock`, `db/` (the engine), `arrays/` (one file each), `bulk/` (unfinished and unloaded runs);
//! `docs/format.md` describes it.

mod bulk;
mod engine;
mod manifest;
mod options;
mod scan;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use rust_rocksdb::properties::LIVE_SST_FILES_SIZE;
use rust_rocksdb::{BoundColumnFamily, Cache, ColumnFamilyDescriptor, WriteBatch, WriteOptions};

use self::bulk::RocksRun;
use self::engine::{Db, engine_error};
use self::manifest::{MANIFEST_FAMILY, MANIFEST_KEY, leaf_key, leaves};
pub use self::options::RocksOptions;
use crate::array::Arrays;
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::folder::{Folder, Layout};
use crate::journal::{self, Due, Journal};
use crate::range::{KeyRange, Page, PageLimit};
use crate::store::{Array, BulkRun, FinishedRun, Store};
use crate::table::{ArraySpec, Table};

const LAYOUT: Layout = Layout { format: "1", parts: &["db"] };

/// The embedded engine. All threads share one.
pub struct RocksStore {
    // Fields drop in this order: the folder releases its lock last.
    db: Db,
    arrays: Arrays,
    /// Held by the thread that publishes.
    publishing: Mutex<()>,
    tables: Vec<Table>,
    options: RocksOptions,
    cache: Cache,
    /// The number of the next file of a bulk run.
    bulk_number: Arc<AtomicU64>,
    folder: Folder,
}

// === impl RocksStore ===

impl RocksStore {
    /// Opens the store in the folder `path`, creating what is missing. `tables` is the full list.
    ///
    /// # Errors
    /// [`Error::Io`] when another process holds the folder, [`Error::Engine`] when its format differs,
    /// [`Error::Corrupt`] when it is damaged.
    pub fn open(path: &Path, tables: &[Table], options: RocksOptions) -> Result<Self> {
        let folder = Folder::open(path, LAYOUT)?;
        let cache = Cache::new_lru_cache(options.cache_bytes);
        let database = options::database(&options);
        let db = Db::open_cf_descriptors(
            &database,
            folder.join("db"),
            families(&folder.join("db"), tables, &options, &cache)?,
        )
        .map_err(|error| engine_error("open", &path.display().to_string(), error))?;
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

    /// Compacts a table into one sorted run, which reads fastest. It rewrites the table.
    pub fn compact(&self, table: Table) -> Result<()> {
        let family = self.family(table)?;
        self.db.flush_cf(&family).map_err(|error| engine_error("flush", table.name, error))?;
        self.db.compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    /// Reads every block of every table and verifies its checksum. Arrays have none.
    pub fn verify_checksums(&self) -> Result<()> {
        self.db.verify_checksum().map_err(|error| engine_error("verify", "(all)", error))
    }

    /// Returns the bytes of memory that cached blocks take.
    pub fn cache_bytes(&self) -> u64 {
        u64::try_from(self.cache.get_usage()).unwrap_or(u64::MAX)
    }

    fn family(&self, table: Table) -> Result<Arc<BoundColumnFamily<'_>>> {
        self.db
            .cf_handle(table.name)
            .ok_or_else(|| Error::Engine(format!("table {} is unknown: the store was opened without it", table.name)))
    }

    fn publish_with(&self, due: Due, manifest: &[u8]) -> Result<()> {
        let mut writes = WriteBatch::default();
        match due {
            Due::Nothing => {}
            Due::Leaf(number, leaf) => writes.put(leaf_key(number), leaf),
            Due::Sync(leaves) => {
                self.arrays.sync()?;
                if leaves > 0 {
                    // A failed publish may have left more than the counted ones.
                    writes.delete_range(leaf_key(0), leaf_key(u64::MAX));
                }
            }
        }
        writes.put(MANIFEST_KEY, manifest);
        let mut durable = WriteOptions::default();
        durable.set_sync(true);
        self.db.write_opt(&writes, &durable).map_err(|error| engine_error("publish", "(manifest)", error))
    }

    fn ingest(&self, table: Table, files: &[PathBuf]) -> Result<()> {
        self.db
            .ingest_external_file_cf_opts(&self.family(table)?, &options::ingest(), files.to_vec())
            .map_err(|error| engine_error("load", table.name, error))
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
        let failed = |error| engine_error("read", table.name, error);
        if let [key] = keys {
            let value = self.db.get_pinned_cf(&family, key).map_err(failed)?;
            return Ok(vec![value.map(|value| value.to_vec())]);
        }
        let values = self.db.batched_multi_get_pinned_batch_cf(&family, keys, keys.is_sorted()).map_err(failed)?;
        values.iter().map(|value| Ok(value.map_err(failed)?.map(<[u8]>::to_vec))).collect()
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        scan::scan_many(&self.db, &self.family(table)?, table, ranges, limit)
            .map_err(|error| engine_error("scan", table.name, error))
    }

    fn write(&self, batch: Batch) -> Result<()> {
        let mut writes = WriteBatch::default();
        let mut last = None;
        for (table, key, value) in batch.iter() {
            // Batches come table by table: most rows share the column family of the previous one.
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
        self.db.write(&writes).map_err(|error| engine_error("write", "(batch)", error))
    }

    fn publish(&self, manifest: &[u8]) -> Result<()> {
        let _guard = self.publishing.lock();
        let journal = self.arrays.journal();
        let published = self.publish_with(journal.take(), manifest);
        if published.is_err() {
            journal.failed();
        }
        published
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>> {
        self.db.get(MANIFEST_KEY).map_err(|error| engine_error("read", "(manifest)", error))
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

    fn bulk_load(&self, runs: Vec<FinishedRun>) -> Result<()> {
        for (table, files) in bulk::files_by_table(runs)? {
            self.ingest(table, &files)?;
        }
        Ok(())
    }

    fn clear(&self, table: Table) -> Result<()> {
        let failed = |error| engine_error("clear", table.name, error);
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
                .map_err(|error| engine_error("measure", table.name, error))?;
            sizes.push((table.name.to_owned(), bytes.unwrap_or_default()));
        }
        sizes.extend(self.arrays.sizes()?);
        Ok(sizes)
    }
}

/// Returns the column families to open: the tables, and those of tables that this version no longer has, because the
/// engine opens all or none.
fn families(db: &Path, tables: &[Table], options: &RocksOptions, cache: &Cache) -> Result<Vec<ColumnFamilyDescriptor>> {
    if tables.iter().any(|table| table.name == MANIFEST_FAMILY) {
        return Err(Error::Engine(format!("table name {MANIFEST_FAMILY} is reserved for the manifest")));
    }
    let manifest = Table { name: MANIFEST_FAMILY, partition_bytes: 0, compress: false };
    let mut families: Vec<_> = std::iter::once(&manifest)
        .chain(tables)
        .map(|&table| ColumnFamilyDescriptor::new(table.name, options::family(table, options, cache)))
        .collect();
    if db.join("CURRENT").exists() {
        let there = Db::list_cf(&options::database(options), db)
            .map_err(|error| engine_error("open", &db.display().to_string(), error))?;
        for name in there {
            if families.iter().all(|family| family.name() != name) {
                tracing::warn!(table = name, "found an unknown table in the store");
                families.push(ColumnFamilyDescriptor::new(name, options::family(manifest, options, cache)));
            }
        }
    }
    Ok(families)
}

#[cfg(test)]
mod tests;
