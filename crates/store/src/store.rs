//! The traits of an engine. `lib.rs` states the contract.

use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;

use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::range::{KeyRange, Page, PageLimit, Row};
use crate::table::{ArraySpec, Table};

/// An engine that keeps the contract of this crate; the suite in `contract` proves it.
pub trait Store: Send + Sync + 'static {
    /// Reads many rows of one table and returns their values in the order of `keys`.
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>>;
    /// Scans many ranges of one table, one page each, in the order of `ranges`.
    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>>;
    /// Writes a batch. Its rows are visible to readers at once and durable at the next publish.
    fn write(&self, batch: Batch) -> Result<()>;
    /// Makes everything written so far durable (arrays first), then replaces the manifest durably.
    fn publish(&self, manifest: &[u8]) -> Result<()>;
    /// Returns the last published manifest; `None` before the first publish.
    fn manifest(&self) -> Result<Option<Vec<u8>>>;
    /// Opens a run of sorted rows for `table`. Several threads may write runs of their own in parallel.
    fn bulk_run(&self, table: Table) -> Result<Box<dyn BulkRun>>;
    /// Moves finished runs into their tables. The key ranges of one table's runs must not overlap.
    fn bulk_load(&self, runs: Vec<FinishedRun>) -> Result<()>;
    /// Empties a table.
    fn clear(&self, table: Table) -> Result<()>;
    /// Opens an array; a new one is empty.
    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>>;
    /// Returns the name and the bytes on disk of every table and array.
    fn sizes(&self) -> Result<Vec<(String, u64)>>;
    /// Returns the bytes that can still be written; `None` where this is unknown.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    /// Returns true where a read waits for another machine, so that callers which must not wait read elsewhere.
    fn is_remote(&self) -> bool {
        false
    }
}

/// The published states of a store that another process writes.
pub trait Replica: Send + Sync {
    /// Returns the newest published state, as a store that refuses to write; `None` before the first publish. While
    /// nothing is published it is the same one.
    ///
    /// A state that is no longer the newest may expire: then reading it is an error, never a wrong answer.
    fn newest(&self) -> Result<Option<Arc<dyn Store>>>;
}

/// A writer of rows in ascending key order, beside the table until [`Store::bulk_load`] moves them in.
pub trait BulkRun: Send {
    /// Adds a row; keys must ascend strictly.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Ends the run and makes its rows durable.
    fn finish(self: Box<Self>) -> Result<FinishedRun>;
}

/// A finished [`BulkRun`].
#[derive(Debug)]
pub struct FinishedRun {
    pub(crate) table: Table,
    pub(crate) rows: RunRows,
}

/// Rows of a finished run: in memory, or in segment files in the folder `bulk`.
#[derive(Debug)]
pub(crate) enum RunRows {
    Memory(Vec<Row>),
    Files(Vec<PathBuf>),
}

/// Proves a range of the bytes that [`Array::visit_parts`] gives.
///
/// # Errors
/// [`Error::Corrupt`] when they do not match their checksum.
pub type Prove<'a> = &'a dyn Fn(Range<usize>) -> Result<()>;

/// Records of one size, addressed by number.
///
/// Records that a publish covered are never written again with other bytes, unless they were cut off first, and the cut
/// was published. So checksums prove them after any crash.
pub trait Array: Send + Sync {
    /// Reads the records with these numbers, concatenated in the order asked.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when a number is at or past the length.
    fn read_many(&self, numbers: &[u64]) -> Result<Vec<u8>>;
    /// Reads `count` records from `first` on, concatenated.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the run reaches past the length.
    fn read_run(&self, first: u64, count: usize) -> Result<Vec<u8>>;
    /// Calls `visit` with the `count` records from `first` on, concatenated. An engine that maps its files passes the
    /// mapped bytes and copies nothing, but it loads and proves all of them: whoever uses few of them calls
    /// [`visit_parts`](Self::visit_parts). `visit` must not use the store.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the run reaches past the length.
    fn visit_run(&self, first: u64, count: usize, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        visit(&self.read_run(first, count)?);
        Ok(())
    }
    /// Calls `visit` with several runs, each `(first, count)`, in their order, until it returns `Break`. One call for
    /// many runs costs less than one call each. `visit` must not use the store.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when a run reaches past the length; earlier runs may have been
    /// visited.
    fn visit_runs(&self, runs: &[(u64, usize)], visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<()> {
        for (first, count) in runs {
            let mut flow = ControlFlow::Continue(());
            self.visit_run(*first, *count, &mut |bytes| flow = visit(bytes))?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }
    /// Calls `visit` with the `count` records from `first` on, of which it reads few, and with a function that proves a
    /// range of these bytes: `visit` calls it before it uses them. It must not use the store.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the run reaches past the length; the errors of `visit`.
    fn visit_parts(
        &self,
        first: u64,
        count: usize,
        visit: &mut dyn FnMut(&[u8], Prove<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut visited = Ok(());
        self.visit_run(first, count, &mut |bytes| visited = visit(bytes, &|_| Ok(())))?;
        visited
    }
    /// Writes whole records from number `first` on; records between the end and `first` become zeros.
    ///
    /// Several threads may call it for disjoint numbers. The records are durable at the next publish; until then a
    /// restart may lose them.
    ///
    /// # Errors
    /// [`Error::Engine`] after a cut that was not published.
    fn write(&self, first: u64, records: &[u8]) -> Result<()>;
    /// Frees the disk space of `count` records from `first` on after the next publish, as far as the engine can. The
    /// length stays as it is; the caller must not read these records again.
    fn discard(&self, _first: u64, _count: u64) -> Result<()> {
        Ok(())
    }
    /// Returns true where a read waits for another machine, so that callers read no more than they need.
    fn is_remote(&self) -> bool {
        false
    }
    /// Returns the number of records.
    fn len(&self) -> u64;
    /// Returns `true` when there are no records.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Cuts the array to `len` records. The cut is durable at the next publish; until then a restart may restore the
    /// published records, and no records can be written.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when there are fewer records: some that a manifest covers are
    /// missing.
    fn truncate(&self, len: u64) -> Result<()>;
}

/// The caller's side of a scrub, which reads all files of a store and proves their checksums.
pub trait Scrub {
    /// Takes a damaged place.
    fn found(&mut self, damage: Error);
    /// Takes the number of bytes read since the last call; may sleep, or end the scrub.
    fn read(&mut self, _bytes: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl<F: FnMut(Error)> Scrub for F {
    fn found(&mut self, damage: Error) {
        self(damage);
    }
}
