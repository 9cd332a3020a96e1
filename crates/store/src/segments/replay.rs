//! The replay of the logs when a store is opened.

use std::path::Path;

use super::log::{self, JournalChange, Record};
use super::memtable::Memtable;
use crate::array::state::{self, ArrayStates};
use crate::error::{Error, Result};

/// The last publish, and the rows that are in no segment.
#[derive(Default)]
pub(super) struct Replayed {
    pub(super) manifest: Option<Vec<u8>>,
    /// The states of the arrays at their last sync, as the log has them.
    pub(super) arrays: Vec<u8>,
    pub(super) leaves: Vec<Vec<u8>>,
    pub(super) rows: Memtable,
    pub(super) has_checkpoint: bool,
}

impl Replayed {
    pub(super) fn take(&mut self, path: &Path) -> Result<()> {
        log::replay(path, |record| {
            match record {
                Record::Checkpoint { manifest, arrays, leaves } => {
                    self.manifest = manifest.map(<[u8]>::to_vec);
                    self.arrays = arrays.to_vec();
                    self.leaves = leaves.into_iter().map(<[u8]>::to_vec).collect();
                    self.has_checkpoint = true;
                }
                Record::Rows(rows) => rows.into_iter().for_each(|(table, key, value)| self.rows.put(table, key, value)),
                Record::Publish { manifest, journal } => {
                    self.manifest = Some(manifest.to_vec());
                    match journal {
                        JournalChange::Nothing => {}
                        JournalChange::Leaf(leaf) => self.leaves.push(leaf.to_vec()),
                        JournalChange::Synced(arrays) => {
                            self.arrays = arrays.to_vec();
                            self.leaves.clear();
                        }
                    }
                }
                Record::End => {}
            }
            Ok(())
        })
    }

    /// Returns the states of the arrays at their last sync.
    pub(super) fn array_states(&self) -> Result<ArrayStates> {
        if self.arrays.is_empty() {
            return Ok(ArrayStates::new());
        }
        let damaged =
            || Error::Corrupt { table: "(log)".to_owned(), reason: "states of arrays have no meaning".into() };
        state::decode(&self.arrays).ok_or_else(damaged)
    }
}
