//! Everything that reading events needs, borrowed from one version.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};

use crate::event::Seq;
use crate::log::{LogReader, Tombstones};
use crate::postings::{Memtable, OpenSegment, PostingIndex};

/// Read access to the events of one version.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) log: LogReader<'a>,
    pub(crate) index: &'a PostingIndex,
    pub(crate) memtable: &'a RwLock<Memtable>,
    pub(crate) segments: &'a [Arc<OpenSegment>],
    pub(crate) tombstones: &'a Tombstones,
    /// Events that the writer's batch has superseded and not published yet. Other readers see these until the publish.
    pub(crate) superseded: Option<&'a HashSet<Seq>>,
    /// Excludes events from this number on.
    pub(crate) end: Seq,
}

// === impl Reader ===

impl Reader<'_> {
    /// Returns true if an event is in this version and not deleted.
    pub(crate) fn is_visible(&self, seq: Seq) -> bool {
        seq < self.end
            && !self.tombstones.contains(seq)
            && self.superseded.is_none_or(|superseded| !superseded.contains(&seq))
    }

    /// Locks the memtable. Its writer waits for the guard, so hold it briefly.
    pub(crate) fn memtable(&self) -> RwLockReadGuard<'_, Memtable> {
        self.memtable.read()
    }
}
