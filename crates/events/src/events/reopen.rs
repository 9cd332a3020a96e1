//! Opening the events again after a failed write, while queries go on.
//!
//! A failed write leaves memory and the ends of arrays as nobody knows. What counts is the last published manifest:
//! memory is made anew from it, as at a start, and the arrays are truncated.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::RwLock;

use super::{Events, Failure, Writer};
use crate::error::{Error, Result};
use crate::event::{Seq, Vanish};
use crate::log::MovedUnits;
use crate::postings::Memtable;
use crate::state::{Manifest, Version};

/// Interval of looks whether readers of the failed state have finished. A page takes milliseconds.
const READERS_POLL: Duration = Duration::from_millis(1);

impl Events {
    /// Returns the reason why writes fail; `None` while they succeed.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().as_ref().map(|failure| failure.reason.clone())
    }

    /// Makes writes possible again after one has failed. Queries go on meanwhile. Does nothing if no write has failed.
    ///
    /// # Errors
    /// The store still fails, or segments are being merged; try again later.
    pub fn reopen(&self) -> Result<()> {
        self.reopen_and_notify(|_| Ok(()))
    }

    /// Makes writes possible again as [`reopen`](Self::reopen) does. Calls `notify` before, with the numbers of the
    /// events that are found again: the write that was to publish them failed, and the store has them all the same.
    /// Events that are accepted later follow them, and may get numbers that events of the failed write had.
    ///
    /// # Errors
    /// As for [`reopen`](Self::reopen), or `notify` fails.
    pub fn reopen_and_notify(&self, notify: impl FnOnce(Range<Seq>) -> Result<()>) -> Result<()> {
        // A running merge writes to space that the next flush would use.
        let Some(mut upkeep) = self.upkeep.try_lock() else { return Err(Error::Busy) };
        let mut slot = self.writer.lock();
        if slot.is_some() {
            return Ok(());
        }
        if self.followed.is_some() {
            return Err(Error::Followed);
        }
        // It was begun with tombstones that may not have been published.
        if let Some(moving) = upkeep.moving.take() {
            upkeep.abandon(&moving);
        }
        let end = self.failure.lock().as_ref().map_or_else(|| self.end(), |failure| failure.end);
        let reopened = self.restore().and_then(|writer| notify(end..self.end()).map(|()| writer));
        *slot = Some(reopened.inspect_err(|error| {
            *self.failure.lock() = Some(Failure { reason: error.to_string(), end });
        })?);
        *self.failure.lock() = None;
        Ok(())
    }

    /// Makes memory and arrays as the published manifest says, and publishes it once more: the disk takes writes again.
    fn restore(&self) -> Result<Writer> {
        let manifest = match self.store.manifest()? {
            Some(bytes) => Manifest::decode(&bytes)?,
            None => Manifest::new(self.secret, self.options.unit_bits),
        };
        let (version, vanishing) = self.published(&manifest)?;
        let failed = Arc::downgrade(&std::mem::replace(&mut *self.installed.write(), version).memtable);
        // They may know events that were not published, whose place others are about to take.
        while failed.strong_count() > 0 {
            thread::sleep(READERS_POLL);
        }
        self.search.close();
        let segments_end = manifest.segments_end();
        self.log.truncate(manifest.log)?;
        self.arrays.truncate(segments_end)?;
        self.tombstone_array.truncate(manifest.tombstones)?;
        self.store.publish(&manifest.encode())?;
        Ok(Writer { manifest, segments_end, vanishing })
    }

    /// Returns the version that a manifest names, and the vanish requests of its memtable.
    fn published(&self, manifest: &Manifest) -> Result<(Version, VecDeque<(Seq, Vanish)>)> {
        let (mut memtable, mut vanishing) = (Memtable::new(manifest.memtable_first), VecDeque::new());
        let moved = Arc::new(self.log.moved.load(manifest.unit_bits, manifest.moved, &MovedUnits::default())?);
        let seqs = manifest.memtable_first..Seq(manifest.log.seq);
        self.log.reader(&moved).visit_events(seqs, &mut |seq, event| {
            memtable.push(&event, &self.index);
            vanishing.extend(Vanish::of(&event, &self.options.urls).map(|vanish| (seq, vanish)));
            Ok(())
        })?;
        let segments = self.arrays.segments(&manifest.segments)?;
        let mut tombstones = self.tombstone_array.load(manifest.tombstones)?;
        moved.visit_gone(|seq| tombstones.add(seq));
        let memtable = Arc::new(RwLock::new(memtable));
        let log = Arc::clone(&self.log);
        Ok((Version { state: None, log, memtable, segments, tombstones, moved, end: Seq(manifest.log.seq) }, vanishing))
    }
}
