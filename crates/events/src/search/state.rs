//! State of one search: what it looks for, its best hits so far, and what it may still read.

use super::rank::{Best, Hit, Statistics, rarity, weight};
use crate::error::{Error, Result};
use crate::event::{Event, Seq};
use crate::log::packed::filter::PackedFilter;
use crate::log::{Head, Packed};
use crate::query::{Pace, Query, read_work, shows};
use crate::state::Reader;
use crate::text::{Search, Side, Words, text_of};

/// Events that a search reads at most to test their other conditions. It needs this many only where the words are
/// common and the rest of the filter is not.
const READ_MAX: usize = 30_000;
/// Bytes of the events that a search reads at most.
const READ_BYTES_MAX: u64 = 256 << 20;
/// Bytes of an event whose words cost as much as a posting.
const WORDS_BYTES_PER_WORK: u64 = 8;
/// Words of an average event, as long as the index is empty.
const LENGTH_DEFAULT: f32 = 20.0;

/// The best hits so far, and what may still be read. It is kept between two pieces.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) statistics: Statistics,
    pub(super) best: Best,
    /// Events that may still be read to test conditions.
    reads_left: usize,
    /// Bytes of events that may still be read.
    bytes_left: u64,
}

/// A piece of a search.
pub(super) struct SearchRun<'a> {
    pub(super) reader: Reader<'a>,
    pub(super) query: Query<'a>,
    filter: PackedFilter<'a>,
    pub(super) search: &'a Search,
    pub(super) found: Found,
    /// Work that the piece may still do.
    pub(super) work_left: u64,
}

// === impl Found ===

impl Found {
    /// Returns true if events were left out because there are too many.
    pub(super) fn is_cut(&self) -> bool {
        self.reads_left == 0 || self.bytes_left == 0
    }
}

// === impl SearchRun ===

impl<'a> SearchRun<'a> {
    /// Starts a search for the best `most` events.
    pub(super) fn new(reader: Reader<'a>, query: Query<'a>, search: &'a Search, most: usize) -> Self {
        let statistics = Statistics { length: LENGTH_DEFAULT, rarities: vec![rarity(0, 0); search.words.len()] };
        let best = Best::new(most);
        let found = Found { statistics, best, reads_left: READ_MAX, bytes_left: READ_BYTES_MAX };
        Self { reader, query, filter: PackedFilter::new(query.filter), search, found, work_left: query.work_max }
    }

    /// Returns true when the piece ends.
    pub(super) fn is_over(&self) -> bool {
        self.work_left == 0 || self.found.is_cut() || self.query.pace.is_some_and(Pace::is_over)
    }

    pub(super) fn spend(&mut self, work: u64) {
        self.work_left = self.work_left.saturating_sub(work);
    }

    /// Counts the reading of events.
    pub(super) fn read(&mut self, bytes: u64) {
        self.found.bytes_left = self.found.bytes_left.saturating_sub(bytes);
        self.spend(read_work(bytes));
    }

    /// Adds a hit of the index, if its score is high enough and the event fulfils the other conditions.
    pub(super) fn offer(&mut self, hit: Hit) -> Result<()> {
        if hit.score <= self.found.best.threshold() || hit.seq >= self.query.end || self.found.is_cut() {
            return Ok(());
        }
        if self.reader.tombstones.contains(hit.seq) {
            return Ok(());
        }
        self.found.reads_left -= 1;
        let head = self.reader.log.heads([hit.seq])?[0];
        self.read(head.bytes().into());
        let admitted = self.reader.log.visit(hit.seq, &head, |packed| self.admits(&head, packed))?;
        if admitted.ok_or(Error::CorruptEvent(hit.seq))? {
            self.found.best.push(hit);
        }
        Ok(())
    }

    /// Adds an event that is not in the index, if it fulfils every condition.
    pub(super) fn test(&mut self, seq: Seq, head: &Head) -> Result<()> {
        self.read(head.bytes().into());
        let text = |packed: Packed<'_>| {
            let is_wanted = packed.kind().is_text() && self.admits(head, packed)?;
            Some(if is_wanted { Some(packed.to_event()?) } else { None })
        };
        let event = self.reader.log.visit(seq, head, text)?.ok_or(Error::CorruptEvent(seq))?;
        if let Some(event) = event
            && let Some(score) = self.score(&event, head.bytes().into())
        {
            self.found.best.push(Hit { score, seq });
        }
        Ok(())
    }

    /// Returns the score of an event of this many bytes, or `None` if it lacks a word.
    pub(super) fn score(&mut self, event: &Event, bytes: u64) -> Option<f32> {
        self.spend(bytes / WORDS_BYTES_PER_WORK);
        let (asked, text) = (&self.search.words, text_of(event)?);
        let (mut times, mut length) = (vec![0_u32; asked.len()], 0);
        let (mut words, mut word) = (Words::new(&text, Side::Event), String::new());
        while words.next_into(&mut word) {
            length += 1;
            if let Ok(index) = asked.binary_search(&word) {
                times[index] += 1;
            }
        }
        let age = || weight(self.query.now, event.created_at.to_u32());
        times.iter().all(|times| *times > 0).then(|| self.found.statistics.bm25(length, &times) * age())
    }

    /// Returns true if an event fulfils every condition but the words and the audience may read it; `None` if its bytes
    /// are damaged.
    fn admits(&self, head: &Head, packed: Packed<'_>) -> Option<bool> {
        let Query { now, audience, hidden, .. } = self.query;
        Some(!head.is_expired(now) && self.filter.matches(packed)? && shows(audience, hidden, packed)?)
    }
}
