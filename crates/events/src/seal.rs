//! From the tail to a segment, and from several segments to one.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::dead::Dead;
use crate::error::Result;
use crate::log::Log;
use crate::posting::Posting;
use crate::segment::{OpenSegment, Run, Segment, SegmentArrays, SegmentEnds, SegmentWriter};
use crate::tail::Tail;

/// Segments of about one size that are merged into one.
const MERGED_TOGETHER: usize = 4;

/// Writes the tail as a segment.
pub(crate) fn tail(
    tail: &Tail,
    dead: &Dead,
    arrays: &SegmentArrays,
    ends: SegmentEnds,
) -> Result<(Segment, SegmentEnds)> {
    let mut writer = SegmentWriter::new(arrays, ends);
    for (key, postings) in tail.all_lists() {
        writer.list(key, postings.iter().rev().filter(|posting| !dead.contains(posting.seq())))?;
    }
    for entry in tail.ids().iter().filter(|entry| !dead.contains(entry.seq())) {
        writer.id(entry)?;
    }
    writer.finish()
}

/// The places of segments, of which the sizes are given in events, that are to be merged; ascending.
pub(crate) fn choose(sizes: &[u64], tail_events: u64) -> Option<Vec<usize>> {
    let tier = |size: u64| (size / tail_events.max(1)).max(1).ilog(MERGED_TOGETHER as u64);
    let top = sizes.iter().map(|size| tier(*size)).max()?;
    (0..=top).find_map(|wanted| {
        let of_tier: Vec<usize> = (0..sizes.len()).filter(|place| tier(sizes[*place]) == wanted).collect();
        (of_tier.len() >= MERGED_TOGETHER).then_some(of_tier)
    })
}

/// Writes segments as one, without the dead.
pub(crate) fn segments(
    merged: &[Arc<OpenSegment>],
    dead: &Dead,
    log: &Log,
    arrays: &SegmentArrays,
    ends: SegmentEnds,
) -> Result<(Segment, SegmentEnds)> {
    let mut writer = SegmentWriter::new(arrays, ends);
    let runs = merged.iter().map(|segment| segment.all_runs()).collect::<Result<Vec<_>>>()?;
    let mut left: Vec<&[Run]> = runs.iter().map(Vec::as_slice).collect();
    while let Some(key) = left.iter().filter_map(|runs| runs.first()).map(|run| run.key).min() {
        let mut lists = Vec::new();
        for (runs, segment) in left.iter_mut().zip(merged) {
            if let Some((run, rest)) = runs.split_first().filter(|(run, _)| run.key == key) {
                lists.push(live(segment, run, dead)?);
                *runs = rest;
            }
        }
        writer.list(key, &in_order(lists, log)?)?;
    }
    let mut ids = Vec::new();
    for segment in merged {
        ids.extend(segment.ids()?.into_iter().filter(|entry| !dead.contains(entry.seq())));
    }
    ids.sort_unstable();
    ids.iter().try_for_each(|entry| writer.id(entry))?;
    writer.finish()
}

fn live(segment: &OpenSegment, run: &Run, dead: &Dead) -> Result<Vec<Posting>> {
    let mut list = Vec::new();
    let count = usize::try_from(run.count).expect("a list fits the address space");
    segment.view_run(run.first, count, &mut |postings| {
        list.extend(postings.iter().filter(|posting| !dead.contains(posting.seq())));
    })?;
    Ok(list)
}

/// Lists that are each in order as one.
fn in_order(mut lists: Vec<Vec<Posting>>, log: &Log) -> Result<Vec<Posting>> {
    if lists.len() == 1 {
        return Ok(lists.remove(0));
    }
    let mut all = lists.concat();
    all.sort_by_key(|posting| Reverse(posting.created_at()));
    for second in all.chunk_by_mut(|one, other| one.created_at() == other.created_at()) {
        if second.len() > 1 {
            let ids = log.heads(second.iter().map(Posting::seq))?;
            let mut named: Vec<(Posting, [u8; 32])> =
                second.iter().copied().zip(ids.iter().map(|head| head.id)).collect();
            named.sort_by_key(|(_, id)| *id);
            for (place, (posting, _)) in second.iter_mut().zip(named) {
                *place = posting;
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn four_segments_of_about_one_size_are_merged_the_smallest_first() {
        assert_eq!(choose(&[], 10), None);
        assert_eq!(choose(&[10, 10, 10], 10), None);
        assert_eq!(choose(&[10, 5, 1, 39], 10), Some(vec![0, 1, 2, 3]));
        assert_eq!(choose(&[40, 40, 10, 159, 10, 40, 10, 10], 10), Some(vec![2, 4, 6, 7]));
        assert_eq!(choose(&[40, 40, 10, 159, 10, 40, 10], 10), Some(vec![0, 1, 3, 5]));
    }
}
