//! Stores that refuse to write: the published states of a store that another process writes.

use std::sync::Arc;

use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::range::{KeyRange, Page, PageLimit};
use crate::store::{Array, BulkRun, FinishedRun, Store};
use crate::table::{ArraySpec, Table};

/// The verbs of a [`Store`] that read.
pub(crate) trait Reads: Send + Sync + 'static {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>>;
    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>>;
    fn manifest(&self) -> Result<Option<Vec<u8>>>;
    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>>;
    fn sizes(&self) -> Result<Vec<(String, u64)>>;
    fn free_bytes(&self) -> Option<u64>;
    fn is_remote(&self) -> bool;
}

/// A store of nothing but reads.
#[derive(Debug)]
pub(crate) struct ReadOnly<R>(pub(crate) R);

/// The error of every verb that writes.
pub(crate) fn refused<T>() -> Result<T> {
    Err(Error::Engine("failed to write: this process only reads the store".to_owned()))
}

impl<R: Reads> Store for ReadOnly<R> {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.0.get_many(table, keys)
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        self.0.scan_many(table, ranges, limit)
    }

    fn write(&self, batch: Batch) -> Result<()> {
        if batch.is_empty() { Ok(()) } else { refused() }
    }

    fn publish(&self, _manifest: &[u8]) -> Result<()> {
        refused()
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>> {
        self.0.manifest()
    }

    fn bulk_run(&self, _table: Table) -> Result<Box<dyn BulkRun>> {
        refused()
    }

    fn bulk_load(&self, _runs: Vec<FinishedRun>) -> Result<()> {
        refused()
    }

    fn clear(&self, _table: Table) -> Result<()> {
        refused()
    }

    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        self.0.array(spec)
    }

    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        self.0.sizes()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.0.free_bytes()
    }

    fn is_remote(&self) -> bool {
        self.0.is_remote()
    }
}
