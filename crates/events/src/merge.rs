//! Many lists as one, newest first.
//!
//! A segment is opened when its newest event is due and not before: what is asked for is mostly new. A list is read in
//! pieces that double, so a list of which little is needed costs little.

use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::dead::Dead;
use crate::error::Result;
use crate::log::{Log, Seq};
use crate::plan::Spans;
use crate::posting::{ListKey, Posting};
use crate::segment::OpenSegment;
use crate::tail::Tail;

/// Postings of a list that are read when it is opened.
const PIECE_MIN: usize = 8;
/// And at most at a time.
const PIECE_MAX: usize = 512;

/// What there is to read, at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) log: &'a Log,
    pub(crate) tail: &'a RwLock<Tail>,
    pub(crate) segments: &'a [Arc<OpenSegment>],
    pub(crate) dead: &'a Dead,
    /// What the writer has ended and not published yet; readers see that when it is.
    pub(crate) doomed: Option<&'a HashSet<Seq>>,
    /// Later events are not to be seen.
    pub(crate) end: Seq,
}

/// The postings of some lists that are not later than a time, newest first; of equal times in any order, and those of an
/// event that stands in several of the lists several times.
pub(crate) struct Merged<'a> {
    reader: Reader<'a>,
    lists: &'a Spans,
    until: u32,
    cursors: Vec<Cursor<'a>>,
    /// The time of each cursor's next posting, and its place.
    heads: BinaryHeap<(u32, usize)>,
    /// The one with the newest event last.
    unopened: Vec<&'a OpenSegment>,
}

/// A list, of which a piece is read.
struct Cursor<'a> {
    piece: Vec<Posting>,
    at: usize,
    rest: Rest<'a>,
}

/// Where the rest of a list is.
enum Rest<'a> {
    /// There is none.
    None,
    Tail(ListKey),
    /// By number.
    Segment {
        segment: &'a OpenSegment,
        first: u64,
        end: u64,
    },
}

// === impl Reader ===

impl Reader<'_> {
    /// Whether an event may be seen.
    pub(crate) fn shows(&self, seq: Seq) -> bool {
        seq < self.end && !self.dead.contains(seq) && self.doomed.is_none_or(|doomed| !doomed.contains(&seq))
    }

    /// The tail, for a moment: its writer waits.
    pub(crate) fn tail(&self) -> RwLockReadGuard<'_, Tail> {
        // What changes it cannot panic halfway.
        self.tail.read().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Merged ===

impl<'a> Merged<'a> {
    pub(crate) fn new(reader: Reader<'a>, lists: &'a Spans, until: u32) -> Self {
        let mut unopened: Vec<&OpenSegment> = reader.segments.iter().map(AsRef::as_ref).collect();
        unopened.retain(|segment| segment.segment.oldest <= until);
        unopened.sort_by_key(|segment| segment.segment.newest);
        let mut merged = Self { reader, lists, until, cursors: Vec::new(), heads: BinaryHeap::new(), unopened };
        {
            let tail = reader.tail();
            for (key, piece) in lists.ranges.iter().flat_map(|range| tail.lists_until(*range, until, PIECE_MIN)) {
                let rest = if piece.len() < PIECE_MIN { Rest::None } else { Rest::Tail(key) };
                merged.add(Cursor { piece, at: 0, rest });
            }
        }
        merged
    }

    fn add(&mut self, cursor: Cursor<'a>) {
        if let Some(posting) = cursor.peek() {
            self.heads.push((posting.created_at(), self.cursors.len()));
            self.cursors.push(cursor);
        }
    }

    /// The next one that may be seen.
    pub(crate) fn next(&mut self) -> Result<Option<Posting>> {
        loop {
            let due = self.heads.peek().map(|(created_at, _)| *created_at);
            if let Some(segment) = self.unopened.pop_if(|segment| due.is_none_or(|due| segment.segment.newest >= due)) {
                self.open(segment)?;
                continue;
            }
            let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
            let cursor = &mut self.cursors[head.1];
            let posting = cursor.peek().expect("a cursor without postings has no head");
            cursor.advance(&self.reader)?;
            match cursor.peek() {
                Some(next) => head.0 = next.created_at(),
                None => drop(PeekMut::pop(head)),
            }
            if self.reader.shows(posting.seq()) {
                return Ok(Some(posting));
            }
        }
    }

    fn open(&mut self, segment: &'a OpenSegment) -> Result<()> {
        let runs = segment.runs(self.lists.among(segment.segment.letters))?;
        if runs.is_empty() {
            return Ok(());
        }
        let until = self.until;
        let mut opened = Vec::with_capacity(runs.len());
        segment.view_postings(&mut |base, postings| {
            let place = |number: u64| usize::try_from(number - base).expect("the segment holds it");
            for run in &runs {
                let list = &postings[place(run.first)..place(run.first + run.count)];
                let skipped = list.partition_point(|posting| posting.created_at() > until);
                let piece = list[skipped..].iter().take(PIECE_MIN).copied().collect::<Vec<_>>();
                let (first, end) = (run.first + (skipped + piece.len()) as u64, run.first + run.count);
                let rest = if first == end { Rest::None } else { Rest::Segment { segment, first, end } };
                opened.push(Cursor { piece, at: 0, rest });
            }
        })?;
        for cursor in opened {
            self.add(cursor);
        }
        Ok(())
    }
}

// === impl Cursor ===

impl Cursor<'_> {
    fn peek(&self) -> Option<Posting> {
        self.piece.get(self.at).copied()
    }

    fn advance(&mut self, reader: &Reader<'_>) -> Result<()> {
        self.at += 1;
        if self.at < self.piece.len() {
            return Ok(());
        }
        let wanted = (2 * self.piece.len()).min(PIECE_MAX);
        match &mut self.rest {
            Rest::None => return Ok(()),
            Rest::Tail(key) => {
                let last = self.piece.last().expect("a piece that was read to its end is not empty");
                self.piece = reader.tail().list_after(*key, last, wanted);
                if self.piece.len() < wanted {
                    self.rest = Rest::None;
                }
            }
            Rest::Segment { segment, first, end } => {
                let count = wanted.min(usize::try_from(*end - *first).unwrap_or(usize::MAX));
                let piece = &mut self.piece;
                segment.view_run(*first, count, &mut |postings| {
                    piece.clear();
                    piece.extend_from_slice(postings);
                })?;
                *first += count as u64;
                if first == end {
                    self.rest = Rest::None;
                }
            }
        }
        self.at = 0;
        Ok(())
    }
}
