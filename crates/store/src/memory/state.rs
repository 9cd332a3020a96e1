//! The state of a store in memory: its contents, and the writes that a crash may lose.

use std::ops::Range;

use super::data::Data;
use super::faults::Change;
use crate::error::{Error, Result};
use crate::table::Table;

/// The state that all handles of a store share.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) data: Data,
    /// Writes since the last publish; a crash loses or keeps each.
    pub(super) journal: Vec<Change>,
    /// Number of writes that still succeed; `None` when all do.
    pub(super) writes_left: Option<u64>,
    /// The manifest of a failed publish, which may or may not have reached the disk.
    pub(super) doubtful_manifest: Option<Vec<u8>>,
    /// Free disk that the store reports.
    pub(super) free_bytes: Option<u64>,
    /// Bytes of arrays that the next publish frees.
    pub(super) discarded: Vec<(&'static str, Range<usize>)>,
}

// === impl State ===

impl State {
    /// Counts one write; fails when none is left (see `fail_after`).
    pub(super) fn spend(&mut self) -> Result<()> {
        match &mut self.writes_left {
            Some(0) => {
                Err(Error::Io { action: "write in memory".to_owned(), cause: std::io::Error::other("simulated fault") })
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Frees what was discarded.
    pub(super) fn free(&mut self) {
        for (array, range) in self.discarded.drain(..) {
            if let Some(records) = self.data.arrays.get_mut(array) {
                records.free(range);
            }
        }
    }

    /// Writes or deletes a row and notes the change.
    pub(super) fn set_row(&mut self, table: Table, key: Vec<u8>, after: Option<Vec<u8>>) {
        let before = self.data.set_row(table.name, key.clone(), after.clone());
        self.journal.push(Change::Row { table: table.name, key, before, after });
    }
}
