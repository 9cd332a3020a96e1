//! A store whose calls a test sees, delays and fails: for faults, schedules and marks.

use std::ops::ControlFlow;
use std::sync::Arc;

use birdhouse_store::{
    Array, ArraySpec, Batch, BulkRun, FinishedRun, KeyRange, Page, PageLimit, Prove, Result, Store, Table,
};

/// A call that a [`Hook`] sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Reads rows or records.
    Read,
    /// Writes rows.
    WriteRows,
    /// Publishes a manifest.
    Publish,
    /// Ends a run of sorted rows.
    FinishRun,
    /// Moves runs into their tables.
    LoadRuns,
    /// Empties a table.
    Clear,
    /// Writes or cuts the array of this name.
    WriteArray(&'static str),
    /// Gives back the space of records.
    Discard,
}

impl Call {
    /// Returns true if the call changes what readers see, or what a restart finds.
    pub fn is_change(self) -> bool {
        !matches!(self, Self::Read | Self::FinishRun)
    }
}

/// The end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It returns an error.
    Failed,
}

/// Faults and other things of a test around the calls of a store.
pub trait Hook: Send + Sync + 'static {
    /// Runs before a call; an error is the call's result, and nothing is done.
    ///
    /// # Errors
    /// The fault that the test wants there.
    fn before(&self, _call: Call) -> Result<()> {
        Ok(())
    }

    /// Runs after a call that was made, and may turn its success into a failure.
    ///
    /// # Errors
    /// The fault that the test wants there, after a call that was done.
    fn after(&self, _call: Call, _outcome: Outcome) -> Result<()> {
        Ok(())
    }

    /// Returns the free bytes of the disk, given those of the store.
    fn free_bytes(&self, free: Option<u64>) -> Option<u64> {
        free
    }
}

/// A store that calls a [`Hook`] around its own calls.
pub struct HookedStore<H> {
    store: Arc<dyn Store>,
    hook: Arc<H>,
}

struct HookedRun<H> {
    run: Box<dyn BulkRun>,
    hook: Arc<H>,
}

struct HookedArray<H> {
    array: Arc<dyn Array>,
    name: &'static str,
    hook: Arc<H>,
}

fn around<T>(hook: &impl Hook, call: Call, run: impl FnOnce() -> Result<T>) -> Result<T> {
    hook.before(call)?;
    let result = run();
    hook.after(call, if result.is_ok() { Outcome::Done } else { Outcome::Failed })?;
    result
}

impl<H> HookedStore<H> {
    /// Puts a hook around a store.
    pub fn new(store: Arc<dyn Store>, hook: Arc<H>) -> Self {
        Self { store, hook }
    }
}

impl<H: Hook> Store for HookedStore<H> {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        around(&*self.hook, Call::Read, || self.store.get_many(table, keys))
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        around(&*self.hook, Call::Read, || self.store.scan_many(table, ranges, limit))
    }

    fn write(&self, batch: Batch) -> Result<()> {
        around(&*self.hook, Call::WriteRows, || self.store.write(batch))
    }

    fn publish(&self, manifest: &[u8]) -> Result<()> {
        around(&*self.hook, Call::Publish, || self.store.publish(manifest))
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>> {
        self.store.manifest()
    }

    fn bulk_run(&self, table: Table) -> Result<Box<dyn BulkRun>> {
        Ok(Box::new(HookedRun { run: self.store.bulk_run(table)?, hook: Arc::clone(&self.hook) }))
    }

    fn bulk_load(&self, runs: Vec<FinishedRun>) -> Result<()> {
        around(&*self.hook, Call::LoadRuns, || self.store.bulk_load(runs))
    }

    fn clear(&self, table: Table) -> Result<()> {
        around(&*self.hook, Call::Clear, || self.store.clear(table))
    }

    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        let (array, hook) = (self.store.array(spec)?, Arc::clone(&self.hook));
        Ok(Arc::new(HookedArray { array, name: spec.name, hook }))
    }

    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        self.store.sizes()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.hook.free_bytes(self.store.free_bytes())
    }

    fn is_remote(&self) -> bool {
        self.store.is_remote()
    }
}

impl<H: Hook> BulkRun for HookedRun<H> {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.run.push(key, value)
    }

    fn finish(self: Box<Self>) -> Result<FinishedRun> {
        let Self { run, hook } = *self;
        around(&*hook, Call::FinishRun, || run.finish())
    }
}

impl<H: Hook> Array for HookedArray<H> {
    fn read_many(&self, numbers: &[u64]) -> Result<Vec<u8>> {
        around(&*self.hook, Call::Read, || self.array.read_many(numbers))
    }

    fn read_run(&self, first: u64, count: usize) -> Result<Vec<u8>> {
        around(&*self.hook, Call::Read, || self.array.read_run(first, count))
    }

    fn visit_run(&self, first: u64, count: usize, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        around(&*self.hook, Call::Read, || self.array.visit_run(first, count, visit))
    }

    fn visit_runs(&self, runs: &[(u64, usize)], visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<()> {
        around(&*self.hook, Call::Read, || self.array.visit_runs(runs, visit))
    }

    fn visit_parts(
        &self,
        first: u64,
        count: usize,
        visit: &mut dyn FnMut(&[u8], Prove<'_>) -> Result<()>,
    ) -> Result<()> {
        around(&*self.hook, Call::Read, || self.array.visit_parts(first, count, visit))
    }

    fn write(&self, first: u64, records: &[u8]) -> Result<()> {
        around(&*self.hook, Call::WriteArray(self.name), || self.array.write(first, records))
    }

    fn discard(&self, first: u64, count: u64) -> Result<()> {
        around(&*self.hook, Call::Discard, || self.array.discard(first, count))
    }

    fn is_remote(&self) -> bool {
        self.array.is_remote()
    }

    fn len(&self) -> u64 {
        self.array.len()
    }

    fn truncate(&self, len: u64) -> Result<()> {
        around(&*self.hook, Call::WriteArray(self.name), || self.array.truncate(len))
    }
}
