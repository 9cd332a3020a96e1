//! The tail: the postings of the newest events, in memory until they are sealed into a segment.
//!
//! What is here is in the log too: it is made again when the log is opened.

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
            let (first, ids) = (self.first, &self.ids);
            let rank = |posting: &Posting| (posting.created_at(), std::cmp::Reverse(ids[place(first, posting.seq())]));
            let wanted = rank(&posting);
            let at = if list.last().is_none_or(|last| rank(last) < wanted) {
                list.len()
            } else {
                list.partition_point(|other| rank(other) < wanted)
            };
            list.insert(at, posting);
        }
        seq
    }

    /// The number of the event that comes next.
    pub(crate) fn end(&self) -> Seq {
        Seq(self.first.0 + self.ids.len() as u64)
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn find(&self, id: &EventId) -> Option<Seq> {
        self.by_id.get(id).copied()
    }

    /// The lists with keys from `first` to `last`, each oldest first.
    pub(crate) fn lists(&self, first: ListKey, last: ListKey) -> impl Iterator<Item = &[Posting]> {
        self.lists.range(first..=last).map(|(_, postings)| postings.as_slice())
    }

    /// All lists, ascending.
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

/// Where among the tail's ids an event's stands.
fn place(first: Seq, seq: Seq) -> usize {
    usize::try_from(seq.0 - first.0).expect("the tail is in memory")
}
