//! State of one search: what it looks for, its best hits so far, and its budget.

use super::rank::{Best, Hit, Statistics, rarity, weight};
use crate::audience::shows;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::log::head::Head;
use crate::packed::Packed;
use crate::packed::filter::PackedFilter;
use crate::query::Query;
use crate::reader::Reader;
use crate::search_words::Search;
use crate::words::words_of;

/// Events that a search reads at most to test their other conditions. It needs this many only where the words are
/// common and the rest of the filter is not.
const READ_MAX: usize = 30_000;
/// Words of an average event, as long as the index is empty.
const LENGTH_DEFAULT: f32 = 20.0;

/// A search in progress.
pub(super) struct SearchRun<'a> {
    pub(super) reader: Reader<'a>,
    pub(super) query: Query<'a>,
    filter: PackedFilter<'a>,
    pub(super) search: &'a Search,
    pub(super) statistics: Statistics,
    pub(super) best: Best,
    /// Events that may still be read.
    pub(super) reads_left: usize,
}

// === impl SearchRun ===

impl<'a> SearchRun<'a> {
    /// Starts a search for the best `most` events.
    pub(super) fn new(reader: Reader<'a>, query: Query<'a>, search: &'a Search, most: usize) -> Self {
        let statistics = Statistics { length: LENGTH_DEFAULT, rarities: vec![rarity(0, 0); search.words.len()] };
        let (filter, best) = (PackedFilter::new(query.filter), Best::new(most));
        Self { reader, query, filter, search, statistics, best, reads_left: READ_MAX }
    }

    /// Adds a hit of the index, if its score is high enough and the event fulfils the other conditions.
    pub(super) fn offer(&mut self, hit: Hit) -> Result<()> {
        if hit.score <= self.best.threshold() || hit.seq >= self.query.end || self.reads_left == 0 {
            return Ok(());
        }
        if self.reader.tombstones.contains(hit.seq) {
            return Ok(());
        }
        self.reads_left -= 1;
        let head = self.reader.log.heads([hit.seq])?[0];
        let admitted = self.reader.log.visit(hit.seq, &head, |packed| self.admits(&head, packed))?;
        if admitted.ok_or(Error::CorruptEvent(hit.seq))? {
            self.best.push(hit);
        }
        Ok(())
    }

    /// Returns the score of an event, or `None` if it lacks a word.
    pub(super) fn score(&self, event: &Event) -> Option<f32> {
        let (asked, words) = (&self.search.words, words_of(event)?);
        let mut times = vec![0_u32; asked.len()];
        for word in &words {
            if let Ok(index) = asked.binary_search(word) {
                times[index] += 1;
            }
        }
        let score = || self.statistics.bm25(words.len(), &times) * weight(self.query.now, event.created_at.to_u32());
        times.iter().all(|times| *times > 0).then(score)
    }

    /// Returns true if an event fulfils every condition but the words and the audience may read it; `None` if its bytes
    /// are damaged.
    pub(super) fn admits(&self, head: &Head, packed: Packed<'_>) -> Option<bool> {
        let Query { now, audience, hidden, .. } = self.query;
        Some(!head.is_expired(now) && self.filter.matches(packed)? && shows(audience, hidden, packed)?)
    }
}
