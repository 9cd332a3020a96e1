//! Merging sorted sources of rows, the newest first: for scans, and for writing several runs as one.

use std::cmp::Ordering;
use std::sync::Arc;
use std::vec;

use super::block::{OwnedValue, Value};
use super::memtable::OwnedRow;
use super::segment::{Cursor, LastBlocks, Segment, UseOfCache};
use crate::error::Result;
use crate::range::{Direction, KeyRange};

/// Segments whose keys do not overlap, ascending. A clone costs one pointer, however many they are.
#[derive(Debug, Clone, Default)]
pub(super) struct Run(pub(super) Arc<[Arc<Segment>]>);

/// A walk over rows in one direction.
pub(super) enum Source {
    Copied { rows: vec::IntoIter<OwnedRow>, current: Option<OwnedRow> },
    Run(RunCursor),
}

/// A walk over the segments of a run.
pub(super) struct RunCursor {
    run: Run,
    segment: usize,
    cursor: Cursor,
    direction: Direction,
}

/// Rows of several sources in one order; of rows with one key the newest source's counts.
pub(super) struct Merge {
    /// The newest first.
    sources: Vec<Source>,
    direction: Direction,
}

// === impl Run ===

impl Run {
    /// Tests for the same segments, not for equal ones.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&*other.0).all(|(left, right)| Arc::ptr_eq(left, right))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|segment| segment.bytes()).sum()
    }

    /// True if every key of the run comes before the first of a segment. A segment that cannot be read comes before
    /// nothing: whoever reads its rows gets the error.
    pub(super) fn ends_before(&self, segment: &Segment) -> bool {
        let mut cursor = Cursor::new(UseOfCache::PassBy);
        let first = segment.first(&mut cursor).ok().and_then(|()| cursor.row());
        let last = self.0.last().and_then(|last| last.last_key());
        matches!((last, first), (Some(last), Some((first, _))) if last < first)
    }

    /// The run with more segments after its own.
    pub(super) fn extended(&self, segments: Vec<Arc<Segment>>) -> Self {
        Self(self.0.iter().cloned().chain(segments).collect())
    }

    /// The segment that has the row of a key, if any has.
    pub(super) fn get(&self, key: &[u8], last: &mut LastBlocks) -> Result<Option<OwnedValue>> {
        match self.0.get(self.segment_of(key)) {
            Some(segment) => segment.get(key, last),
            None => Ok(None),
        }
    }

    /// Returns `false` when the run has no row from `key` on in the partition of `key`.
    pub(super) fn may_have(&self, key: &[u8]) -> Result<bool> {
        // The first segment that reaches to the key has the first of them: its last key lies in the partition or past
        // it.
        self.0.get(self.segment_of(key)).map_or(Ok(false), |segment| segment.may_have(key, &mut None))
    }

    /// The number of the first segment that reaches to a key.
    fn segment_of(&self, key: &[u8]) -> usize {
        self.0.partition_point(|segment| segment.last_key().is_none_or(|last| last < key))
    }
}

// === impl RunCursor ===

impl RunCursor {
    /// A walk from the side of a range that `direction` begins at.
    fn new(run: Run, start: &[u8], end: &[u8], direction: Direction, use_of_cache: UseOfCache) -> Result<Self> {
        let mut this = Self { segment: 0, cursor: Cursor::new(use_of_cache), direction, run };
        match direction {
            Direction::Forward => {
                this.segment = this.run.segment_of(start);
                if let Some(segment) = this.run.0.get(this.segment) {
                    segment.seek(&mut this.cursor, start)?;
                }
            }
            Direction::Backward => {
                let last = this.run.0.len().saturating_sub(1);
                this.segment = if end.is_empty() { last } else { this.run.segment_of(end).min(last) };
                if let Some(segment) = this.run.0.get(this.segment) {
                    segment.seek_below(&mut this.cursor, end)?;
                }
            }
        }
        this.enter_next()?;
        Ok(this)
    }

    fn row(&self) -> Option<(&[u8], Value<'_>)> {
        self.cursor.row()
    }

    fn advance(&mut self) -> Result<()> {
        let segment = &self.run.0[self.segment];
        match self.direction {
            Direction::Forward => segment.next(&mut self.cursor)?,
            Direction::Backward => segment.previous(&mut self.cursor)?,
        }
        self.enter_next()
    }

    /// Goes on in the next segment where this one has no more rows.
    fn enter_next(&mut self) -> Result<()> {
        while self.cursor.row().is_none() {
            let next = match self.direction {
                Direction::Forward => Some(self.segment + 1).filter(|next| *next < self.run.0.len()),
                Direction::Backward => self.segment.checked_sub(1),
            };
            let Some(next) = next else { return Ok(()) };
            self.segment = next;
            match self.direction {
                Direction::Forward => self.run.0[next].first(&mut self.cursor)?,
                Direction::Backward => self.run.0[next].seek_below(&mut self.cursor, b"")?,
            }
        }
        Ok(())
    }
}

// === impl Source ===

impl Source {
    pub(super) fn copied(rows: Vec<OwnedRow>) -> Self {
        let mut rows = rows.into_iter();
        let current = rows.next();
        Self::Copied { rows, current }
    }

    /// A walk over the rows of a run in a range.
    pub(super) fn within(run: Run, range: &KeyRange) -> Result<Self> {
        RunCursor::new(run, &range.start, &range.end, range.direction, UseOfCache::Keep).map(Self::Run)
    }

    /// A walk over all rows of a run, for a merge.
    pub(super) fn whole(run: Run) -> Result<Self> {
        RunCursor::new(run, b"", b"", Direction::Forward, UseOfCache::PassBy).map(Self::Run)
    }

    fn row(&self) -> Option<(&[u8], Value<'_>)> {
        match self {
            Self::Copied { current, .. } => current.as_ref().map(|(key, value)| (&**key, value.as_deref())),
            Self::Run(cursor) => cursor.row(),
        }
    }

    fn advance(&mut self) -> Result<()> {
        match self {
            Self::Copied { rows, current } => {
                *current = rows.next();
                Ok(())
            }
            Self::Run(cursor) => cursor.advance(),
        }
    }
}

// === impl Merge ===

impl Merge {
    /// Merges sources that all walk in one direction, the newest first.
    pub(super) fn new(sources: Vec<Source>, direction: Direction) -> Self {
        Self { sources, direction }
    }

    /// Passes rows to `visit` in order, deleted ones too, until there are no more or it says `false`.
    pub(super) fn each(&mut self, mut visit: impl FnMut(&[u8], Value<'_>) -> Result<bool>) -> Result<()> {
        let mut current = Vec::new();
        while let Some(first) = self.first() {
            let (newest, older) = self.sources[first..].split_first_mut().expect("the first is among them");
            let (key, value) = newest.row().expect("the first has a row");
            if !visit(key, value)? {
                break;
            }
            // Older rows of the same key go with it.
            if !older.is_empty() {
                current.clear();
                current.extend_from_slice(key);
            }
            newest.advance()?;
            for source in older {
                if source.row().is_some_and(|(other, _)| other == current) {
                    source.advance()?;
                }
            }
        }
        Ok(())
    }

    /// The newest of the sources with the next key.
    fn first(&self) -> Option<usize> {
        let mut first: Option<(usize, &[u8])> = None;
        for (number, source) in self.sources.iter().enumerate() {
            let Some((key, _)) = source.row() else { continue };
            let comes_before = first.is_none_or(|(_, best)| match self.direction {
                Direction::Forward => key.cmp(best) == Ordering::Less,
                Direction::Backward => key.cmp(best) == Ordering::Greater,
            });
            if comes_before {
                first = Some((number, key));
            }
        }
        first.map(|(number, _)| number)
    }
}
