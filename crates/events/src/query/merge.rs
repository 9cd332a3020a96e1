//! Merge of posting lists, newest first.
//!
//! A segment is opened when its newest event is due, because clients mostly ask for new events. A list is read in
//! pieces of doubling length, so a list that contributes little costs little.

use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::error::Result;
use crate::postings::{ListKey, OpenSegment, Posting, at_most};
use crate::query::plan::Spans;
use crate::state::Reader;

/// Postings that are read when a list is opened.
const PIECE_MIN: usize = 8;
/// Maximum number of postings that are read at a time.
const PIECE_MAX: usize = 512;

/// The postings of some lists that are not later than a time, newest first. Postings of equal time are in any order. An
/// event in several of the lists occurs several times.
pub(crate) struct Merged<'a> {
    reader: Reader<'a>,
    lists: &'a Spans,
    until: u32,
    cursors: Vec<Cursor<'a>>,
    /// Time of each cursor's next posting, and the index of the cursor.
    heads: BinaryHeap<(u32, usize)>,
    /// Segments that are not opened yet; the one with the newest event last.
    unopened: Vec<&'a OpenSegment>,
}

/// Read position in a list, with the piece that is in memory.
struct Cursor<'a> {
    piece: Vec<Posting>,
    at: usize,
    rest: Rest<'a>,
}

/// Location of the rest of a list.
enum Rest<'a> {
    /// The list is read to its end.
    None,
    Memtable(ListKey),
    /// Postings by their numbers in the array.
    Segment {
        segment: &'a OpenSegment,
        first: u64,
        end: u64,
    },
}

// === impl Merged ===

impl<'a> Merged<'a> {
    pub(crate) fn new(reader: Reader<'a>, lists: &'a Spans, until: u32) -> Self {
        let mut unopened: Vec<&OpenSegment> = reader.segments.iter().map(AsRef::as_ref).collect();
        unopened.retain(|segment| segment.segment.oldest <= until);
        unopened.sort_by_key(|segment| segment.segment.newest);
        let mut merged = Self { reader, lists, until, cursors: Vec::new(), heads: BinaryHeap::new(), unopened };
        {
            let memtable = reader.memtable();
            for (key, piece) in lists.ranges.iter().flat_map(|range| memtable.lists_until(*range, until, PIECE_MIN)) {
                let rest = if piece.len() < PIECE_MIN { Rest::None } else { Rest::Memtable(key) };
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

    /// Returns the next visible posting.
    pub(crate) fn next(&mut self) -> Result<Option<Posting>> {
        while let Some(posting) = self.next_of_all()? {
            if self.reader.is_visible(posting.seq()) {
                return Ok(Some(posting));
            }
        }
        Ok(None)
    }

    /// Returns the next posting, also of an event that is not visible.
    pub(super) fn next_of_all(&mut self) -> Result<Option<Posting>> {
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
            return Ok(Some(posting));
        }
    }

    fn open(&mut self, segment: &'a OpenSegment) -> Result<()> {
        let runs = segment.runs(self.lists.among(segment.segment.letters))?;
        if runs.is_empty() {
            return Ok(());
        }
        let pieces = segment.pieces_until(&runs, self.until, PIECE_MIN)?;
        for (run, (skipped, piece)) in runs.iter().zip(pieces) {
            let (first, end) = (run.first + skipped + piece.len() as u64, run.first + run.count);
            let rest = if first == end { Rest::None } else { Rest::Segment { segment, first, end } };
            self.add(Cursor { piece, at: 0, rest });
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
            Rest::Memtable(key) => {
                let last = self.piece.last().expect("a piece that was read to its end has a last posting");
                self.piece = reader.memtable().list_after(*key, last, wanted);
                if self.piece.len() < wanted {
                    self.rest = Rest::None;
                }
            }
            Rest::Segment { segment, first, end } => {
                let count = at_most(*end - *first, wanted);
                let piece = &mut self.piece;
                segment.visit_run(*first, count, &mut |postings| {
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
