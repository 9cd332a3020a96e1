//! Flushing frozen memtables and merging runs, by a thread of the store's own.
//!
//! Which runs are merged is a pure decision: the newest ones, as long as the next older run is not much larger than all
//! of them together. So a row is written again some times for each time the table grows fourfold, and a lookup asks few
//! runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::block::Value;
use super::files::{remove_logs, remove_segments, segment_path};
use super::log::TableNumber;
use super::merge::{Merge, Run, Source};
use super::segment::SegmentWriter;
use super::shared::{FROZEN_MAX, Frozen, Shared};
use crate::error::{Error, Result};
use crate::range::Direction;
use crate::sync::sync_folder;
use crate::table::Table;

/// An older run is merged with the newer ones while it has at most this many times their bytes.
const GROWTH: u64 = 4;
/// Pause of the thread before it tries again.
const RETRY: Duration = Duration::from_secs(1);
/// Rows of a merge between two looks at whether the store is to end.
const ROWS_PER_LOOK: u64 = 4096;

const THREAD: &str = "store";

/// Starts the thread of a store.
pub(super) fn spawn(shared: Arc<Shared>) -> JoinHandle<()> {
    thread::Builder::new()
        .name(THREAD.to_owned())
        .spawn(move || {
            let _guard = PanicGuard(&shared);
            shared.work();
        })
        .expect("a thread can be started")
}

/// Wakes writers that wait for a flush when the thread panics.
struct PanicGuard<'a>(&'a Shared);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.signal.lock().failure = Some("the thread of the store panicked; start again".to_owned());
            self.0.changed.notify_all();
        }
    }
}

/// Returns the number of newest runs to merge; `sizes` are in bytes, the newest run's first. Pure.
fn runs_to_merge(sizes: &[u64]) -> Option<usize> {
    let (mut total, mut count) = (*sizes.first()?, 1);
    while let Some(next) = sizes.get(count)
        && *next <= total.saturating_mul(GROWTH)
    {
        total += next;
        count += 1;
    }
    (count > 1).then_some(count)
}

impl Shared {
    fn work(&self) {
        loop {
            let done = self.flush_frozen().and_then(|()| self.merge_some());
            let mut signal = self.signal.lock();
            if signal.is_stopped {
                return;
            }
            if done.is_err() || self.read(|contents| contents.frozen.is_empty()) {
                self.changed.wait_for(&mut signal, RETRY);
            }
        }
    }

    fn flush_frozen(&self) -> Result<()> {
        while let Some(frozen) = self.read(|contents| contents.frozen.back().cloned()) {
            let flushed = self.flush(&frozen);
            self.note(flushed.as_ref().err());
            flushed?;
        }
        Ok(())
    }

    fn note(&self, failure: Option<&Error>) {
        if let Some(error) = failure {
            tracing::warn!(%error, "failed to flush the memtable; trying again");
        }
        self.signal.lock().failure = failure.map(ToString::to_string);
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.signal.lock().is_stopped
    }

    pub(super) fn stop(&self) {
        self.signal.lock().is_stopped = true;
        self.changed.notify_all();
    }

    /// Waits until another memtable may be frozen.
    ///
    /// # Errors
    /// [`Error::Engine`] with the last failure to flush.
    pub(super) fn wait_for_room(&self) -> Result<()> {
        self.wait_until_frozen_below(FROZEN_MAX)
    }

    fn wait_until_frozen_below(&self, count: usize) -> Result<()> {
        let mut signal = self.signal.lock();
        while self.read(|contents| contents.frozen.len()) >= count {
            if let Some(failure) = &signal.failure {
                return Err(Error::Engine(failure.clone()));
            }
            self.changed.wait_for(&mut signal, RETRY);
        }
        Ok(())
    }

    /// Flushes everything that was written so far.
    pub(super) fn flush_all(&self) -> Result<()> {
        if !self.read(|contents| contents.active.is_empty()) {
            self.freeze(&mut self.writer.lock())?;
        }
        self.wait_until_frozen_below(1)
    }

    /// Writes the oldest frozen memtable into segments, one run a table.
    fn flush(&self, frozen: &Arc<Frozen>) -> Result<()> {
        let mut written = Vec::new();
        for (number, table) in (0..).zip(&self.by_number) {
            let rows = frozen.rows.rows(number).filter(|rows| !rows.is_empty());
            let Some(rows) = rows else { continue };
            let mut output = Output::new(self, *table);
            for (key, value) in rows {
                output.push(key, value.as_deref())?;
            }
            written.push((number, output.finish()?));
        }
        sync_folder(&self.folder.join("segments"))?;
        let mut installed = self.installed.lock();
        let mut next = installed.clone();
        next.first_log = frozen.next_log;
        for (number, (files, _)) in &written {
            next.tables[usize::from(*number)].runs.insert(0, files.clone());
        }
        self.install(&mut installed, next)?;
        self.change(|contents| {
            contents.frozen.pop_back();
            for (number, (_, run)) in written {
                contents.runs[usize::from(number)].insert(0, run);
            }
        });
        remove_logs(&self.folder, frozen.next_log)
    }

    /// Merges runs of one table where that is due.
    fn merge_some(&self) -> Result<()> {
        for (table, number) in &self.tables {
            let sizes: Vec<u64> =
                self.read(|contents| contents.runs[usize::from(*number)].iter().map(Run::bytes).collect());
            let Some(count) = runs_to_merge(&sizes) else { continue };
            let merged = self.merge_newest(*number, count);
            if let Err(error) = &merged
                && !self.is_stopped()
            {
                tracing::warn!(table = table.name, %error, "failed to merge runs; trying again");
            }
            merged?;
        }
        Ok(())
    }

    /// Merges the newest `count` runs of a table into one; all of them if it has fewer. Memtables that are frozen
    /// meanwhile are flushed.
    pub(super) fn merge_newest(&self, number: TableNumber, count: usize) -> Result<()> {
        let _alone = self.merging.lock();
        let all = self.read(|contents| contents.runs[usize::from(number)].clone());
        let count = count.min(all.len());
        if count < 2 {
            return Ok(());
        }
        let table = self.by_number[usize::from(number)];
        // A tombstone is kept while an older run may hold the row.
        let keeps_deleted = count < all.len();
        let sources = all[..count].iter().map(|run| Source::whole(run.clone()));
        let mut merge = Merge::new(sources.collect::<Result<_>>()?, Direction::Forward);
        let mut output = Output::new(self, table);
        let mut rows = 0;
        merge.each(|key, value| {
            rows += 1;
            if rows % ROWS_PER_LOOK == 0 {
                self.check_stop_and_flush()?;
            }
            if value.is_some() || keeps_deleted {
                output.push(key, value)?;
            }
            Ok(true)
        })?;
        let (files, run) = output.finish()?;
        sync_folder(&self.folder.join("segments"))?;
        let mut installed = self.installed.lock();
        // Newer runs may have come before them, and the table may have been cleared.
        let first = self.read(|contents| {
            let runs = &contents.runs[usize::from(number)];
            runs.windows(count).position(|window| window.iter().zip(&all).all(|(left, right)| left.is(right)))
        });
        let Some(first) = first else {
            remove_segments(&[run]);
            return Ok(());
        };
        let mut next = installed.clone();
        let is_empty = files.is_empty();
        next.tables[usize::from(number)].runs.splice(first..first + count, (!is_empty).then_some(files));
        self.install(&mut installed, next)?;
        let gone: Vec<Run> = self.change(|contents| {
            contents.runs[usize::from(number)].splice(first..first + count, (!is_empty).then_some(run)).collect()
        });
        remove_segments(&gone);
        Ok(())
    }

    /// Flushes frozen memtables in the middle of a long merge.
    ///
    /// # Errors
    /// [`Error::Engine`] once the store is closing.
    fn check_stop_and_flush(&self) -> Result<()> {
        if self.is_stopped() {
            return Err(Error::Engine("the store is closing".to_owned()));
        }
        // If a caller's thread merges, the store's own thread flushes.
        if std::thread::current().name() == Some(THREAD) { self.flush_frozen() } else { Ok(()) }
    }
}

/// Segments being written, in sequence. An unfinished one is removed.
struct Output<'a> {
    shared: &'a Shared,
    table: Table,
    writer: Option<SegmentWriter>,
    files: Vec<u64>,
}

impl<'a> Output<'a> {
    fn new(shared: &'a Shared, table: Table) -> Self {
        Self { shared, table, writer: None, files: Vec::new() }
    }

    fn push(&mut self, key: &[u8], value: Value<'_>) -> Result<()> {
        if self.writer.is_none() {
            let number = self.shared.next_file.fetch_add(1, Ordering::Relaxed);
            self.files.push(number);
            self.writer = Some(SegmentWriter::create(&segment_path(&self.shared.folder, number), self.table)?);
        }
        let writer = self.writer.as_mut().expect("just made");
        writer.push(key, value)?;
        if writer.bytes() >= self.shared.options.segment_bytes {
            self.writer.take().expect("just used").finish()?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(Vec<u64>, Run)> {
        if let Some(writer) = self.writer.take() {
            writer.finish()?;
        }
        let files = std::mem::take(&mut self.files);
        let open = |file: &u64| self.shared.open_segment(*file, self.table.name);
        let run = files.iter().map(open).collect::<Result<_>>().map(Run)?;
        Ok((files, run))
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = std::fs::remove_file(segment_path(&self.shared.folder, *file));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_runs_are_merged_while_the_next_is_not_much_larger() {
        assert_eq!(runs_to_merge(&[]), None);
        assert_eq!(runs_to_merge(&[5]), None);
        assert_eq!(runs_to_merge(&[5, 21]), None);
        assert_eq!(runs_to_merge(&[5, 20]), Some(2));
        assert_eq!(runs_to_merge(&[5, 5, 40, 201]), Some(3));
        assert_eq!(runs_to_merge(&[5, 5, 41]), Some(2));
    }
}
