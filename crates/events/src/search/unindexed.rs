//! Scan of the events above the watermark, which the index does not hold yet.

use super::state::SearchRun;
use crate::error::Result;
use crate::event::Seq;

/// Events whose heads are read together.
const PIECE: u64 = 1024;

/// Adds matching events from this number on to the best hits, until the piece is over; returns the number of the first
/// event that is left.
pub(super) fn scan(run: &mut SearchRun<'_>, mut from: Seq) -> Result<Seq> {
    while from < run.query.end {
        let end = run.query.end.min(Seq(from.0 + PIECE));
        // The heads of others may be gone.
        let live: Vec<Seq> = (from.0..end.0).map(Seq).filter(|seq| !run.reader.tombstones.contains(*seq)).collect();
        let heads = run.reader.log.heads(live.iter().copied())?;
        for (seq, head) in live.into_iter().zip(heads) {
            run.test(seq, &head)?;
            if run.is_over() {
                return Ok(Seq(seq.0 + 1));
            }
        }
        from = end;
    }
    Ok(from)
}
