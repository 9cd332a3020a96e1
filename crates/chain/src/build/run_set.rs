//! Bulk runs of sorted rows, one per table.

use std::collections::HashMap;

use birdhouse_store::{BulkRun, FinishedRun, Store, Table};

use crate::error::Result;

/// One bulk run per table, opened when its first row arrives.
pub(crate) struct RunSet<'a> {
    store: &'a dyn Store,
    runs: HashMap<&'static str, Box<dyn BulkRun>>,
}

impl<'a> RunSet<'a> {
    pub(crate) fn new(store: &'a dyn Store) -> Self {
        Self { store, runs: HashMap::new() }
    }

    pub(crate) fn push(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        let run = match self.runs.entry(table.name) {
            std::collections::hash_map::Entry::Occupied(run) => run.into_mut(),
            std::collections::hash_map::Entry::Vacant(vacant) => vacant.insert(self.store.bulk_run(table)?),
        };
        Ok(run.push(key, value)?)
    }

    pub(crate) fn finish(self) -> Result<Vec<FinishedRun>> {
        self.runs.into_values().map(|run| Ok(run.finish()?)).collect()
    }
}
