//! Running a search: below the watermark through the index, above it by a scan, piece by piece.
//!
//! A search goes on in pieces in the index, too, away from the threads of the runtime. When a piece was bounded by the
//! number of its events, four searches through 256 events of 129 kB kept everyone waiting for 5 to 9 s.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tantivy::query::{BooleanQuery, EnableScoring, Occur, Query as _, TermQuery, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet as _, SegmentReader, TERMINATED, Term};

use super::index::IndexSnapshot;
use super::narrow::{Few, Reading};
use super::rank::{Hit, rarity, weight};
use super::schema::{AUTHOR, CREATED_AT, KIND, SEQ, author};
use super::state::{Found, SearchRun};
use super::storage::SearchCoverage;
use super::{SearchIndex, narrow, unindexed};
use crate::error::{Error, Result};
use crate::event::Seq;
use crate::query::Query;
use crate::state::Reader;

/// State of a search between two of its pieces.
#[derive(Debug, Default)]
pub struct SearchProgress(Option<Box<Unfinished>>);

#[derive(Debug)]
struct Unfinished {
    found: Found,
    next: Step,
}

/// Next step of a search.
#[derive(Debug)]
enum Step {
    /// Reads the few events that fulfil the other conditions.
    Few(IndexSnapshot, Few),
    /// Reads the events to which the index leads, from a document on.
    Indexed(IndexSnapshot, Cursor),
    /// Reads the events from this number on, which the index does not hold.
    Unindexed(Seq),
    /// Nothing: the best events are found.
    End,
    /// Nothing: the index cannot be used.
    Unsearchable(SearchCoverage),
}

/// A document of the index.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    segment: usize,
    document: DocId,
}

/// Events found, best first, and the part of all events that was searched.
pub(super) type Results = (Vec<Seq>, SearchCoverage);

impl SearchIndex {
    /// Does the next piece of a search for the best `rows` events of a query that have all its words. Returns them,
    /// best first, after the last piece.
    pub(crate) fn search_on(
        &self,
        reader: Reader<'_>,
        query: Query<'_>,
        rows: usize,
        progress: &mut SearchProgress,
    ) -> Result<Option<Results>> {
        let Some(search) = query.filter.search.as_ref().filter(|search| !search.words.is_empty()) else {
            return Ok(Some((Vec::new(), SearchCoverage::Complete)));
        };
        let end = reader.end;
        // One hit more shows that there are more.
        let mut run = SearchRun::new(reader, Query { end, ..query }, search, rows.saturating_add(1));
        let mut step = match progress.0.take() {
            Some(unfinished) => {
                run.found = unfinished.found;
                unfinished.next
            }
            None => self.begin(&mut run)?,
        };
        loop {
            step = match step {
                Step::End => break,
                Step::Unsearchable(coverage) => return Ok(Some((Vec::new(), coverage))),
                step => self.go_on(&mut run, step)?,
            };
            if run.found.is_cut() {
                break;
            }
            if run.is_over() && !matches!(step, Step::End | Step::Unsearchable(_)) {
                progress.0 = Some(Box::new(Unfinished { found: run.found, next: step }));
                return Ok(None);
            }
        }
        let is_cut = run.found.is_cut();
        let hits = run.found.best.into_sorted();
        let coverage = if is_cut || hits.len() > rows { SearchCoverage::Partial } else { SearchCoverage::Complete };
        Ok(Some((hits.iter().take(rows).map(|hit| hit.seq).collect(), coverage)))
    }

    /// Finds out how to search.
    fn begin(&self, run: &mut SearchRun<'_>) -> Result<Step> {
        if let Some(percent) = self.building(run.query.end) {
            return Ok(Step::Unsearchable(SearchCoverage::Building(percent)));
        }
        match self.snapshot() {
            Some(snapshot) => self.read_index(|| first_step(run, snapshot)),
            None => Ok(Step::Unindexed(Seq(0))),
        }
    }

    /// Takes a step, or a part of one that is long.
    fn go_on(&self, run: &mut SearchRun<'_>, step: Step) -> Result<Step> {
        match step {
            Step::Few(snapshot, few) => Ok(match few.go_on(run)? {
                Reading::More(few) => Step::Few(snapshot, few),
                Reading::TooMany => Step::Indexed(snapshot, Cursor::default()),
                Reading::Done => Step::End,
            }),
            Step::Indexed(snapshot, cursor) => self.read_index(|| search_index(run, snapshot, cursor)),
            Step::Unindexed(from) => {
                let from = unindexed::scan(run, from)?;
                Ok(if from < run.query.end { Step::Unindexed(from) } else { Step::End })
            }
            end => Ok(end),
        }
    }

    /// Reads the index. Tantivy panics on bytes that it did not write: damage is reported, and nothing is found.
    fn read_index(&self, read: impl FnOnce() -> Result<Step>) -> Result<Step> {
        match catch_unwind(AssertUnwindSafe(read)) {
            Ok(Err(error)) if !matches!(error, Error::Search(_)) => Err(error),
            Ok(Ok(step)) => Ok(step),
            Ok(Err(_)) | Err(_) => {
                self.report_damage();
                Ok(Step::Unsearchable(SearchCoverage::Building(0)))
            }
        }
    }
}

/// Reads the statistics of the words, and chooses where to look for them.
fn first_step(run: &mut SearchRun<'_>, snapshot: IndexSnapshot) -> Result<Step> {
    let searcher = &snapshot.searcher;
    let (mut documents, mut length) = (0_u64, 0_u64);
    for segment in searcher.segment_readers() {
        documents += u64::from(segment.max_doc());
        length += segment.inverted_index(snapshot.text)?.total_num_tokens();
    }
    if documents == 0 {
        return Ok(Step::Unindexed(snapshot.end));
    }
    let having = terms(run, &snapshot).map(|term| searcher.doc_freq(&term)).collect::<Result<Vec<_>, _>>()?;
    run.found.statistics.rarities = having.iter().map(|having| rarity(*having, documents)).collect();
    #[expect(clippy::cast_precision_loss, reason = "a score needs no exact count")]
    let average = length as f32 / documents as f32;
    run.found.statistics.length = average.max(1.0);
    let rarest = having.into_iter().min().unwrap_or(0);
    if rarest == 0 {
        return Ok(Step::Unindexed(snapshot.end));
    }
    let few = if rarest > narrow::FEW_EVENTS as u64 { Few::of(run) } else { None };
    Ok(match few {
        Some(few) => Step::Few(snapshot, few),
        None => Step::Indexed(snapshot, Cursor::default()),
    })
}

fn terms(run: &SearchRun<'_>, snapshot: &IndexSnapshot) -> impl Iterator<Item = Term> {
    let text = snapshot.text;
    run.search.words.iter().map(move |word| Term::from_field_text(text, word))
}

/// Searches the events below the watermark, from a document on.
fn search_index(run: &mut SearchRun<'_>, snapshot: IndexSnapshot, mut cursor: Cursor) -> Result<Step> {
    let all = terms(run, &snapshot).map(|term| {
        let word: Box<dyn tantivy::query::Query> = Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs));
        (Occur::Must, word)
    });
    let scoring = EnableScoring::enabled_from_searcher(&snapshot.searcher);
    let words = BooleanQuery::new(all.collect()).weight(scoring)?;
    while let Some(segment) = snapshot.searcher.segment_readers().get(cursor.segment) {
        if let Some(document) = search_segment(run, words.as_ref(), segment, cursor.document)? {
            return Ok(Step::Indexed(snapshot, Cursor { document, ..cursor }));
        }
        cursor = Cursor { segment: cursor.segment + 1, document: 0 };
    }
    Ok(Step::Unindexed(snapshot.end))
}

/// Searches a segment from a document on, until the piece is over; returns the document to go on with.
fn search_segment(
    run: &mut SearchRun<'_>,
    words: &dyn Weight,
    segment: &SegmentReader,
    from: DocId,
) -> Result<Option<DocId>> {
    let columns = segment.fast_fields();
    let column = |name| columns.column_first_or_default::<u64>(name);
    let (seqs, kinds, times, authors) = (column(SEQ)?, column(KIND)?, column(CREATED_AT)?, column(AUTHOR)?);
    let filter = run.query.filter;
    let wanted_kinds = filter.kinds.as_ref().map(|kinds| kinds.iter().map(|kind| u64::from(kind.0)).collect());
    let wanted_authors = filter.authors.as_ref().map(|pubkeys| pubkeys.iter().map(author).collect());
    let (since, until) = (filter.since.map_or(0, |since| since.0), filter.until.map_or(u64::MAX, |until| until.0));
    let (mut failure, mut rest, threshold) = (None, None, run.found.best.threshold());
    // Returns the score that another document must exceed. None exceeds the greatest, so the others are skipped.
    let mut test = |document: DocId, score: f32| {
        if failure.is_some() || rest.is_some() {
            return f32::MAX;
        }
        run.spend(1);
        let created_at = times.get_val(document);
        let is_candidate = score > run.found.best.threshold()
            && (since..=until).contains(&created_at)
            && is_in(wanted_kinds.as_ref(), || kinds.get_val(document))
            && is_in(wanted_authors.as_ref(), || authors.get_val(document));
        if is_candidate {
            let age_weight = weight(run.query.now, u32::try_from(created_at).unwrap_or(u32::MAX));
            let hit = Hit { score: score * age_weight, seq: Seq(seqs.get_val(document)) };
            failure = run.offer(hit).err();
        }
        if run.is_over() {
            rest = Some(document + 1);
        }
        if failure.is_some() || rest.is_some() { f32::MAX } else { run.found.best.threshold() }
    };
    if from == 0 {
        words.for_each_pruning(threshold, segment, &mut test)?;
    } else {
        // The pruning walk begins with the first document only.
        let mut scorer = words.scorer(segment, 1.0)?;
        let mut document = if scorer.doc() < from { scorer.seek(from) } else { scorer.doc() };
        while document != TERMINATED && test(document, scorer.score()) < f32::MAX {
            document = scorer.advance();
        }
    }
    failure.map_or(Ok(rest), Err)
}

/// Returns true if the list contains the value. An absent list contains every value.
fn is_in(list: Option<&HashSet<u64>>, value: impl FnOnce() -> u64) -> bool {
    list.is_none_or(|list| list.contains(&value()))
}
