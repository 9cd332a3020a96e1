//! Tombstones of events that have expired (NIP-40).

use std::sync::atomic::Ordering;

use birdhouse_store::Batch;

use super::{Events, Writer};
use crate::error::Result;
use crate::event::Seq;
use crate::log::{Expiration, Tombstone, expiry};
use crate::state::Version;

/// Events that one call deletes: some milliseconds of work of the writer.
const EXPIRED_TOGETHER: usize = 4096;
/// Events of an earlier version whose heads one call reads.
const SCHEDULED_TOGETHER: u64 = 8192;

impl Events {
    /// Deletes some events that have expired by `now`, seconds since 1970. Returns true if there may be more.
    ///
    /// Queries leave out expired events at any time. Deleting them lets [`compact`](Self::compact) give back their
    /// space. The events of a store of an earlier version are scheduled first, by the same calls.
    ///
    /// # Errors
    /// As for [`accept`](Self::accept).
    pub fn expire(&self, now: u32) -> Result<bool> {
        if self.writer.lock().as_ref().is_some_and(|writer| writer.manifest.unscheduled > Seq(0)) {
            self.change(|writer| self.schedule_some(writer))?;
            return Ok(true);
        }
        let from = self.expiring_from.load(Ordering::Relaxed);
        if from > now || expiry::due(&*self.store, from, now, 1)?.is_empty() {
            return Ok(false);
        }
        self.change(|writer| self.expire_some(writer, now))
    }

    fn expire_some(&self, writer: &mut Writer, now: u32) -> Result<bool> {
        let rows = expiry::due(&*self.store, self.expiring_from.load(Ordering::Relaxed), now, EXPIRED_TOGETHER)?;
        let version = self.installed();
        let expired = Self::confirmed(&version, &rows)?;
        let tombstones: Vec<Tombstone> = expired.iter().map(|seq| Tombstone { of: *seq, by: *seq }).collect();
        self.bury_alone(writer, &version, &tombstones)?;
        // A power cut may bring the rows back, never without the tombstones.
        expiry::remove(&*self.store, &rows)?;
        let is_more = rows.len() == EXPIRED_TOGETHER;
        let removed = if is_more { rows.last().map_or(0, |row| row.at) } else { now };
        self.expiring_from.store(removed, Ordering::Relaxed);
        Ok(is_more)
    }

    /// Adds the expiration of an event to a batch.
    pub(super) fn schedule(&self, batch: &mut Batch, expiration: Expiration) {
        expiry::schedule(batch, expiration);
        self.expiring_from.fetch_min(expiration.at, Ordering::Relaxed);
    }

    /// Publishes and installs tombstones of events that no other event deleted.
    pub(super) fn bury_alone(&self, writer: &mut Writer, version: &Version, buried: &[Tombstone]) -> Result<()> {
        if !buried.is_empty() {
            writer.manifest.tombstones = self.tombstone_array.append(writer.manifest.tombstones, buried)?;
            self.store.publish(&writer.manifest.encode())?;
            self.install(version.end, |tombstones| buried.iter().for_each(|one| tombstones.add(one.of)));
        }
        Ok(())
    }

    /// Returns the events of rows that are right: live, and with that expiration.
    fn confirmed(version: &Version, rows: &[Expiration]) -> Result<Vec<Seq>> {
        let is_live = |row: &&Expiration| row.seq < version.end && !version.tombstones.contains(row.seq);
        let live: Vec<&Expiration> = rows.iter().filter(is_live).collect();
        let heads = version.log().heads(live.iter().map(|row| row.seq))?;
        let right = live.iter().zip(heads).filter(|(row, head)| head.expiration() == row.at);
        Ok(right.map(|(row, _)| row.seq).collect())
    }

    /// Schedules some events of an earlier version, which had no schedule; the newest first.
    fn schedule_some(&self, writer: &mut Writer) -> Result<()> {
        let version = self.installed();
        let end = writer.manifest.unscheduled.0;
        let first = end.saturating_sub(SCHEDULED_TOGETHER);
        let seqs: Vec<Seq> = (first..end).map(Seq).filter(|seq| !version.tombstones.contains(*seq)).collect();
        let heads = version.log().heads(seqs.iter().copied())?;
        let mut batch = Batch::new();
        for (seq, head) in seqs.into_iter().zip(heads).filter(|(_, head)| head.expiration() != 0) {
            self.schedule(&mut batch, Expiration { at: head.expiration(), seq });
        }
        if !batch.is_empty() {
            self.store.write(batch)?;
        }
        writer.manifest.unscheduled = Seq(first);
        Ok(self.store.publish(&writer.manifest.encode())?)
    }
}
