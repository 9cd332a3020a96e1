//! Ordered tables and arrays on an engine, published by a mark.
//!
//! The contract every engine keeps, and that nothing above it needs more than:
//!
//! - A *table* holds rows, key bytes -> value bytes; keys compare as unsigned bytes.
//! - An *array* holds fixed-size records addressed by number.
//! - Rows and records may be written in any order; one durable [`Store::publish`] of the *mark* is the
//!   only commit point: after it returns, everything written before it survives a power cut. What a mark
//!   means (which rows are live) is the caller's affair: a snapshot is a published mark, not an engine
//!   feature, so callers use keys that are never reused.
//! - Writing the same row twice changes nothing.
//! - Every verb is batch-first, so that a remote engine can pipeline.

use std::sync::Arc;

/// What can go wrong in an engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes on disk that no writer produced.
    #[error("table {table} is damaged: {reason}")]
    Corrupt {
        /// The table, array or file.
        table: String,
        /// What was found.
        reason: String,
    },
    /// The operating system refused.
    #[error("{action}: {source}")]
    Io {
        /// What was tried, with the path.
        action: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The engine refused.
    #[error("storage engine: {0}")]
    Engine(String),
}

/// The result of a storage call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One table: its name, and what the engine may assume of its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Name, also of the column family; lower-case ASCII.
    pub name: &'static str,
    /// How many leading key bytes name the partition that every scan stays inside (for filters).
    /// Zero: rows are found by their whole key or scanned as a whole.
    pub partition_bytes: usize,
    /// Whether values repeat enough that compressing them pays.
    pub compress: bool,
}

/// One array: its name and the size of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArraySpec {
    /// Name, also of the file; lower-case ASCII.
    pub name: &'static str,
    /// Bytes of one record.
    pub record_bytes: usize,
}

/// Keys from `start` (included) to `end` (excluded; empty = to the end of the table).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// First key that belongs to the range.
    pub start: Vec<u8>,
    /// First key beyond it.
    pub end: Vec<u8>,
    /// Which end comes first.
    pub direction: Direction,
}

/// The order in which a scan returns rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// The bound of one page: a scan stops before it would exceed either (but returns at least one row).
#[derive(Debug, Clone, Copy)]
pub struct PageLimit {
    /// Rows a page holds at most.
    pub rows: usize,
    /// Bytes of keys and values a page holds at most.
    pub bytes: usize,
}

/// One row: key and value.
pub type Row = (Vec<u8>, Vec<u8>);

/// A part of a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The rows, in the order of the scan.
    pub rows: Vec<Row>,
    /// The range that is left, when the limit ended the page.
    pub rest: Option<KeyRange>,
}

/// Rows to write and delete together. Atomicity is not promised: the mark is.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) puts: Vec<(Table, Vec<u8>, Vec<u8>)>,
    pub(crate) deletes: Vec<(Table, Vec<u8>)>,
}

/// A writer of rows in ascending key order, beside the table until [`Store::bulk_load`] moves them in.
pub trait BulkRun: Send {
    /// Adds a row; keys must ascend strictly.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Ends the run, durably.
    fn finish(self: Box<Self>) -> Result<SealedRun>;
}

/// Records of one size, addressed by number.
pub trait Array: Send + Sync {
    /// Reads the records with these numbers, concatenated in the order asked.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when a number is at or past the length.
    fn read_many(&self, numbers: &[u64]) -> Result<Vec<u8>>;
    /// Reads `count` records from `first` on, concatenated.
    fn read_run(&self, first: u64, count: usize) -> Result<Vec<u8>>;
    /// Writes whole records from number `first` on; numbers between the end and `first` become zeros.
    /// Safe to call from several threads for disjoint numbers. Durable at the next publish.
    fn write(&self, first: u64, records: &[u8]) -> Result<()>;
    /// How many records there are.
    fn len(&self) -> u64;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Cuts the array to `len` records.
    fn truncate(&self, len: u64) -> Result<()>;
}

/// An engine. See the crate's description for the contract; `contract` holds the suite that proves it.
pub trait Store: Send + Sync + 'static {
    /// Reads many rows of one table; the answers stand in the order of `keys`.
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>>;
    /// Scans many ranges of one table, one page each, in the order of `ranges`.
    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>>;
    /// Writes a batch. Visible to readers at once, durable at the next publish.
    fn write(&self, batch: Batch) -> Result<()>;
    /// Makes everything written so far durable (arrays first), then replaces the mark, durably.
    fn publish(&self, mark: &[u8]) -> Result<()>;
    /// The last published mark.
    fn mark(&self) -> Result<Option<Vec<u8>>>;
    /// Opens a run of sorted rows for `table`. Runs may be written in parallel.
    fn bulk_run(&self, table: Table) -> Result<Box<dyn BulkRun>>;
    /// Moves finished runs in. The key ranges of one table's runs must not overlap.
    fn bulk_load(&self, runs: Vec<SealedRun>) -> Result<()>;
    /// Empties a table.
    fn clear(&self, table: Table) -> Result<()>;
    /// Opens an array, empty at first.
    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>>;
    /// Bytes on disk of every table and array, by name.
    fn sizes(&self) -> Result<Vec<(String, u64)>>;
}

/// A finished [`BulkRun`].
#[derive(Debug)]
pub struct SealedRun {
    pub(crate) table: Table,
    pub(crate) rows: SealedRows,
}

#[derive(Debug)]
pub(crate) enum SealedRows {
    Memory(Vec<Row>),
    Files(Vec<std::path::PathBuf>),
}
