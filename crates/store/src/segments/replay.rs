//! The replay of the logs when a store is opened.

use std::path::Path;

use super::log::{self, JournalChange, Record};
use super::memtable::Memtable;
use crate::error::Result;

/// The last publish, and the rows that are in no segment.
#[derive(Default)]
pub(super) struct Replayed {
    pub(super) manifest: Option<Vec<u8>>,
    pub(super) leaves: Vec<Vec<u8>>,
    pub(super) rows: Memtable,
    pub(super) has_checkpoint: bool,
}

impl Replayed {
    pub(super) fn take(&mut self, path: &Path) -> Result<()> {
        log::replay(path, |record| {
            match record {
                Record::Checkpoint { manifest, leaves } => {
                    self.manifest = manifest.map(<[u8]>::to_vec);
                    self.leaves = leaves.into_iter().map(<[u8]>::to_vec).collect();
                    self.has_checkpoint = true;
                }
                Record::Rows(rows) => rows.into_iter().for_each(|(table, key, value)| self.rows.put(table, key, value)),
                Record::Publish { manifest, journal } => {
                    self.manifest = Some(manifest.to_vec());
                    match journal {
                        JournalChange::Nothing => {}
                        JournalChange::Leaf(leaf) => self.leaves.push(leaf.to_vec()),
                        JournalChange::Synced => self.leaves.clear(),
                    }
                }
            }
            Ok(())
        })
    }
}
