//! Search by words, and the upkeep of its index.

use super::Events;
use crate::error::Result;
use crate::event::Seq;
use crate::query::Query;
use crate::search::{SearchCoverage, SearchProgress, SearchStorage};

impl Events {
    /// Returns true if a full-text index is configured.
    pub fn has_search(&self) -> bool {
        self.search.storage != SearchStorage::Off
    }

    /// Returns the percentage of the events that the full-text index holds, while searches find nothing because too
    /// many are left to read them one by one.
    pub fn words_building(&self) -> Option<u8> {
        self.search.building(self.end())
    }

    /// Returns the best `rows` events of a query that have all its words, best first; [`visit`](Self::visit) reads
    /// them.
    pub fn search(&self, query: Query<'_>, rows: usize) -> Result<(Vec<Seq>, SearchCoverage)> {
        let (mut progress, query) = (SearchProgress::default(), Query { end: query.end.min(self.end()), ..query });
        loop {
            if let Some(found) = self.search_on(query, rows, &mut progress)? {
                return Ok(found);
            }
        }
    }

    /// Does a piece of a search, so that a caller can serve others between two of them. Returns `None` until the last
    /// one, whose result is that of [`search`](Self::search). All pieces must be of one query, with one `end`.
    pub fn search_on(
        &self,
        query: Query<'_>,
        rows: usize,
        progress: &mut SearchProgress,
    ) -> Result<Option<(Vec<Seq>, SearchCoverage)>> {
        let version = self.installed();
        self.search.search_on(self.reader(&version, query.end.min(version.end)), query, rows, progress)
    }

    /// Indexes the words of up to `most` more events; returns the number of events that remain. Searches use the index
    /// for them after [`commit_words`](Self::commit_words).
    ///
    /// # Errors
    /// If the index fails. The next call resumes at the last commit, and searches work meanwhile.
    pub fn index_words(&self, most: u64) -> Result<u64> {
        let mut filler = self.search.filler();
        let version = self.installed();
        filler.fill(self.reader(&version, version.end), most)
    }

    /// Makes the index durable, deletes tombstoned events from it, and lets searches use it. Does nothing without a
    /// change.
    ///
    /// # Errors
    /// As for [`index_words`](Self::index_words).
    pub fn commit_words(&self) -> Result<()> {
        let mut filler = self.search.filler();
        let version = self.installed();
        // The writer holds its lock until its events are durable.
        filler.commit(self.reader(&version, version.end), || self.change(|_| Ok(())))
    }

    /// Returns the watermark: searches find events below it by the index, and scan later ones.
    pub fn words_watermark(&self) -> Seq {
        self.search.watermark()
    }
}
