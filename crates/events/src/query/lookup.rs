//! Lookups: events by id, and the sizes of posting lists.

use std::sync::Arc;

use crate::error::Result;
use crate::event::{EventId, Seq};
use crate::log::Head;
use crate::postings::OpenSegment;
use crate::query::plan::Spans;
use crate::state::Reader;

/// Returns the number of a visible event.
pub(crate) fn find(reader: Reader<'_>, id: &EventId) -> Result<Option<Seq>> {
    Ok(find_many(reader, std::slice::from_ref(id))?.remove(0).map(|(seq, _)| seq))
}

/// Returns number and head of each visible event, in the order of `ids`.
pub(crate) fn find_many(reader: Reader<'_>, ids: &[EventId]) -> Result<Vec<Option<(Seq, Head)>>> {
    let mut candidates: Vec<(usize, Seq)> = {
        let memtable = reader.memtable();
        ids.iter().enumerate().filter_map(|(index, id)| Some((index, memtable.find(id)?))).collect()
    };
    for segment in reader.segments {
        segment.candidates(ids, &mut candidates)?;
    }
    candidates.retain(|(_, seq)| reader.is_visible(*seq));
    let heads = reader.log.heads(candidates.iter().map(|(_, seq)| *seq))?;
    let mut found = vec![None; ids.len()];
    for ((index, seq), head) in candidates.into_iter().zip(heads) {
        if head.id == ids[index].0 {
            found[index] = Some((seq, head));
        }
    }
    Ok(found)
}

/// Returns the approximate number of postings in lists. Ignores segments that cannot be read: reading the lists reports
/// that.
pub(super) fn size(reader: Reader<'_>, lists: &Spans) -> u64 {
    let in_memtable: u64 = {
        let memtable = reader.memtable();
        lists.ranges.iter().map(|range| memtable.count(*range)).sum()
    };
    let runs = |segment: &Arc<OpenSegment>| segment.runs(lists.among(segment.segment.letters)).ok();
    let in_segments = reader.segments.iter().filter_map(runs).flatten();
    in_memtable + in_segments.map(|run| run.count).sum::<u64>()
}
