//! Flush of the memtable into a segment, and compaction of segments.
//!
//! Compaction merges segments of similar size, without tombstoned events, and rewrites a segment that lacks the posting
//! lists of a tag. Each is one sequential pass in bounded memory, beside readers and the writer: the inputs stay
//! unchanged until the new segment is published.

pub(crate) mod context;
mod streams;

use std::sync::Arc;

use self::context::CompactionContext;
use self::streams::{AddedPosting, Stream, collect_added, write_list};
use crate::error::{Error, Result};
use crate::event::Letters;
use crate::postings::memtable::Memtable;
use crate::postings::posting::{ListKey, ListRange};
use crate::postings::segment::{IdEntry, OpenSegment, Segment, SegmentOffsets, SegmentWriter};

/// Segments of similar size that are merged into one.
const MERGED_TOGETHER: usize = 4;
/// Events of a merged segment at most. Clients mostly ask for new events, and a query for these does not open older
/// segments.
const SEGMENT_EVENTS_MAX: u64 = 1 << 22;
/// Postings that count as one event where sizes of segments are compared: notes and reactions have 6 to 12. Segments of
/// events with thousands of tags would otherwise count as small ones, and be merged again and again.
const POSTINGS_PER_EVENT: u64 = 16;
/// Lists between two questions whether to go on.
const LISTS_TOGETHER: u64 = 4096;
/// Postings of added lists that are in memory at a time.
const ADDED_TOGETHER: u64 = 1 << 21;

/// Writes the memtable as a segment.
pub(crate) fn flush(context: CompactionContext<'_>, memtable: &Memtable, start: SegmentOffsets) -> Result<Segment> {
    let mut writer = SegmentWriter::new(context.arrays, start, context.index.letters);
    for (key, postings) in memtable.all_lists() {
        let live = postings.iter().rev().filter(|posting| !context.tombstones.contains(posting.seq()));
        live.copied().try_for_each(|posting| writer.posting(&posting))?;
        writer.end_list(key)?;
    }
    write_ids(context, &mut writer, &memtable.ids())?;
    writer.finish()
}

/// Writes segments as one into reserved space, without tombstoned events, and with the posting lists of all indexed
/// tags. `added` is the result of [`missing_postings`].
///
/// # Errors
/// [`Error::Stopped`] when `go_on` returns false.
pub(crate) fn rewrite(
    context: CompactionContext<'_>,
    segments: &[Arc<OpenSegment>],
    added: u64,
    reserved: &Segment,
    go_on: &dyn Fn() -> bool,
) -> Result<Segment> {
    let mut writer = SegmentWriter::new(context.arrays, reserved.start(), context.index.letters);
    let mut streams: Vec<Stream<'_>> = segments.iter().map(|segment| Stream::new(segment)).collect();
    let mut lists = 0_u64;
    for range in ranges(added.div_ceil(ADDED_TOGETHER).max(1)) {
        let added = added_in(context, segments, range)?;
        let mut added: &[AddedPosting] = &added;
        while let Some(key) = next_key(&mut streams, added, range.last)? {
            let of_key = added.partition_point(|one| one.key == key);
            write_list(&mut writer, key, &mut streams, &added[..of_key], context)?;
            added = &added[of_key..];
            lists += 1;
            if lists.is_multiple_of(LISTS_TOGETHER) && !go_on() {
                return Err(Error::Stopped);
            }
        }
    }
    let mut ids = Vec::new();
    for segment in segments {
        ids.extend(segment.ids()?);
    }
    ids.sort_unstable();
    write_ids(context, &mut writer, &ids)?;
    writer.finish()
}

fn write_ids(context: CompactionContext<'_>, writer: &mut SegmentWriter, ids: &[IdEntry]) -> Result<()> {
    ids.iter().filter(|entry| !context.tombstones.contains(entry.seq())).try_for_each(|entry| writer.id(entry))
}

// === posting lists that a segment lacks ===

/// Returns an upper bound on the number of postings in the lists that these segments lack.
pub(crate) fn missing_postings(context: CompactionContext<'_>, segments: &[Arc<OpenSegment>]) -> Result<u64> {
    let mut count = 0;
    for segment in segments {
        let missing = missing_letters(context, segment);
        if !missing.is_empty() {
            // The heads of others may be gone.
            for entry in segment.ids()?.iter().filter(|entry| !context.tombstones.contains(entry.seq())) {
                count += context.index.tag_lists_of(&context.log.event(entry.seq())?, missing).len() as u64;
            }
        }
    }
    Ok(count)
}

fn missing_letters(context: CompactionContext<'_>, segment: &OpenSegment) -> Letters {
    context.index.letters.without(segment.segment.letters)
}

/// Returns the missing postings in a range of keys, in the order of a segment.
fn added_in(
    context: CompactionContext<'_>,
    segments: &[Arc<OpenSegment>],
    range: ListRange,
) -> Result<Vec<AddedPosting>> {
    let mut all = Vec::new();
    for segment in segments {
        let missing = missing_letters(context, segment);
        if !missing.is_empty() {
            collect_added(segment, missing, range, context, &mut all)?;
        }
    }
    all.sort_unstable_by(AddedPosting::order);
    Ok(all)
}

/// Returns the space for the rewrite of these segments with `added` postings more.
pub(crate) fn reserve(segments: &[Arc<OpenSegment>], added: u64, start: SegmentOffsets) -> Segment {
    let sum = |count: fn(&Segment) -> u64| segments.iter().map(|segment| count(&segment.segment)).sum::<u64>();
    let (postings, lists) = (sum(|segment| segment.postings.count), sum(|segment| segment.lists.count));
    Segment::reserve(start, postings + added, lists + added, sum(|segment| segment.ids.count))
}

/// Splits the space of keys into ranges, ascending.
fn ranges(parts: u64) -> impl Iterator<Item = ListRange> {
    let width = u64::MAX / parts;
    (0..parts).map(move |part| {
        let last = if part + 1 == parts { u64::MAX } else { (part + 1) * width - 1 };
        ListRange { first: ListKey(part * width), last: ListKey(last) }
    })
}

/// Returns the lowest key up to `last` that has a list.
fn next_key(streams: &mut [Stream<'_>], added: &[AddedPosting], last: ListKey) -> Result<Option<ListKey>> {
    let mut next = added.first().map(|one| one.key);
    for stream in streams {
        if let Some(key) = stream.key()?.filter(|key| *key <= last) {
            next = Some(next.map_or(key, |next| next.min(key)));
        }
    }
    Ok(next)
}

/// Returns the size of a segment in events, or more if these have many postings.
pub(crate) fn size(segment: &Segment) -> u64 {
    segment.ids.count.max(segment.postings.count / POSTINGS_PER_EVENT)
}

/// Returns the indices of the segments for the next compaction, ascending: segments of similar size, the smallest
/// first; without these, one that lacks lists. `segments` are their [sizes](size), and whether they lack lists.
pub(crate) fn choose(segments: &[(u64, bool)], memtable_events: u64) -> Option<Vec<usize>> {
    let tier = |size: u64| (size / memtable_events.max(1)).max(1).ilog(MERGED_TOGETHER as u64);
    let top = segments.iter().map(|(size, _)| tier(*size)).max()?;
    let merged = (0..=top).find_map(|wanted| {
        let mut events = 0;
        let of_tier = (0..segments.len()).filter(|index| tier(segments[*index].0) == wanted);
        let fitting = of_tier.take_while(|index| {
            events += segments[*index].0;
            events <= SEGMENT_EVENTS_MAX.max(MERGED_TOGETHER as u64 * memtable_events)
        });
        Some(fitting.collect::<Vec<_>>()).filter(|fitting| fitting.len() >= MERGED_TOGETHER)
    });
    merged.or_else(|| segments.iter().position(|(_, lacks)| *lacks).map(|index| vec![index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(sizes: &[u64], memtable_events: u64) -> Option<Vec<usize>> {
        choose(&sizes.iter().map(|size| (*size, false)).collect::<Vec<_>>(), memtable_events)
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
