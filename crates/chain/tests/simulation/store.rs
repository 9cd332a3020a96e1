//! The engine in memory with what happens to a disk: the simulation decides which reads and writes fail, and what else
//! happens between two of them.

use std::ops::ControlFlow;
use std::sync::Arc;

use birdhouse_store::{
    Array, ArraySpec, Batch, BulkRun, Error, FinishedRun, KeyRange, MemoryStore, Page, PageLimit, Result, Store, Table,
};

use crate::sim::Sim;

/// The store of one life of the index.
pub(crate) struct FaultyStore {
    pub(crate) sim: Arc<Sim>,
    pub(crate) inner: MemoryStore,
}

fn unreadable() -> Error {
    Error::Io { action: "read in memory".to_owned(), cause: std::io::Error::other("simulated fault") }
}

impl FaultyStore {
    fn read<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.sim.read_fails() { Err(unreadable()) } else { read() }
    }

    fn change<T>(&self, write: impl FnOnce() -> Result<T>) -> Result<T> {
        self.sim.before_write();
        write().inspect_err(|_| self.sim.write_failed())
    }
}

impl Store for FaultyStore {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.read(|| self.inner.get_many(table, keys))
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        self.read(|| self.inner.scan_many(table, ranges, limit))
    }

    fn write(&self, batch: Batch) -> Result<()> {
        self.change(|| self.inner.write(batch))
    }

    fn publish(&self, manifest: &[u8]) -> Result<()> {
        self.change(|| self.inner.publish(manifest)).inspect(|()| self.sim.published())
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>> {
        self.inner.manifest()
    }

    fn bulk_run(&self, table: Table) -> Result<Box<dyn BulkRun>> {
        Ok(Box::new(FaultyRun { sim: Arc::clone(&self.sim), inner: self.inner.bulk_run(table)? }))
    }

    fn bulk_load(&self, runs: Vec<FinishedRun>) -> Result<()> {
        self.change(|| self.inner.bulk_load(runs))
    }

    fn clear(&self, table: Table) -> Result<()> {
        self.change(|| self.inner.clear(table))
    }

    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        Ok(Arc::new(FaultyArray { sim: Arc::clone(&self.sim), inner: self.inner.array(spec)? }))
    }

    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        self.inner.sizes()
    }

    fn free_bytes(&self) -> Option<u64> {
        Some(if self.sim.is_disk_scarce() { 0 } else { u64::MAX })
    }
}

struct FaultyRun {
    sim: Arc<Sim>,
    inner: Box<dyn BulkRun>,
}

impl BulkRun for FaultyRun {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.push(key, value)
    }

    fn finish(self: Box<Self>) -> Result<FinishedRun> {
        self.inner.finish().inspect_err(|_| self.sim.write_failed())
    }
}

struct FaultyArray {
    sim: Arc<Sim>,
    inner: Arc<dyn Array>,
}

impl FaultyArray {
    fn read<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.sim.read_fails() { Err(unreadable()) } else { read() }
    }

    fn change<T>(&self, write: impl FnOnce() -> Result<T>) -> Result<T> {
        self.sim.before_write();
        write().inspect_err(|_| self.sim.write_failed())
    }
}

impl Array for FaultyArray {
    fn read_many(&self, numbers: &[u64]) -> Result<Vec<u8>> {
        self.read(|| self.inner.read_many(numbers))
    }

    fn read_run(&self, first: u64, count: usize) -> Result<Vec<u8>> {
        self.read(|| self.inner.read_run(first, count))
    }

    fn visit_run(&self, first: u64, count: usize, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.read(|| self.inner.visit_run(first, count, visit))
    }

    fn visit_runs(&self, runs: &[(u64, usize)], visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<()> {
        self.read(|| self.inner.visit_runs(runs, visit))
    }

    fn write(&self, first: u64, records: &[u8]) -> Result<()> {
        self.change(|| self.inner.write(first, records))
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.change(|| self.inner.truncate(len))
    }
}
