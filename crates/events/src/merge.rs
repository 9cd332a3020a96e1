//! Many lists as one, newest first.
//!
//! A segment is opened when its newest event is due and not before: what is asked for is mostly new. A list is read in
//! pieces that double, so a list of which little is needed costs little.

use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;

use crate::dead::Dead;
use crate::error::Result;
use crate::log::{Log, Seq};
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
    pub(crate) tail: &'a Tail,
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
    spans: &'a [(ListKey, ListKey)],
    until: u32,
    cursors: Vec<Cursor<'a>>,
    /// The time of each cursor's next posting, and its place.
    heads: BinaryHeap<(u32, usize)>,
    /// The one with the newest event last.
    unopened: Vec<&'a OpenSegment>,
}

enum Cursor<'a> {
    /// Oldest first.
    Tail(&'a [Posting]),
    Segment(Pieces<'a>),
}

/// The rest of a list in a segment.
struct Pieces<'a> {
    segment: &'a OpenSegment,
    /// What is not read yet, by number.
    first: u64,
    end: u64,
    piece: Vec<Posting>,
    at: usize,
}

// === impl Reader ===

impl Reader<'_> {
    /// Whether an event may be seen.
    pub(crate) fn shows(&self, seq: Seq) -> bool {
        seq < self.end && !self.dead.contains(seq) && self.doomed.is_none_or(|doomed| !doomed.contains(&seq))
    }
}

// === impl Merged ===

impl<'a> Merged<'a> {
    pub(crate) fn new(reader: Reader<'a>, spans: &'a [(ListKey, ListKey)], until: u32) -> Self {
        let mut unopened: Vec<&OpenSegment> = reader.segments.iter().map(AsRef::as_ref).collect();
        unopened.retain(|segment| segment.segment.oldest <= until);
        unopened.sort_by_key(|segment| segment.segment.newest);
        let mut merged = Self { reader, spans, until, cursors: Vec::new(), heads: BinaryHeap::new(), unopened };
        for (first, last) in spans {
            for postings in reader.tail.lists(*first, *last) {
                let due = postings.partition_point(|posting| posting.created_at() <= until);
                merged.add(Cursor::Tail(&postings[..due]));
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
            cursor.advance()?;
            match cursor.peek() {
                Some(next) => head.0 = next.created_at(),
                None => drop(std::collections::binary_heap::PeekMut::pop(head)),
            }
            if self.reader.shows(posting.seq()) {
                return Ok(Some(posting));
            }
        }
    }

    fn open(&mut self, segment: &'a OpenSegment) -> Result<()> {
        let runs = segment.runs(self.spans)?;
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
                let first = run.first + (skipped + piece.len()) as u64;
                opened.push(Pieces { segment, first, end: run.first + run.count, piece, at: 0 });
            }
        })?;
        for pieces in opened {
            self.add(Cursor::Segment(pieces));
        }
        Ok(())
    }
}

// === impl Cursor ===

impl Cursor<'_> {
    fn peek(&self) -> Option<Posting> {
        match self {
            Self::Tail(postings) => postings.last().copied(),
            Self::Segment(pieces) => pieces.piece.get(pieces.at).copied(),
        }
    }

    fn advance(&mut self) -> Result<()> {
        match self {
            Self::Tail(postings) => *postings = postings.split_last().map_or(&[], |(_, rest)| rest),
            Self::Segment(pieces) => pieces.advance()?,
        }
        Ok(())
    }
}

impl Pieces<'_> {
    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        if self.at < self.piece.len() || self.first == self.end {
            return Ok(());
        }
        let left = usize::try_from(self.end - self.first).unwrap_or(usize::MAX);
        let count = (2 * self.piece.len()).min(PIECE_MAX).min(left);
        let piece = &mut self.piece;
        self.segment.view_run(self.first, count, &mut |postings| {
            piece.clear();
            piece.extend_from_slice(postings);
        })?;
        self.first += count as u64;
        self.at = 0;
        Ok(())
    }
}
