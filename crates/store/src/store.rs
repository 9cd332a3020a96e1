//! The traits of an engine. See the crate's description for the contract.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{ArraySpec, Batch, KeyRange, Page, PageLimit, Result, Row, Table};

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

/// A writer of rows in ascending key order, beside the table until [`Store::bulk_load`] moves them in.
pub trait BulkRun: Send {
    /// Adds a row; keys must ascend strictly.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Ends the run, durably.
    fn finish(self: Box<Self>) -> Result<SealedRun>;
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
    Files(Vec<PathBuf>),
}

/// Records of one size, addressed by number.
pub trait Array: Send + Sync {
    /// Reads the records with these numbers, concatenated in the order asked.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) when a number is at or past the length.
    fn read_many(&self, numbers: &[u64]) -> Result<Vec<u8>>;
    /// Reads `count` records from `first` on, concatenated.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) when the run reaches past the length.
    fn read_run(&self, first: u64, count: usize) -> Result<Vec<u8>>;
    /// Shows `view` the `count` records from `first` on, concatenated: where they lie, if the engine has them at hand. `view` must
    /// not use the store.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) when the run reaches past the length.
    fn view_run(&self, first: u64, count: usize, view: &mut dyn FnMut(&[u8])) -> Result<()> {
        view(&self.read_run(first, count)?);
        Ok(())
    }
    /// Shows `view` several runs, each `(first, count)`, in their order, until it says that it has enough: cheaper than one by one.
    /// `view` must not use the store.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) when a run reaches past the length; what came before may have been shown.
    fn view_runs(&self, runs: &[(u64, usize)], view: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<()> {
        for (first, count) in runs {
            let mut flow = ControlFlow::Continue(());
            self.view_run(*first, *count, &mut |bytes| flow = view(bytes))?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }
    /// Writes whole records from number `first` on; numbers between the end and `first` become zeros.
    /// Safe to call from several threads for disjoint numbers. Durable at the next publish: until then a restart may bring back
    /// what records that were there were published with.
    fn write(&self, first: u64, records: &[u8]) -> Result<()>;
    /// Gives back the place that `count` records from `first` on take, as far as the engine can. They stay counted and must not
    /// be read any more.
    fn discard(&self, _first: u64, _count: u64) -> Result<()> {
        Ok(())
    }
    /// How many records there are.
    fn len(&self) -> u64;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Cuts the array to `len` records. Durable at the next publish: until then a restart may bring back what was published.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) when there are fewer: what a mark promised is missing.
    fn truncate(&self, len: u64) -> Result<()>;
}
