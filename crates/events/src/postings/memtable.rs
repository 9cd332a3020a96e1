//! The memtable: postings of the newest events, in memory until they are flushed into a segment.
//!
//! Its events are in the log too, so opening the log rebuilds it.
//!
//! It is flushed when it is full by events or by bytes, also while the log is replayed: 300 events of 9 990 tags took
//! 490 MB of memory before bytes had a bound, and take 52 MB.

use std::cmp::Reverse;
use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::event::{Event, EventId, Seq};
use crate::postings::posting::{ListKey, ListName, ListRange, POSTING_BYTES, Posting, PostingIndex};
use crate::postings::segment::IdEntry;

/// Memory of an event: its id, twice, with what the hash table leaves empty.
const EVENT_BYTES: usize = 128;
/// Memory of a list without its postings: an entry in the hash table, which is half empty at times, and two
/// allocations.
const LIST_BYTES: usize = 128;

/// Postings of the newest events.
#[derive(Debug)]
pub(crate) struct Memtable {
    /// The first event that is not in a segment.
    first: Seq,
    /// Approximate memory.
    bytes: usize,
    ids: Vec<EventId>,
    by_id: HashMap<EventId, Seq>,
    /// Lists by name, ascending. A hash map, because a filter asks for a thousand names, most of which are not here,
    /// and an ordered map compares its way to each absent one.
    lists: HashMap<ListName, Vec<List>, RandomState>,
}

/// A posting list.
#[derive(Debug)]
struct List {
    key: ListKey,
    /// Oldest first, so that new events are appended.
    postings: Vec<Posting>,
}

impl Memtable {
    pub(crate) fn new(first: Seq) -> Self {
        Self { first, bytes: 0, ids: Vec::new(), by_id: HashMap::new(), lists: HashMap::default() }
    }

    /// Adds the next event.
    pub(crate) fn push(&mut self, event: &Event, index: &PostingIndex) -> Seq {
        let seq = self.end();
        self.ids.push(event.id);
        self.by_id.insert(event.id, seq);
        self.bytes += EVENT_BYTES;
        let posting = Posting::new(event, seq, index);
        for key in index.lists_of(event) {
            let named = self.lists.entry(key.name()).or_default();
            let found = named.binary_search_by_key(&key, |list| list.key);
            let at = found.unwrap_or_else(|at| {
                named.reserve_exact(1); // most names have one list
                named.insert(at, List { key, postings: Vec::with_capacity(1) }); // and most lists one posting
                self.bytes += LIST_BYTES;
                at
            });
            self.bytes += POSTING_BYTES;
            let List { postings, .. } = &mut named[at];
            postings.insert(rank_in(postings, &posting, self.first, &self.ids), posting);
        }
        seq
    }

    /// Returns the number of the first event that is not in a segment.
    pub(crate) fn first(&self) -> Seq {
        self.first
    }

    /// Returns the number of the next event.
    pub(crate) fn end(&self) -> Seq {
        Seq(self.first.0 + self.ids.len() as u64)
    }

    /// Returns the approximate memory of the memtable, in bytes. Tags decide it: an event has a posting for each.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn find(&self, id: &EventId) -> Option<Seq> {
        self.by_id.get(id).copied()
    }

    /// Returns, for each list in the range, the first `count` postings that are not later than `until`, newest first.
    /// The range must be of one name.
    pub(crate) fn lists_until(
        &self,
        range: ListRange,
        until: u32,
        count: usize,
    ) -> impl Iterator<Item = (ListKey, Vec<Posting>)> {
        self.range(range).iter().map(move |List { key, postings }| {
            let due = postings.partition_point(|posting| posting.created_at() <= until);
            (*key, newest(&postings[..due], count))
        })
    }

    /// Returns the next `count` postings of a list after one of its postings.
    pub(crate) fn list_after(&self, key: ListKey, last: &Posting, count: usize) -> Vec<Posting> {
        let [List { postings, .. }] = self.range(key.into()) else { return Vec::new() };
        newest(&postings[..rank_in(postings, last, self.first, &self.ids)], count)
    }

    /// Returns the number of postings in the lists of a range, which must be of one name.
    pub(crate) fn count(&self, range: ListRange) -> u64 {
        self.range(range).iter().map(|list| list.postings.len() as u64).sum()
    }

    fn range(&self, ListRange { first, last }: ListRange) -> &[List] {
        debug_assert_eq!(first.name(), last.name());
        let Some(named) = self.lists.get(&first.name()) else { return &[] };
        let start = named.partition_point(|list| list.key < first);
        let end = named.partition_point(|list| list.key <= last);
        &named[start..end]
    }

    /// Returns all lists, ascending; each oldest first.
    pub(super) fn all_lists(&self) -> impl Iterator<Item = (ListKey, &[Posting])> {
        let mut names: Vec<(ListName, &[List])> = self.lists.iter().map(|(name, lists)| (*name, &**lists)).collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        names.into_iter().flat_map(|(_, lists)| lists).map(|list| (list.key, list.postings.as_slice()))
    }

    /// Returns all events, ascending by id.
    pub(super) fn ids(&self) -> Vec<IdEntry> {
        let mut ids: Vec<IdEntry> = self.by_id.iter().map(|(id, seq)| IdEntry::new(id, *seq)).collect();
        ids.sort_unstable();
        ids
    }
}

/// Returns the index of a posting in a list, or the index where it belongs.
fn rank_in(list: &[Posting], posting: &Posting, first: Seq, ids: &[EventId]) -> usize {
    let id = |seq: Seq| ids[usize::try_from(seq.0 - first.0).expect("the memtable fits in memory")];
    // An event that was deleted and is accepted again is here twice: the number of the copy tells them apart.
    let rank = |posting: &Posting| (posting.created_at(), Reverse(id(posting.seq())), posting.seq());
    let wanted = rank(posting);
    match list.last() {
        Some(last) if rank(last) >= wanted => list.partition_point(|other| rank(other) < wanted),
        _ => list.len(),
    }
}

fn newest(list: &[Posting], count: usize) -> Vec<Posting> {
    list.iter().rev().take(count).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::samples::event;
    use crate::options::EventsOptions;

    /// A version that was replaced comes again after its successor is deleted.
    #[test]
    fn an_event_that_is_there_twice_is_read_twice_in_pieces_of_one() {
        let index = PostingIndex::new(&[7; 16], EventsOptions::default().indexed_letters());
        let mut memtable = Memtable::new(Seq(0));
        let again = event(1, 5, &[], "again");
        for one in [&event(1, 4, &[], "older"), &again, &again, &event(1, 6, &[], "newer")] {
            memtable.push(one, &index);
        }
        let key = *index.lists_of(&again).first().expect("an event is in a list");
        let mut read: Vec<Posting> =
            memtable.lists_until(key.into(), u32::MAX, 1).flat_map(|(_, first)| first).collect();
        while let [next] = memtable.list_after(key, read.last().expect("the first"), 1)[..] {
            read.push(next);
        }
        assert_eq!(read.iter().map(|posting| posting.seq().0).collect::<Vec<_>>(), [3, 2, 1, 0]);
    }
}
