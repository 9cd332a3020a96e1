//! Scan of the events above the watermark, which the index does not hold yet.

use super::rank::Hit;
use super::state::SearchRun;
use crate::error::{Error, Result};
use crate::log::head::Head;
use crate::packed::Packed;
use crate::seq::Seq;

/// Events that are scanned in one turn: some milliseconds of work.
const PIECE: u64 = 1024;

/// Adds the matching events of a piece that begins with this number to the best hits; returns the number that the next
/// piece begins with.
pub(super) fn scan(run: &mut SearchRun<'_>, from: Seq) -> Result<Seq> {
    let end = run.query.end.0.min(from.0 + PIECE).max(from.0);
    // The heads of others may be gone.
    let live: Vec<Seq> = (from.0..end).map(Seq).filter(|seq| !run.reader.tombstones.contains(*seq)).collect();
    let heads = run.reader.log.heads(live.iter().copied())?;
    for (seq, head) in live.into_iter().zip(heads) {
        test(run, seq, &head)?;
    }
    Ok(Seq(end))
}

fn test(run: &mut SearchRun<'_>, seq: Seq, head: &Head) -> Result<()> {
    let text = |packed: Packed<'_>| {
        let is_wanted = packed.kind().is_text() && run.admits(head, packed)?;
        Some(if is_wanted { Some(packed.to_event()?) } else { None })
    };
    let event = run.reader.log.visit(seq, head, text)?.ok_or(Error::CorruptEvent(seq))?;
    if let Some(score) = event.and_then(|event| run.score(&event)) {
        run.best.push(Hit { score, seq });
    }
    Ok(())
}
