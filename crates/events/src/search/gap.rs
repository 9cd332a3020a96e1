//! Looks through the events above the watermark, which the index does not hold yet.

use super::look::Looking;
use super::rank::Hit;
use crate::error::{Error, Result};
use crate::log::{Head, Seq};
use crate::packed::Packed;

/// Events whose heads are read together.
const PIECE: u64 = 1024;

/// Takes what is found from a number on.
pub(super) fn look_through(looking: &mut Looking<'_>, from: Seq) -> Result<()> {
    let (events, end) = (looking.events, looking.query.end.0);
    let mut first = from.0;
    while first < end {
        let seqs = || (first..end.min(first + PIECE)).map(Seq);
        let heads = events.log.heads(seqs())?;
        for (seq, head) in seqs().zip(heads) {
            if !looking.dead.contains(seq) {
                look_at(looking, seq, &head)?;
            }
        }
        first += PIECE;
    }
    Ok(())
}

fn look_at(looking: &mut Looking<'_>, seq: Seq, head: &Head) -> Result<()> {
    let text = |packed: Packed<'_>| {
        let is_wanted = packed.kind().is_text() && looking.admits(head, packed)?;
        Some(if is_wanted { Some(packed.to_event()?) } else { None })
    };
    let event = looking.events.log.view(seq, head, text)?.ok_or(Error::CorruptEvent(seq))?;
    if let Some(score) = event.and_then(|event| looking.score(&event)) {
        looking.best.push(Hit { score, seq });
    }
    Ok(())
}
