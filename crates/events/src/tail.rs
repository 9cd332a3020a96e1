//! The tail: the postings of the newest events, in memory until they are sealed into a segment.
//!
//! What is here is in the log too: it is made again when the log is opened.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::event::{Event, EventId};
use crate::log::Seq;
use crate::posting::{ListKey, Lists, Posting};
use crate::segment::IdEntry;

/// See the module.
#[derive(Debug)]
pub(crate) struct Tail {
    /// The first event that is not in a segment.
    first: Seq,
    ids: Vec<EventId>,
    by_id: HashMap<EventId, Seq>,
    /// Each in the reverse of the order in which it is found: new events come at the end.
    lists: BTreeMap<ListKey, Vec<Posting>>,
}

impl Tail {
    pub(crate) fn new(first: Seq) -> Self {
        Self { first, ids: Vec::new(), by_id: HashMap::new(), lists: BTreeMap::new() }
    }

    /// Adds the next event.
    pub(crate) fn push(&mut self, event: &Event, lists: &Lists) -> Seq {
        let seq = self.end();
        self.ids.push(event.id);
        self.by_id.insert(event.id, seq);
        let posting = Posting::new(event, seq, lists);
        for key in lists.of(event) {
            let list = self.lists.entry(key).or_default();
            let at = place(list, &posting, self.first, &self.ids);
            list.insert(at, posting);
        }
        seq
    }

    /// The number of the event that comes next.
    pub(crate) fn end(&self) -> Seq {
        Seq(self.first.0 + self.ids.len() as u64)
    }

    pub(crate) fn find(&self, id: &EventId) -> Option<Seq> {
        self.by_id.get(id).copied()
    }

    /// Of each list with a key from `first` to `last`: the first `count` postings that are not later than `until`, in the
    /// order in which they are found.
    pub(crate) fn lists_until(
        &self,
        (first, last): (ListKey, ListKey),
        until: u32,
        count: usize,
    ) -> impl Iterator<Item = (ListKey, Vec<Posting>)> {
        self.lists.range(first..=last).map(move |(key, list)| {
            let due = list.partition_point(|posting| posting.created_at() <= until);
            (*key, newest(&list[..due], count))
        })
    }

    /// The `count` postings of a list that come after one of it.
    pub(crate) fn list_after(&self, key: ListKey, last: &Posting, count: usize) -> Vec<Posting> {
        let Some(list) = self.lists.get(&key) else { return Vec::new() };
        newest(&list[..place(list, last, self.first, &self.ids)], count)
    }

    /// How many postings lists with keys from `first` to `last` hold.
    pub(crate) fn count(&self, (first, last): (ListKey, ListKey)) -> u64 {
        self.lists.range(first..=last).map(|(_, list)| list.len() as u64).sum()
    }

    /// All lists, ascending; each oldest first.
    pub(crate) fn all_lists(&self) -> impl Iterator<Item = (ListKey, &[Posting])> {
        self.lists.iter().map(|(key, postings)| (*key, postings.as_slice()))
    }

    /// All events, by id.
    pub(crate) fn ids(&self) -> Vec<IdEntry> {
        let mut ids: Vec<IdEntry> = self.by_id.iter().map(|(id, seq)| IdEntry::new(id, *seq)).collect();
        ids.sort_unstable();
        ids
    }
}

/// Where a posting stands in a list, or would.
fn place(list: &[Posting], posting: &Posting, first: Seq, ids: &[EventId]) -> usize {
    let id = |seq: Seq| ids[usize::try_from(seq.0 - first.0).expect("the tail is in memory")];
    let rank = |posting: &Posting| (posting.created_at(), Reverse(id(posting.seq())));
    let wanted = rank(posting);
    match list.last() {
        Some(last) if rank(last) >= wanted => list.partition_point(|other| rank(other) < wanted),
        _ => list.len(),
    }
}

fn newest(list: &[Posting], count: usize) -> Vec<Posting> {
    list.iter().rev().take(count).copied().collect()
}
