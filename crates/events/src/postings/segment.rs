//! Segments: immutable postings of many events. A flush creates one, and compaction merges several into a new one.
//!
//! ```text
//! array `posting`  the lists of the segment, by key; in a list the newest first, of equal times the lowest id first
//! array `list`     key u64 LE | first posting, counted from the segment's u32 LE | postings u32 LE      16 bytes
//! array `id`       first 10 bytes of the id | seq u48 LE                                                16 bytes
//! array `fence`    u64 LE: of `list`, then of `id` (see `sorted`)
//! ```
//!
//! A lookup reads one page. (An iterator of an LSM engine is dear, 5 us on RocksDB; a feed of 500 authors asks for 1000
//! lists.) A segment records which tags it has lists of. Where one is missing, the filter's other lists are read, so
//! answers are complete while lists are added. Where a read waits for another machine (`Array::is_remote`), a lookup
//! asks for the pages of all keys together, and for the first postings of all lists together.

use std::ops::ControlFlow;
use std::sync::Arc;

use birdhouse_store::{Array, ArraySpec, Store};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::Result;
use crate::event::{EventId, Letters, Seq};
use crate::log::{FenceBuilder, STRIDE, Section, Sorted};
use crate::postings::posting::{ListKey, ListRange, POSTING_BYTES, Posting, postings};

const POSTING: ArraySpec = ArraySpec { name: "posting", record_bytes: POSTING_BYTES };
const LIST: ArraySpec = ArraySpec { name: "list", record_bytes: size_of::<ListEntry>() };
const ID: ArraySpec = ArraySpec { name: "id", record_bytes: size_of::<IdEntry>() };
const FENCE: ArraySpec = ArraySpec { name: "fence", record_bytes: size_of::<U64>() };

/// Bytes that a segment writer buffers for each array.
const WRITE_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ListEntry {
    key: U64,
    first: U32,
    count: U32,
}

/// Prefix of an event's id, and its number.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub(super) struct IdEntry {
    id: [u8; 10],
    seq: [u8; 6],
}

/// Location and bounds of a segment. Part of the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) postings: Section,
    pub(crate) lists: Section,
    pub(crate) ids: Section,
    pub(crate) fences: Section,
    /// Times of its oldest and newest events.
    pub(crate) oldest: u32,
    pub(crate) newest: u32,
    /// Tags that have lists in the segment.
    pub(crate) letters: Letters,
}

/// Offset in each array that holds segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SegmentOffsets {
    pub(super) postings: u64,
    pub(crate) lists: u64,
    pub(super) ids: u64,
    pub(crate) fences: u64,
}

/// Arrays that all segments share.
#[derive(Clone)]
pub(crate) struct SegmentArrays {
    postings: Arc<dyn Array>,
    lists: Arc<dyn Array>,
    ids: Arc<dyn Array>,
    fences: Arc<dyn Array>,
}

/// A segment that can be read.
pub(crate) struct OpenSegment {
    pub(crate) segment: Segment,
    arrays: SegmentArrays,
    lists: Arc<Sorted>,
    ids: Arc<Sorted>,
}

/// Postings of a list in a segment, by their numbers in the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(super) key: ListKey,
    pub(crate) first: u64,
    pub(crate) count: u64,
}

// === impl Segment, SegmentOffsets ===

impl Segment {
    /// Returns a location from `start` on, with room for this many records.
    pub(super) fn reserve(start: SegmentOffsets, postings: u64, lists: u64, ids: u64) -> Self {
        let fences = lists.div_ceil(STRIDE as u64) + ids.div_ceil(STRIDE as u64);
        Self {
            postings: Section { first: start.postings, count: postings },
            lists: Section { first: start.lists, count: lists },
            ids: Section { first: start.ids, count: ids },
            fences: Section { first: start.fences, count: fences },
            oldest: 0,
            newest: 0,
            letters: Letters::NONE,
        }
    }

    /// Returns the offsets at which the segment starts.
    pub(super) fn start(&self) -> SegmentOffsets {
        let Self { postings, lists, ids, fences, .. } = self;
        SegmentOffsets { postings: postings.first, lists: lists.first, ids: ids.first, fences: fences.first }
    }

    /// Returns the offsets at which the segment ends.
    pub(crate) fn end(&self) -> SegmentOffsets {
        let end = |section: Section| section.first + section.count;
        SegmentOffsets {
            postings: end(self.postings),
            lists: end(self.lists),
            ids: end(self.ids),
            fences: end(self.fences),
        }
    }
}

impl SegmentOffsets {
    /// Returns the greater offset in each array.
    pub(crate) fn later(self, other: Self) -> Self {
        Self {
            postings: self.postings.max(other.postings),
            lists: self.lists.max(other.lists),
            ids: self.ids.max(other.ids),
            fences: self.fences.max(other.fences),
        }
    }
}

// === impl SegmentArrays ===

impl SegmentArrays {
    /// Opens the arrays and truncates what no manifest names. The caller publishes that before it writes.
    pub(crate) fn open(store: &dyn Store, end: SegmentOffsets) -> Result<Self> {
        let arrays = Self::of(store)?;
        arrays.truncate(end)?;
        Ok(arrays)
    }

    /// Opens the arrays as they are.
    pub(crate) fn of(store: &dyn Store) -> Result<Self> {
        Ok(Self {
            postings: store.array(POSTING)?,
            lists: store.array(LIST)?,
            ids: store.array(ID)?,
            fences: store.array(FENCE)?,
        })
    }

    /// Truncates what was not published.
    pub(crate) fn truncate(&self, end: SegmentOffsets) -> Result<()> {
        self.postings.truncate(end.postings)?;
        self.lists.truncate(end.lists)?;
        self.ids.truncate(end.ids)?;
        Ok(self.fences.truncate(end.fences)?)
    }

    /// Opens these segments.
    pub(crate) fn segments(&self, segments: &[Segment]) -> Result<Arc<[Arc<OpenSegment>]>> {
        segments.iter().map(|segment| Ok(Arc::new(self.segment(*segment)?))).collect()
    }

    /// Gives back the space between these segments: merged segments, and leftovers of a power cut.
    pub(crate) fn sweep<'a>(&self, used: impl IntoIterator<Item = &'a Segment>, end: SegmentOffsets) -> Result<()> {
        let used: Vec<&Segment> = used.into_iter().collect();
        let sections = |of: fn(&Segment) -> Section| used.iter().map(|segment| of(segment)).collect::<Vec<_>>();
        let arrays = [
            (&self.postings, sections(|segment| segment.postings), end.postings),
            (&self.lists, sections(|segment| segment.lists), end.lists),
            (&self.ids, sections(|segment| segment.ids), end.ids),
            (&self.fences, sections(|segment| segment.fences), end.fences),
        ];
        for (array, used, end) in arrays {
            for gap in gaps(used, end) {
                array.discard(gap.first, gap.count)?;
            }
        }
        Ok(())
    }

    pub(crate) fn segment(&self, segment: Segment) -> Result<OpenSegment> {
        let mut fences = Vec::new();
        segment.fences.visit(&*self.fences, &mut |bytes| {
            let words = <[U64]>::ref_from_bytes(bytes).expect("arrays return whole records");
            fences.extend(words.iter().map(|word| word.get()));
        })?;
        let count =
            usize::try_from(segment.lists.count).expect("a list section fits the address space").div_ceil(STRIDE);
        let of_ids = fences.split_off(count.min(fences.len()));
        let (lists, ids) = (Sorted::new(segment.lists, fences), Sorted::new(segment.ids, of_ids));
        Ok(OpenSegment { segment, arrays: self.clone(), lists: Arc::new(lists), ids: Arc::new(ids) })
    }

    /// Opens a segment that was open with the arrays of an earlier state, without reading it.
    pub(crate) fn reopened(&self, open: &OpenSegment) -> OpenSegment {
        OpenSegment {
            segment: open.segment,
            arrays: self.clone(),
            lists: Arc::clone(&open.lists),
            ids: Arc::clone(&open.ids),
        }
    }
}

/// Returns the gaps between sections, up to an end.
fn gaps(mut used: Vec<Section>, end: u64) -> Vec<Section> {
    used.sort_unstable_by_key(|section| section.first);
    let gap_starts = std::iter::once(0).chain(used.iter().map(|section| section.first + section.count));
    let gap_ends = used.iter().map(|section| section.first).chain([end]);
    let gaps = gap_starts.zip(gap_ends).filter(|(start, end)| start < end);
    gaps.map(|(start, end)| Section { first: start, count: end - start }).collect()
}

/// Returns a number of records, at most `most`.
pub(crate) fn at_most(count: u64, most: usize) -> usize {
    usize::try_from(count).map_or(most, |count| count.min(most))
}

/// Returns the first number below `count` for which `is_before` is false, or `count`: it is true for all before.
fn partition<E>(count: u64, mut is_before: impl FnMut(u64) -> Result<bool, E>) -> Result<u64, E> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        (low, high) = if is_before(middle)? { (middle + 1, high) } else { (low, middle) };
    }
    Ok(low)
}

// === impl OpenSegment ===

impl OpenSegment {
    /// Returns the lists with keys in these ranges, in the order of the ranges.
    pub(crate) fn runs(&self, spans: &[ListRange]) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        let spans = spans.iter().map(|range| (range.first.0, range.last.0));
        let key = |entry: &ListEntry| entry.key.get();
        self.lists.find(&*self.arrays.lists, key, spans, |found| {
            runs.extend(found.iter().map(|entry| self.run(entry)));
        })?;
        Ok(runs)
    }

    /// Returns up to `count` lists from the list with this number on, ascending.
    pub(super) fn lists_from(&self, number: u64, count: usize) -> Result<Vec<Run>> {
        let Section { first, count: all } = self.segment.lists;
        let count = at_most(all.saturating_sub(number), count);
        let mut runs = Vec::new();
        self.arrays.lists.visit_run(first + number, count, &mut |bytes| {
            let entries = <[ListEntry]>::ref_from_bytes(bytes).expect("arrays return whole records");
            runs = entries.iter().map(|entry| self.run(entry)).collect();
        })?;
        Ok(runs)
    }

    fn run(&self, entry: &ListEntry) -> Run {
        let first = self.segment.postings.first + u64::from(entry.first.get());
        Run { key: ListKey(entry.key.get()), first, count: entry.count.get().into() }
    }

    /// Returns, for each run, how many of its postings are later than `until`, and the first `count` of the others.
    pub(crate) fn pieces_until(&self, runs: &[Run], until: u32, count: usize) -> Result<Vec<(u64, Vec<Posting>)>> {
        // Mostly nothing is later than `until`, so the beginnings of all runs are read together.
        let begins: Vec<(u64, usize)> = runs.iter().map(|run| (run.first, at_most(run.count, count))).collect();
        let mut pieces = Vec::with_capacity(runs.len());
        self.arrays.postings.visit_runs(&begins, &mut |bytes| {
            pieces.push((0, postings(bytes).to_vec()));
            ControlFlow::Continue(())
        })?;
        for (run, (skipped, piece)) in runs.iter().zip(&mut pieces) {
            if piece.first().is_none_or(|posting| posting.created_at() <= until) {
                continue;
            }
            *skipped = self.later_than(run, until)?;
            piece.clear();
            let left = at_most(run.count - *skipped, count);
            self.visit_run(run.first + *skipped, left, &mut |some| piece.extend_from_slice(some))?;
        }
        Ok(pieces)
    }

    /// Returns how many postings of a list are later than `until`. Reads a logarithm of them.
    fn later_than(&self, run: &Run, until: u32) -> Result<u64> {
        if self.arrays.postings.is_remote() {
            return partition(run.count, |number| {
                let mut is_later = false;
                self.visit_run(run.first + number, 1, &mut |some| is_later = some[0].created_at() > until)?;
                Ok(is_later)
            });
        }
        let (count, mut later) = (usize::try_from(run.count).expect("a list fits the address space"), 0);
        self.arrays.postings.visit_parts(run.first, count, &mut |bytes, prove| {
            later = partition(run.count, |number| {
                let at = usize::try_from(number).expect("below the list's length") * POSTING_BYTES;
                prove(at..at + POSTING_BYTES)?;
                Ok::<_, birdhouse_store::Error>(postings(&bytes[at..at + POSTING_BYTES])[0].created_at() > until)
            })?;
            Ok(())
        })?;
        Ok(later)
    }

    /// Visits postings by number.
    pub(crate) fn visit_run(&self, first: u64, count: usize, visit: &mut dyn FnMut(&[Posting])) -> Result<()> {
        Ok(self.arrays.postings.visit_run(first, count, &mut |bytes| visit(postings(bytes)))?)
    }

    /// Appends the events whose ids start like these, each with its index in `ids`: nearly always one or none for an
    /// id.
    pub(crate) fn candidates(&self, ids: &[EventId], candidates: &mut Vec<(usize, Seq)>) -> Result<()> {
        let (mut asked, keys) = (ids.iter().enumerate(), ids.iter().map(|id| id_key(&id.0)));
        let key = |entry: &IdEntry| id_key(&entry.id);
        self.ids.find(&*self.arrays.ids, key, keys.map(|key| (key, key)), |found| {
            let (index, id) = asked.next().expect("find reports once for each id");
            let same = found.iter().filter(|entry| id.0.starts_with(&entry.id));
            candidates.extend(same.map(|entry| (index, Seq::from_bytes(entry.seq))));
        })
    }

    /// Returns the number of events that fulfil a condition.
    pub(crate) fn count_ids(&self, is_counted: &dyn Fn(Seq) -> bool) -> Result<u64> {
        let mut count = 0;
        self.ids.section().visit(&*self.arrays.ids, &mut |bytes| {
            let entries = <[IdEntry]>::ref_from_bytes(bytes).expect("arrays return whole records");
            count += entries.iter().filter(|entry| is_counted(entry.seq())).count() as u64;
        })?;
        Ok(count)
    }

    /// Returns the number of postings whose events fulfil a condition.
    pub(crate) fn count_postings(&self, is_counted: &dyn Fn(Seq) -> bool) -> Result<u64> {
        let mut count = 0;
        self.segment.postings.visit(&*self.arrays.postings, &mut |bytes| {
            count += postings(bytes).iter().filter(|posting| is_counted(posting.seq())).count() as u64;
        })?;
        Ok(count)
    }

    /// Returns all events, ascending by id.
    pub(super) fn ids(&self) -> Result<Vec<IdEntry>> {
        let mut ids = Vec::new();
        self.ids.section().visit(&*self.arrays.ids, &mut |bytes| {
            ids.extend_from_slice(<[IdEntry]>::ref_from_bytes(bytes).expect("arrays return whole records"));
        })?;
        Ok(ids)
    }
}

impl IdEntry {
    pub(super) fn new(id: &EventId, seq: Seq) -> Self {
        Self { id: *id.0.first_chunk().expect("an id has 32 bytes"), seq: seq.to_bytes() }
    }

    pub(super) fn seq(&self) -> Seq {
        Seq::from_bytes(self.seq)
    }
}

fn id_key(id: &[u8]) -> u64 {
    id.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

// === impl SegmentWriter ===

/// Writer of one segment: ids and lists, each ascending, in any interleaving.
pub(super) struct SegmentWriter {
    postings: Column,
    lists: Column,
    ids: Column,
    fences: Column,
    list_fences: FenceBuilder,
    id_fences: FenceBuilder,
    /// First posting of the current list.
    list_first: u64,
    oldest: u32,
    newest: u32,
    letters: Letters,
}

impl SegmentWriter {
    /// Starts a segment at `start` that has lists of these tags.
    pub(super) fn new(arrays: &SegmentArrays, start: SegmentOffsets, letters: Letters) -> Self {
        Self {
            postings: Column::new(&arrays.postings, start.postings),
            lists: Column::new(&arrays.lists, start.lists),
            ids: Column::new(&arrays.ids, start.ids),
            fences: Column::new(&arrays.fences, start.fences),
            list_fences: FenceBuilder::default(),
            id_fences: FenceBuilder::default(),
            list_first: 0,
            oldest: u32::MAX,
            newest: 0,
            letters,
        }
    }

    /// Adds a posting to the current list, in the order of the list.
    pub(super) fn posting(&mut self, posting: &Posting) -> Result<()> {
        self.oldest = self.oldest.min(posting.created_at());
        self.newest = self.newest.max(posting.created_at());
        self.postings.push(posting.as_bytes())
    }

    /// Ends the current list. Keys must ascend. A list without postings is left out.
    pub(super) fn end_list(&mut self, key: ListKey) -> Result<()> {
        let small = |count| u32::try_from(count).expect("a merged segment has a limit far below");
        let (first, end) = (self.list_first, self.postings.count);
        if first < end {
            let entry = ListEntry { key: key.0.into(), first: small(first).into(), count: small(end - first).into() };
            self.list_fences.push(key.0);
            self.lists.push(entry.as_bytes())?;
            self.list_first = end;
        }
        Ok(())
    }

    /// Adds the next event's id.
    pub(super) fn id(&mut self, entry: &IdEntry) -> Result<()> {
        self.id_fences.push(id_key(&entry.id));
        self.ids.push(entry.as_bytes())
    }

    /// Returns the segment, ready to be published.
    pub(super) fn finish(mut self) -> Result<Segment> {
        for fence in self.list_fences.finish().into_iter().chain(self.id_fences.finish()) {
            self.fences.push(U64::new(fence).as_bytes())?;
        }
        Ok(Segment {
            postings: self.postings.finish()?,
            lists: self.lists.finish()?,
            ids: self.ids.finish()?,
            fences: self.fences.finish()?,
            oldest: self.oldest,
            newest: self.newest,
            letters: self.letters,
        })
    }
}

/// Buffered records of an array.
struct Column {
    array: Arc<dyn Array>,
    first: u64,
    /// Number of records so far, including those in `waiting`.
    count: u64,
    written: u64,
    waiting: Vec<u8>,
}

impl Column {
    fn new(array: &Arc<dyn Array>, first: u64) -> Self {
        Self { array: Arc::clone(array), first, count: 0, written: 0, waiting: Vec::new() }
    }

    fn push(&mut self, record: &[u8]) -> Result<()> {
        self.waiting.extend_from_slice(record);
        self.count += 1;
        if self.waiting.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.array.write(self.first + self.written, &self.waiting)?;
        self.written = self.count;
        self.waiting.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<Section> {
        self.write()?;
        Ok(Section { first: self.first, count: self.count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_lie_before_between_and_behind_sections() {
        let section = |first, count| Section { first, count };
        assert_eq!(gaps(vec![], 5), [section(0, 5)]);
        assert_eq!(gaps(vec![], 0), []);
        let used = vec![section(10, 5), section(2, 3), section(5, 5), section(20, 1)];
        assert_eq!(gaps(used.clone(), 21), [section(0, 2), section(15, 5)]);
        assert_eq!(gaps(used, 30), [section(0, 2), section(15, 5), section(21, 9)]);
    }
}
