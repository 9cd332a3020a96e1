//! From the tail to a segment, and from segments to a better one.
//!
//! Segments of about one size are merged, without the dead; one that lacks the lists of a tag is written again with them.
//! Both are one pass over what is there, in the order in which it lies, in bounded memory, and beside everything else: what is
//! read stays as it is until the new segment is published.

mod streams;

use std::sync::Arc;

use self::streams::{Added, Stream, added, write_list};
use crate::dead::Dead;
use crate::error::Result;
use crate::log::Log;
use crate::posting::{ListKey, Lists};
use crate::segment::{IdEntry, OpenSegment, Segment, SegmentArrays, SegmentEnds, SegmentWriter};
use crate::tag::Letters;
use crate::tail::Tail;

/// Segments of about one size that are merged into one.
const MERGED_TOGETHER: usize = 4;
/// A segment does not grow beyond so many events: what is asked for is mostly new, and later segments are not opened for it.
const SEGMENT_EVENTS_MAX: u64 = 1 << 22;
/// Postings of lists that are added, in memory at a time.
const ADDED_TOGETHER: u64 = 1 << 21;

/// What segments are written with.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'a> {
    pub(crate) log: &'a Log,
    pub(crate) lists: &'a Lists,
    pub(crate) arrays: &'a SegmentArrays,
    pub(crate) dead: &'a Dead,
}

impl Desk<'_> {
    /// Writes the tail as a segment.
    pub(crate) fn tail(self, tail: &Tail, ends: SegmentEnds) -> Result<Segment> {
        let mut writer = SegmentWriter::new(self.arrays, ends, self.lists.letters);
        for (key, postings) in tail.all_lists() {
            let live = postings.iter().rev().filter(|posting| !self.dead.contains(posting.seq()));
            live.copied().try_for_each(|posting| writer.posting(&posting))?;
            writer.end_list(key)?;
        }
        self.ids(&mut writer, &tail.ids())?;
        writer.finish()
    }

    /// Writes segments as one at a place, without the dead, and with lists of all tags that are to have them. `added` postings
    /// are missing.
    pub(crate) fn rewrite(self, segments: &[Arc<OpenSegment>], added: u64, place: &Segment) -> Result<Segment> {
        let mut writer = SegmentWriter::new(self.arrays, place.starts(), self.lists.letters);
        let mut streams: Vec<Stream<'_>> = segments.iter().map(|segment| Stream::new(segment)).collect();
        for range in ranges(added.div_ceil(ADDED_TOGETHER).max(1)) {
            let added = self.added_in(segments, range)?;
            let mut added: &[Added] = &added;
            while let Some(key) = next_key(&mut streams, added, range.1)? {
                let of_key = added.partition_point(|one| one.key == key);
                write_list(&mut writer, key, &mut streams, &added[..of_key], self)?;
                added = &added[of_key..];
            }
        }
        let mut ids = Vec::new();
        for segment in segments {
            ids.extend(segment.ids()?);
        }
        ids.sort_unstable();
        self.ids(&mut writer, &ids)?;
        writer.finish()
    }

    fn ids(self, writer: &mut SegmentWriter, ids: &[IdEntry]) -> Result<()> {
        ids.iter().filter(|entry| !self.dead.contains(entry.seq())).try_for_each(|entry| writer.id(entry))
    }

    // === lists that a segment lacks ===

    fn missing(self, segment: &OpenSegment) -> Letters {
        self.lists.letters.without(segment.segment.letters)
    }

    /// How many postings of lists that are to be there these segments lack, at most.
    pub(crate) fn added(self, segments: &[Arc<OpenSegment>]) -> Result<u64> {
        let mut count = 0;
        for segment in segments {
            let missing = self.missing(segment);
            if !missing.is_empty() {
                for entry in segment.ids()? {
                    count += self.lists.of_tags(&self.log.event(entry.seq())?, missing).len() as u64;
                }
            }
        }
        Ok(count)
    }

    /// What is added in a range of keys, in order.
    fn added_in(self, segments: &[Arc<OpenSegment>], range: (ListKey, ListKey)) -> Result<Vec<Added>> {
        let mut all = Vec::new();
        for segment in segments {
            let missing = self.missing(segment);
            if !missing.is_empty() {
                added(segment, missing, range, self, &mut all)?;
            }
        }
        all.sort_unstable_by(Added::order);
        Ok(all)
    }
}

/// A place for what is made of these segments when so many postings are added.
pub(crate) fn reserve(segments: &[Arc<OpenSegment>], added: u64, ends: SegmentEnds) -> Segment {
    let sum = |count: fn(&Segment) -> u64| segments.iter().map(|segment| count(&segment.segment)).sum::<u64>();
    let (postings, lists) = (sum(|segment| segment.postings.count), sum(|segment| segment.lists.count));
    Segment::place(ends, postings + added, lists + added, sum(|segment| segment.ids.count))
}

/// All keys in so many ranges, ascending.
fn ranges(parts: u64) -> impl Iterator<Item = (ListKey, ListKey)> {
    let width = u64::MAX / parts;
    (0..parts).map(move |part| {
        let last = if part + 1 == parts { u64::MAX } else { (part + 1) * width - 1 };
        (ListKey(part * width), ListKey(last))
    })
}

/// The lowest key up to `last` of which there is a list.
fn next_key(streams: &mut [Stream<'_>], added: &[Added], last: ListKey) -> Result<Option<ListKey>> {
    let mut next = added.first().map(|one| one.key);
    for stream in streams {
        if let Some(key) = stream.key()?.filter(|key| *key <= last) {
            next = Some(next.map_or(key, |next| next.min(key)));
        }
    }
    Ok(next)
}

/// The places of segments that are to be written as one; ascending. First those of about one size, the smallest before others;
/// then one that lacks lists. `segments` are their sizes, in events, and whether they lack lists.
pub(crate) fn choose(segments: &[(u64, bool)], tail_events: u64) -> Option<Vec<usize>> {
    let tier = |size: u64| (size / tail_events.max(1)).max(1).ilog(MERGED_TOGETHER as u64);
    let top = segments.iter().map(|(size, _)| tier(*size)).max()?;
    let merged = (0..=top).find_map(|wanted| {
        let mut events = 0;
        let of_tier = (0..segments.len()).filter(|place| tier(segments[*place].0) == wanted);
        let fitting = of_tier.take_while(|place| {
            events += segments[*place].0;
            events <= SEGMENT_EVENTS_MAX.max(MERGED_TOGETHER as u64 * tail_events)
        });
        Some(fitting.collect::<Vec<_>>()).filter(|fitting| fitting.len() >= MERGED_TOGETHER)
    });
    merged.or_else(|| segments.iter().position(|(_, lacks)| *lacks).map(|place| vec![place]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(sizes: &[u64], tail_events: u64) -> Option<Vec<usize>> {
        choose(&sizes.iter().map(|size| (*size, false)).collect::<Vec<_>>(), tail_events)
    }

    #[test]
    fn four_segments_of_about_one_size_are_merged_the_smallest_first() {
        assert_eq!(chosen(&[], 10), None);
        assert_eq!(chosen(&[10, 10, 10], 10), None);
        assert_eq!(chosen(&[10, 5, 1, 39], 10), Some(vec![0, 1, 2, 3]));
        assert_eq!(chosen(&[40, 40, 10, 159, 10, 40, 10, 10], 10), Some(vec![2, 4, 6, 7]));
        assert_eq!(chosen(&[40, 40, 10, 159, 10, 40, 10], 10), Some(vec![0, 1, 3, 5]));
    }

    #[test]
    fn large_segments_are_left_as_they_are() {
        let large = SEGMENT_EVENTS_MAX / 2;
        assert_eq!(chosen(&[large, large, large, large], 1 << 15), None);
        assert_eq!(chosen(&[large / 2; 6], 1 << 15), Some(vec![0, 1, 2, 3]));
    }

    #[test]
    fn a_segment_that_lacks_lists_is_written_again_when_none_are_to_be_merged() {
        assert_eq!(choose(&[(40, false), (10, true), (5, true)], 10), Some(vec![1]));
        assert_eq!(choose(&[(10, true), (10, false), (10, false), (10, true)], 10), Some(vec![0, 1, 2, 3]));
    }
}
