//! Finds the events of a filter that have all words: below the watermark by the index, above it by looking.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tantivy::query::{BooleanQuery, EnableScoring, Occur, Query as _, TermQuery};
use tantivy::schema::IndexRecordOption;
use tantivy::{SegmentReader, Term};

use super::index::{AUTHOR, CREATED_AT, KIND, SEQ, View, author};
use super::rank::{Best, Hit, Statistics, rarity, weight};
use super::text::words_of;
use super::{Search, Searched, gap, narrow};
use crate::dead::Dead;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::events::{Events, Query};
use crate::log::{Head, Seq};
use crate::packed::{Packed, PackedFilter};
use crate::posting::seconds;

/// Events above the watermark that a search looks through; while there are more, nothing is found.
const LOOKED_THROUGH_MAX: u64 = 100_000;
/// Events that a search reads to see whether they fulfil the other conditions. There are so many only where the words are common and
/// the rest of the filter is not.
const READ_MAX: usize = 200_000;
/// Words of an event where none are known.
const LENGTH_DEFAULT: f32 = 20.0;

/// A search that is under way.
pub(super) struct Looking<'a> {
    pub(super) events: &'a Events,
    pub(super) query: Query<'a>,
    filter: PackedFilter<'a>,
    pub(super) search: &'a Search,
    pub(super) dead: Dead,
    pub(super) statistics: Statistics,
    pub(super) best: Best,
    /// Events that may still be read.
    left: usize,
}

/// What is left to be looked through.
enum Rest {
    /// What is above the watermark.
    Gap,
    Nothing,
}

impl Events {
    /// The events of a query that have all words it asks for, the best `rows` of them, best first; [`view`](Self::view) shows them.
    pub fn search(&self, query: Query<'_>, rows: usize) -> Result<(Vec<Seq>, Searched)> {
        let Some(search) = query.filter.search.as_ref().filter(|search| !search.words.is_empty()) else {
            return Ok((Vec::new(), Searched::All));
        };
        let view = self.search.view();
        let (end, watermark) = (query.end.min(self.end()), view.as_ref().map_or(Seq(0), |view| view.end));
        if end.0.saturating_sub(watermark.0) > LOOKED_THROUGH_MAX {
            return Ok((Vec::new(), Searched::Building(percent(watermark, end))));
        }
        let query = Query { end, ..query };
        // One more tells whether there are more.
        let (best, left) = (Best::new(rows.saturating_add(1)), READ_MAX);
        let statistics = Statistics { length: LENGTH_DEFAULT, rarities: vec![rarity(0, 0); search.words.len()] };
        let filter = PackedFilter::new(query.filter);
        let mut looking = Looking { events: self, query, filter, search, dead: self.dead(), statistics, best, left };
        if let Some(view) = view {
            // Tantivy panics on bytes that it did not write.
            match catch_unwind(AssertUnwindSafe(|| looking.in_index(&view))) {
                Ok(Err(error)) if !matches!(error, Error::Search(_)) => return Err(error),
                Ok(Ok(Rest::Gap)) => gap::look_through(&mut looking, watermark)?,
                Ok(Ok(Rest::Nothing)) => {}
                Ok(Err(_)) | Err(_) => {
                    self.search.damage();
                    return Ok((Vec::new(), Searched::Building(0)));
                }
            }
        } else {
            gap::look_through(&mut looking, watermark)?;
        }
        let is_cut = looking.left == 0;
        let hits = looking.best.into_sorted();
        let searched = if is_cut || hits.len() > rows { Searched::Some } else { Searched::All };
        Ok((hits.iter().take(rows).map(|hit| hit.seq).collect(), searched))
    }
}

fn percent(part: Seq, whole: Seq) -> u8 {
    u8::try_from(part.0 * 100 / whole.0.max(1)).unwrap_or(100)
}

impl Looking<'_> {
    /// Among the events below the watermark, or among all where few are to be looked at.
    fn in_index(&mut self, view: &View) -> Result<Rest> {
        let (searcher, words) = (&view.searcher, &self.search.words);
        let terms: Vec<Term> = words.iter().map(|word| Term::from_field_text(view.text, word)).collect();
        let (mut documents, mut length) = (0_u64, 0_u64);
        for segment in searcher.segment_readers() {
            documents += u64::from(segment.max_doc());
            length += segment.inverted_index(view.text)?.total_num_tokens();
        }
        if documents == 0 {
            return Ok(Rest::Gap);
        }
        let having = terms.iter().map(|term| searcher.doc_freq(term)).collect::<Result<Vec<_>, _>>()?;
        self.statistics.rarities = having.iter().map(|having| rarity(*having, documents)).collect();
        #[expect(clippy::cast_precision_loss, reason = "a score is no count")]
        let average = length as f32 / documents as f32;
        self.statistics.length = average.max(1.0);
        let rarest = having.into_iter().min().unwrap_or(0);
        if rarest == 0 {
            return Ok(Rest::Gap);
        }
        if rarest > narrow::FEW_EVENTS as u64 && narrow::look_through(self)? {
            return Ok(Rest::Nothing);
        }
        let all = terms.into_iter().map(|term| {
            let word: Box<dyn tantivy::query::Query> = Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs));
            (Occur::Must, word)
        });
        let weight = BooleanQuery::new(all.collect()).weight(EnableScoring::enabled_from_searcher(searcher))?;
        for segment in searcher.segment_readers() {
            self.in_segment(weight.as_ref(), segment)?;
        }
        Ok(Rest::Gap)
    }

    fn in_segment(&mut self, words: &dyn tantivy::query::Weight, segment: &SegmentReader) -> Result<()> {
        let columns = segment.fast_fields();
        let column = |name| columns.column_first_or_default::<u64>(name);
        let (seqs, kinds, times, authors) = (column(SEQ)?, column(KIND)?, column(CREATED_AT)?, column(AUTHOR)?);
        let filter = self.query.filter;
        let wanted_kinds = filter.kinds.as_ref().map(|kinds| kinds.iter().map(|kind| u64::from(kind.0)).collect());
        let wanted_authors = filter.authors.as_ref().map(|pubkeys| pubkeys.iter().map(author).collect());
        let (since, until) = (filter.since.map_or(0, |since| since.0), filter.until.map_or(u64::MAX, |until| until.0));
        let mut failure = None;
        words.for_each_pruning(self.best.threshold(), segment, &mut |doc, score| {
            let created_at = times.get_val(doc);
            let is_candidate = (since..=until).contains(&created_at)
                && is_in(wanted_kinds.as_ref(), || kinds.get_val(doc))
                && is_in(wanted_authors.as_ref(), || authors.get_val(doc));
            if is_candidate {
                let age_weight = weight(self.query.now, u32::try_from(created_at).unwrap_or(u32::MAX));
                let hit = Hit { score: score * age_weight, seq: Seq(seqs.get_val(doc)) };
                if let Err(error) = self.offer(hit) {
                    failure = Some(error);
                }
            }
            // Nothing scores as high: the rest is passed over.
            if failure.is_some() || self.left == 0 { f32::MAX } else { self.best.threshold() }
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// Takes an event that has the words, if it is good enough and may be shown.
    fn offer(&mut self, hit: Hit) -> Result<()> {
        if hit.score <= self.best.threshold() || hit.seq >= self.query.end || self.left == 0 {
            return Ok(());
        }
        if self.dead.contains(hit.seq) {
            return Ok(());
        }
        self.left -= 1;
        let head = self.events.log.heads([hit.seq])?[0];
        let admitted = self.events.log.view(hit.seq, &head, |packed| self.admits(&head, packed))?;
        if admitted.ok_or(Error::CorruptEvent(hit.seq))? {
            self.best.push(hit);
        }
        Ok(())
    }

    /// How good an event is; `None` if it lacks a word.
    pub(super) fn score(&self, event: &Event) -> Option<f32> {
        let (asked, words) = (&self.search.words, words_of(event)?);
        let mut times = vec![0_u32; asked.len()];
        for word in &words {
            if let Ok(place) = asked.binary_search(word) {
                times[place] += 1;
            }
        }
        let score = || self.statistics.bm25(words.len(), &times) * weight(self.query.now, seconds(event.created_at));
        times.iter().all(|times| *times > 0).then(score)
    }

    /// Whether an event fulfils every condition but the words, and may be shown; `None` if its bytes are damaged.
    pub(super) fn admits(&self, head: &Head, packed: Packed<'_>) -> Option<bool> {
        let Query { now, audience, .. } = self.query;
        Some(!head.is_expired(now) && self.filter.matches(packed)? && audience.may_read(packed)?)
    }
}

/// Whether a list that may be there has the value.
fn is_in(list: Option<&std::collections::HashSet<u64>>, value: impl FnOnce() -> u64) -> bool {
    list.is_none_or(|list| list.contains(&value()))
}
