//! Streams of the posting lists of segments, in the order on disk, and their merge.

use std::cmp::{Ordering, Reverse};

use super::context::CompactionContext;
use crate::error::Result;
use crate::event::{Letters, Seq};
use crate::postings::posting::{ListKey, ListRange, Posting};
use crate::postings::segment::{IdEntry, OpenSegment, Run, SegmentWriter, at_most};

/// Lists, and postings, that are read at a time.
const READ_TOGETHER: usize = 4096;

/// Stream of a segment's lists.
pub(super) struct Stream<'a> {
    segment: &'a OpenSegment,
    /// Number of the next list to read.
    next_list: u64,
    lists: std::vec::IntoIter<Run>,
    /// The rest of the current list.
    run: Option<Run>,
    postings: std::vec::IntoIter<Posting>,
}

/// Posting that a segment lacks.
pub(super) struct AddedPosting {
    pub(super) key: ListKey,
    posting: Posting,
    id: [u8; 32],
}

// === impl Stream ===

impl<'a> Stream<'a> {
    pub(super) fn new(segment: &'a OpenSegment) -> Self {
        let (lists, postings) = (Vec::new().into_iter(), Vec::new().into_iter());
        Self { segment, next_list: 0, lists, run: None, postings }
    }

    /// Returns the key of the current list.
    pub(super) fn key(&mut self) -> Result<Option<ListKey>> {
        if self.run.is_none() {
            if self.lists.len() == 0 {
                let lists = self.segment.lists_from(self.next_list, READ_TOGETHER)?;
                self.next_list += lists.len() as u64;
                self.lists = lists.into_iter();
            }
            self.run = self.lists.next();
        }
        Ok(self.run.map(|run| run.key))
    }

    /// Returns the next posting of the current list if that list has the wanted key.
    fn peek(&mut self, wanted: ListKey) -> Result<Option<Posting>> {
        if self.key()? != Some(wanted) {
            return Ok(None);
        }
        if self.postings.len() == 0
            && let Some(run) = self.run
        {
            // Lists are adjacent, so one read covers this list and those after it.
            let section = self.segment.segment.postings;
            let count = at_most(section.first + section.count - run.first, READ_TOGETHER);
            let mut postings = Vec::new();
            self.segment.visit_run(run.first, count, &mut |some| postings.extend_from_slice(some))?;
            self.postings = postings.into_iter();
        }
        Ok(self.postings.as_slice().first().copied())
    }

    fn advance(&mut self) {
        self.postings.next();
        self.run =
            self.run.map(|run| Run { first: run.first + 1, count: run.count - 1, ..run }).filter(|run| run.count > 0);
    }
}

// === impl AddedPosting ===

impl AddedPosting {
    /// Compares by list, then in the order of postings within a list.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let rank = |one: &Self| (one.key, Reverse(one.posting.created_at()), one.id);
        rank(self).cmp(&rank(other))
    }
}

/// Appends the postings of these tags that a segment lacks, for keys in a range.
pub(super) fn collect_added(
    segment: &OpenSegment,
    missing: Letters,
    range: ListRange,
    context: CompactionContext<'_>,
    all: &mut Vec<AddedPosting>,
) -> Result<()> {
    let mut seqs: Vec<Seq> = segment.ids()?.iter().map(IdEntry::seq).collect();
    seqs.retain(|seq| !context.tombstones.contains(*seq));
    seqs.sort_unstable();
    for seq in seqs {
        let event = context.log.event(seq)?;
        let posting = Posting::new(&event, seq, context.index);
        let keys = context.index.tag_lists_of(&event, missing).into_iter();
        let keys = keys.filter(|key| (range.first..=range.last).contains(key));
        all.extend(keys.map(|key| AddedPosting { key, posting, id: event.id.0 }));
    }
    Ok(())
}

/// Merges one list from several streams and the added postings, and writes it.
pub(super) fn write_list(
    writer: &mut SegmentWriter,
    key: ListKey,
    streams: &mut [Stream<'_>],
    mut added: &[AddedPosting],
    context: CompactionContext<'_>,
) -> Result<()> {
    let mut second = Vec::new();
    loop {
        let mut newest = added.first().map(|one| one.posting.created_at());
        for stream in &mut *streams {
            newest = newest.max(stream.peek(key)?.map(|posting| posting.created_at()));
        }
        let Some(newest) = newest else { return writer.end_list(key) };
        let mut sources = 0;
        for stream in &mut *streams {
            let before = second.len();
            while let Some(posting) = stream.peek(key)?.filter(|posting| posting.created_at() == newest) {
                second.push(posting);
                stream.advance();
            }
            sources += usize::from(second.len() > before);
        }
        let of_second = added.iter().take_while(|one| one.posting.created_at() == newest).count();
        second.extend(added[..of_second].iter().map(|one| one.posting));
        added = &added[of_second..];
        sources += usize::from(of_second > 0);
        second.retain(|posting: &Posting| !context.tombstones.contains(posting.seq()));
        if sources > 1 && second.len() > 1 {
            sort_by_id(&mut second, context)?;
        }
        second.drain(..).try_for_each(|posting| writer.posting(&posting))?;
    }
}

/// Sorts postings of one second by id.
fn sort_by_id(second: &mut [Posting], context: CompactionContext<'_>) -> Result<()> {
    let heads = context.log.heads(second.iter().map(Posting::seq))?;
    let mut with_ids: Vec<(Posting, [u8; 32])> = second.iter().copied().zip(heads.iter().map(|head| head.id)).collect();
    with_ids.sort_by_key(|(_, id)| *id);
    for (slot, (posting, _)) in second.iter_mut().zip(with_ids) {
        *slot = posting;
    }
    Ok(())
}
