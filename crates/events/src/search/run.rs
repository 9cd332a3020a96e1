//! Running a search: below the watermark through the index, above it by a scan, piece by piece.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tantivy::query::{BooleanQuery, EnableScoring, Occur, Query as _, TermQuery, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{SegmentReader, Term};

use super::index::IndexSnapshot;
use super::rank::{Best, Hit, Statistics, rarity, weight};
use super::schema::{AUTHOR, CREATED_AT, KIND, SEQ, author};
use super::state::SearchRun;
use super::storage::SearchCoverage;
use super::{SearchIndex, narrow, unindexed};
use crate::error::{Error, Result};
use crate::query::Query;
use crate::reader::Reader;
use crate::seq::Seq;

/// Events above the watermark that a search scans. While there are more, a search finds nothing.
const UNINDEXED_MAX: u64 = 100_000;

/// Events that remain after the index was searched.
enum Rest {
    /// Those above the watermark.
    Unindexed,
    Nothing,
}

/// State of a search between two of its pieces.
#[derive(Debug, Default)]
pub struct SearchProgress(Option<Box<Unfinished>>);

#[derive(Debug)]
struct Unfinished {
    statistics: Statistics,
    best: Best,
    is_cut: bool,
    /// The first event that is not scanned yet.
    from: Seq,
}

/// Events found, best first, and the part of all events that was searched.
pub(crate) type Found = (Vec<Seq>, SearchCoverage);

impl SearchIndex {
    /// Does the next piece of a search for the best `rows` events of a query that have all its words. Returns them,
    /// best first, after the last piece.
    pub(crate) fn search_on(
        &self,
        reader: Reader<'_>,
        query: Query<'_>,
        rows: usize,
        progress: &mut SearchProgress,
    ) -> Result<Option<Found>> {
        let Some(search) = query.filter.search.as_ref().filter(|search| !search.words.is_empty()) else {
            return Ok(Some((Vec::new(), SearchCoverage::Complete)));
        };
        let end = reader.end;
        // One hit more shows that there are more.
        let mut run = SearchRun::new(reader, Query { end, ..query }, search, rows.saturating_add(1));
        let (mut is_cut, from) = match progress.0.take() {
            Some(unfinished) => {
                let Unfinished { statistics, best, is_cut, from } = *unfinished;
                (run.statistics, run.best) = (statistics, best);
                (is_cut, unindexed::scan(&mut run, from)?)
            }
            None => match self.begin(&mut run)? {
                Ok(from) => (false, from),
                Err(coverage) => return Ok(Some((Vec::new(), coverage))),
            },
        };
        is_cut |= run.reads_left == 0;
        if from < end {
            let (statistics, best) = (run.statistics, run.best);
            progress.0 = Some(Box::new(Unfinished { statistics, best, is_cut, from }));
            return Ok(None);
        }
        let hits = run.best.into_sorted();
        let coverage = if is_cut || hits.len() > rows { SearchCoverage::Partial } else { SearchCoverage::Complete };
        Ok(Some((hits.iter().take(rows).map(|hit| hit.seq).collect(), coverage)))
    }

    /// Searches the index. Returns the number of the first event that is not searched, or the coverage if the index
    /// cannot be used.
    fn begin(&self, run: &mut SearchRun<'_>) -> Result<std::result::Result<Seq, SearchCoverage>> {
        let (end, snapshot) = (run.query.end, self.snapshot());
        let watermark = snapshot.as_ref().map_or(Seq(0), |snapshot| snapshot.end);
        if end.0.saturating_sub(watermark.0) > UNINDEXED_MAX {
            return Ok(Err(SearchCoverage::Building(percent(watermark, end))));
        }
        let Some(snapshot) = snapshot else { return Ok(Ok(watermark)) };
        // Tantivy panics on bytes that it did not write.
        match catch_unwind(AssertUnwindSafe(|| search_index(run, &snapshot))) {
            Ok(Err(error)) if !matches!(error, Error::Search(_)) => Err(error),
            Ok(Ok(Rest::Unindexed)) => Ok(Ok(watermark)),
            Ok(Ok(Rest::Nothing)) => Ok(Ok(end)),
            Ok(Err(_)) | Err(_) => {
                self.report_damage();
                Ok(Err(SearchCoverage::Building(0)))
            }
        }
    }
}

fn percent(part: Seq, whole: Seq) -> u8 {
    u8::try_from(part.0 * 100 / whole.0.max(1)).unwrap_or(100)
}

/// Searches the events below the watermark, or all events where the other conditions leave few.
fn search_index(run: &mut SearchRun<'_>, snapshot: &IndexSnapshot) -> Result<Rest> {
    let (searcher, words) = (&snapshot.searcher, &run.search.words);
    let terms: Vec<Term> = words.iter().map(|word| Term::from_field_text(snapshot.text, word)).collect();
    let (mut documents, mut length) = (0_u64, 0_u64);
    for segment in searcher.segment_readers() {
        documents += u64::from(segment.max_doc());
        length += segment.inverted_index(snapshot.text)?.total_num_tokens();
    }
    if documents == 0 {
        return Ok(Rest::Unindexed);
    }
    let having = terms.iter().map(|term| searcher.doc_freq(term)).collect::<Result<Vec<_>, _>>()?;
    run.statistics.rarities = having.iter().map(|having| rarity(*having, documents)).collect();
    #[expect(clippy::cast_precision_loss, reason = "a score needs no exact count")]
    let average = length as f32 / documents as f32;
    run.statistics.length = average.max(1.0);
    let rarest = having.into_iter().min().unwrap_or(0);
    if rarest == 0 {
        return Ok(Rest::Unindexed);
    }
    if rarest > narrow::FEW_EVENTS as u64 && narrow::scan_few(run)? {
        return Ok(Rest::Nothing);
    }
    let all = terms.into_iter().map(|term| {
        let word: Box<dyn tantivy::query::Query> = Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs));
        (Occur::Must, word)
    });
    let weight = BooleanQuery::new(all.collect()).weight(EnableScoring::enabled_from_searcher(searcher))?;
    for segment in searcher.segment_readers() {
        search_segment(run, weight.as_ref(), segment)?;
    }
    Ok(Rest::Unindexed)
}

fn search_segment(run: &mut SearchRun<'_>, words: &dyn Weight, segment: &SegmentReader) -> Result<()> {
    let columns = segment.fast_fields();
    let column = |name| columns.column_first_or_default::<u64>(name);
    let (seqs, kinds, times, authors) = (column(SEQ)?, column(KIND)?, column(CREATED_AT)?, column(AUTHOR)?);
    let filter = run.query.filter;
    let wanted_kinds = filter.kinds.as_ref().map(|kinds| kinds.iter().map(|kind| u64::from(kind.0)).collect());
    let wanted_authors = filter.authors.as_ref().map(|pubkeys| pubkeys.iter().map(author).collect());
    let (since, until) = (filter.since.map_or(0, |since| since.0), filter.until.map_or(u64::MAX, |until| until.0));
    let mut failure = None;
    words.for_each_pruning(run.best.threshold(), segment, &mut |doc, score| {
        let created_at = times.get_val(doc);
        let is_candidate = (since..=until).contains(&created_at)
            && is_in(wanted_kinds.as_ref(), || kinds.get_val(doc))
            && is_in(wanted_authors.as_ref(), || authors.get_val(doc));
        if is_candidate {
            let age_weight = weight(run.query.now, u32::try_from(created_at).unwrap_or(u32::MAX));
            let hit = Hit { score: score * age_weight, seq: Seq(seqs.get_val(doc)) };
            if let Err(error) = run.offer(hit) {
                failure = Some(error);
            }
        }
        // No score reaches the maximum, so the remaining documents are skipped.
        if failure.is_some() || run.reads_left == 0 { f32::MAX } else { run.best.threshold() }
    })?;
    failure.map_or(Ok(()), Err)
}

/// Returns true if the list contains the value. An absent list contains every value.
fn is_in(list: Option<&HashSet<u64>>, value: impl FnOnce() -> u64) -> bool {
    list.is_none_or(|list| list.contains(&value()))
}
