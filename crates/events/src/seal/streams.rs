//! What segments hold, list by list in the order in which it lies, and its merging.

use std::cmp::{Ordering, Reverse};

use super::Desk;
use crate::error::Result;
use crate::log::Seq;
use crate::posting::{ListKey, Posting};
use crate::segment::{OpenSegment, Run, SegmentWriter};
use crate::tag::Letters;

/// Lists, and postings, that are read at a time.
const READ_TOGETHER: usize = 4096;

/// A segment's lists, one after the other.
pub(super) struct Stream<'a> {
    segment: &'a OpenSegment,
    /// The next list that is not read.
    next_list: u64,
    lists: std::vec::IntoIter<Run>,
    /// The list that is read, what of it is left.
    run: Option<Run>,
    postings: std::vec::IntoIter<Posting>,
}

/// A posting that a segment lacks.
pub(super) struct Added {
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

    /// The key of the list that comes next, or is being read.
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

    /// The next posting of the list, when it is the one with this key.
    fn peek(&mut self, wanted: ListKey) -> Result<Option<Posting>> {
        if self.key()? != Some(wanted) {
            return Ok(None);
        }
        if self.postings.len() == 0
            && let Some(run) = self.run
        {
            // Lists lie one behind the other: what comes after this one is read with it.
            let section = self.segment.segment.postings;
            let left = usize::try_from(section.first + section.count - run.first).unwrap_or(usize::MAX);
            let mut postings = Vec::new();
            self.segment.view_run(run.first, READ_TOGETHER.min(left), &mut |some| postings.extend_from_slice(some))?;
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

// === impl Added ===

impl Added {
    /// By list, and in the order in which postings are found.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let rank = |one: &Self| (one.key, Reverse(one.posting.created_at()), one.id);
        rank(self).cmp(&rank(other))
    }
}

/// Appends what a segment lacks in the lists of these tags with keys in a range.
pub(super) fn added(
    segment: &OpenSegment,
    missing: Letters,
    (first, last): (ListKey, ListKey),
    desk: Desk<'_>,
    all: &mut Vec<Added>,
) -> Result<()> {
    let mut seqs: Vec<Seq> = segment.ids()?.iter().map(crate::segment::IdEntry::seq).collect();
    seqs.retain(|seq| !desk.dead.contains(*seq));
    seqs.sort_unstable();
    for seq in seqs {
        let event = desk.log.event(seq)?;
        let posting = Posting::new(&event, seq, desk.lists);
        let keys = desk.lists.of_tags(&event, missing).into_iter().filter(|key| (first..=last).contains(key));
        all.extend(keys.map(|key| Added { key, posting, id: event.id.0 }));
    }
    Ok(())
}

/// Writes a list that is in several streams, and among what is added, as one.
pub(super) fn write_list(
    writer: &mut SegmentWriter,
    key: ListKey,
    streams: &mut [Stream<'_>],
    mut added: &[Added],
    desk: Desk<'_>,
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
        second.retain(|posting: &Posting| !desk.dead.contains(posting.seq()));
        if sources > 1 && second.len() > 1 {
            in_order(&mut second, desk)?;
        }
        second.drain(..).try_for_each(|posting| writer.posting(&posting))?;
    }
}

/// Puts postings of one second in order.
fn in_order(second: &mut [Posting], desk: Desk<'_>) -> Result<()> {
    let heads = desk.log.heads(second.iter().map(Posting::seq))?;
    let mut named: Vec<(Posting, [u8; 32])> = second.iter().copied().zip(heads.iter().map(|head| head.id)).collect();
    named.sort_by_key(|(_, id)| *id);
    for (place, (posting, _)) in second.iter_mut().zip(named) {
        *place = posting;
    }
    Ok(())
}
