//! Tombstones of events that the retention rules do not keep.
//!
//! Sweeps read the fixed part of every live event, the last accepted first, outside of the writer; it only gets the
//! tombstones. A row in `expiry` for each event would need no sweep, but costs every ingest, and a changed rule would
//! rewrite all.

use std::ops::ControlFlow;

use super::{Events, Writer};
use crate::error::Result;
use crate::event::{Facts, Retention, Seq, Sweep};
use crate::log::{FIXED_BYTES, HEAD_BYTES, Head, Tombstone};

/// Events that one call judges: some milliseconds of reading, without the writer.
const JUDGED_TOGETHER: u64 = 4096;

impl Events {
    /// Judges the next events of a sweep at `now`, seconds since 1970, and deletes those that the rules do not keep.
    /// Returns true if there are more. [`compact`](Self::compact) gives back their space.
    ///
    /// # Errors
    /// As for [`accept`](Self::accept) if the deletions cannot be published. After any other error the sweep goes on
    /// behind the events that could not be read.
    pub fn retain(&self, retention: &Retention, sweep: &mut Sweep, now: u32) -> Result<bool> {
        let unkept = self.unkept_of(retention, sweep, now)?;
        if !unkept.is_empty() {
            sweep.deleted += self.change(|writer| self.bury_unkept(writer, &unkept))?;
        }
        Ok(sweep.end > 0)
    }

    /// Judges the next events of a sweep as [`retain`](Self::retain) does, and deletes none: the sweep shows what rules
    /// would delete.
    ///
    /// # Errors
    /// Failures of the store.
    pub fn weigh(&self, retention: &Retention, sweep: &mut Sweep, now: u32) -> Result<bool> {
        self.unkept_of(retention, sweep, now)?;
        Ok(sweep.end > 0)
    }

    /// Judges the next events of a sweep; returns those that the rules do not keep.
    fn unkept_of(&self, retention: &Retention, sweep: &mut Sweep, now: u32) -> Result<Vec<Seq>> {
        let version = self.installed();
        let end = sweep.end.min(version.end.0);
        sweep.end = end.saturating_sub(JUDGED_TOGETHER);
        let seqs = (sweep.end..end).rev().map(Seq).filter(|seq| !version.tombstones.contains(*seq));
        let seqs: Vec<Seq> = seqs.collect();
        let log = version.log();
        let heads = log.heads(seqs.iter().copied())?;
        let fixed: Vec<(Seq, Head)> =
            seqs.iter().copied().zip(heads.iter().map(|head| head.cut(FIXED_BYTES))).collect();
        let mut unkept = Vec::new();
        log.visit_many(&fixed, &mut |index, packed| {
            let bytes = HEAD_BYTES as u64 + u64::from(heads[index].bytes());
            let facts = Facts { pubkey: packed.pubkey(), kind: packed.kind(), created_at: packed.created_at(), bytes };
            if !sweep.keeps(retention, &facts, now) {
                unkept.push(seqs[index]);
            }
            ControlFlow::Continue(())
        })?;
        Ok(unkept)
    }

    /// Deletes those of the events that are still there; returns their number.
    fn bury_unkept(&self, writer: &mut Writer, unkept: &[Seq]) -> Result<u64> {
        let version = self.installed();
        let live = unkept.iter().filter(|seq| !version.tombstones.contains(**seq));
        let tombstones: Vec<Tombstone> = live.map(|seq| Tombstone { of: *seq, by: *seq }).collect();
        self.bury_alone(writer, &version, &tombstones)?;
        Ok(tombstones.len() as u64)
    }
}
