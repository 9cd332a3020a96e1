//! Full-text search (NIP-50): events whose text has all the words of a filter, best first.
//!
//! A tantivy index holds the events below a number, its *watermark*, which is committed with it. The index lags behind:
//! callers of [`Events::index_words`](crate::Events::index_words) fill it from the log, not the writers of events. A
//! search scans the events above the watermark, so its result is complete at any time. The log and the tombstones
//! decide whether an event is returned, as for any other filter, at the moment of the query. The index is not part of
//! the published state: an index that is lost or damaged is rebuilt.
//!
//! Results are in the order of BM25, weighted by age: see `rank`.

mod fill;
mod index;
mod narrow;
mod queue;
mod rank;
mod run;
mod schema;
mod state;
mod storage;
mod tombstone_docs;
mod unindexed;

pub use self::run::SearchProgress;
pub use self::storage::{SearchCoverage, SearchStorage};

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use self::index::{Engine, IndexSnapshot};
use crate::event::Seq;

/// The full-text index: its writer, and the state that searches see.
pub(crate) struct SearchIndex {
    pub(crate) storage: SearchStorage,
    /// Events above the watermark that a search scans. While there are more, it finds nothing.
    unindexed_max: u64,
    engine: Mutex<Option<Engine>>,
    /// `None` until the index is opened.
    installed: RwLock<Option<IndexSnapshot>>,
    /// Set by a search that found damage. The next fill rebuilds the index.
    is_damaged: AtomicBool,
}

// === impl SearchIndex ===

impl SearchIndex {
    pub(crate) fn new(storage: SearchStorage, unindexed_max: u64) -> Self {
        let (engine, installed) = (Mutex::new(None), RwLock::new(None));
        Self { storage, unindexed_max, engine, installed, is_damaged: AtomicBool::new(false) }
    }

    /// Closes the writer of the index. The next fill goes on after the last commit.
    pub(crate) fn close(&self) {
        self.engine.lock().take();
    }

    /// Returns the watermark: the index holds the events below it.
    pub(crate) fn watermark(&self) -> Seq {
        self.installed.read().as_ref().map_or(Seq(0), |snapshot| snapshot.end)
    }

    /// Returns the percentage of the events below `end` that the index holds, while too many are left to scan them.
    pub(crate) fn building(&self, end: Seq) -> Option<u8> {
        let watermark = self.watermark();
        (end.0.saturating_sub(watermark.0) > self.unindexed_max).then(|| percent(watermark, end))
    }

    fn snapshot(&self) -> Option<IndexSnapshot> {
        self.installed.read().clone()
    }

    fn install(&self, snapshot: Option<IndexSnapshot>) {
        *self.installed.write() = snapshot;
    }

    fn report_damage(&self) {
        self.is_damaged.store(true, Ordering::Relaxed);
    }

    fn take_damage(&self) -> bool {
        self.is_damaged.swap(false, Ordering::Relaxed)
    }
}

fn percent(part: Seq, whole: Seq) -> u8 {
    u8::try_from(part.0 * 100 / whole.0.max(1)).unwrap_or(100)
}
