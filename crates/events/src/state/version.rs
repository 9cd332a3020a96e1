//! The installed version: one consistent state of the events, which readers share.

use std::sync::Arc;

use birdhouse_store::Store;
use parking_lot::RwLock;

use crate::event::Seq;
use crate::log::{Log, LogReader, MovedUnits, Tombstones};
use crate::postings::{Memtable, OpenSegment, PostingIndex};
use crate::state::reader::Reader;

/// State that readers see. A clone copies a few pointers.
#[derive(Clone)]
pub(crate) struct Version {
    /// Keeps the published state that is read, where another process writes the events.
    pub(crate) state: Option<Arc<dyn Store>>,
    pub(crate) log: Arc<Log>,
    /// A flush installs a new memtable, so this one never loses events.
    pub(crate) memtable: Arc<RwLock<Memtable>>,
    pub(crate) segments: Arc<[Arc<OpenSegment>]>,
    pub(crate) tombstones: Tombstones,
    /// Every event that is gone from them has a tombstone.
    pub(crate) moved: Arc<MovedUnits>,
    /// Events from this number on are not visible yet.
    pub(crate) end: Seq,
}

// === impl Version ===

impl Version {
    /// Returns a reader of the events below `end`.
    pub(crate) fn reader<'a>(&'a self, index: &'a PostingIndex, end: Seq) -> Reader<'a> {
        let Self { memtable, segments, tombstones, .. } = self;
        Reader { log: self.log(), index, memtable, segments, tombstones, superseded: None, end }
    }

    /// Returns a reader of the log.
    pub(crate) fn log(&self) -> LogReader<'_> {
        self.log.reader(&self.moved)
    }
}
