//! Runs a plan page by page, exactly in NIP-01's order: newest first; of equal times, lowest id first.
//!
//! A page ends when it has enough rows or has done enough work, whichever is first: conditions that rarely meet must
//! not keep other clients waiting. A query keeps nothing between two pages but a [`Position`]. The event itself decides
//! what a posting cannot, and where hashes collide.
//!
//! A page's work is counted in postings and events read, a large event by its bytes, and a page ends after 2 ms when
//! others wait ([`Pace`]). Only the events of one second are not divided. Two tags that never meet, in 15 000 events
//! each, took one turn of 15 000 reads; now they take turns of 4 096.

use std::ops::{ControlFlow, RangeInclusive};

use crate::error::{Error, Result};
use crate::event::{EventId, Position, Seq};
use crate::filter::Filter;
use crate::log::packed::filter::PackedFilter;
use crate::log::{FIXED_BYTES, Head, Packed};
use crate::postings::Posting;
use crate::query::audience::{Audience, Hide, shows};
use crate::query::explain::{Cost, Explanation};
use crate::query::merge::Merged;
use crate::query::plan::{Check, Merge, Plan, SCAN_PER_EVENT, Scan, Spans, plan};
use crate::query::{Pace, Query, TagsBy, lookup, read_work};
use crate::state::Reader;

/// Events that are read as a batch: the minimum; the first number, because a few large events may fill a page; and the
/// maximum, but for events of one second.
const BATCH_MIN: usize = 32;
const BATCH_FIRST: usize = 64;
const BATCH_MAX: usize = 1024;
/// Factor by which a batch grows.
const BATCH_GROWTH: usize = 4;

/// Row callback; `Break` ends the page early.
pub(super) type Visit<'a> = &'a mut dyn FnMut(Seq, Packed<'_>) -> ControlFlow<()>;

/// Bounds of a page, and the events that it may contain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds<'a> {
    /// Maximum number of events.
    pub(super) rows: usize,
    /// The page starts after this position.
    pub(super) from: Option<Position>,
    /// Excludes events that have expired by then (NIP-40), seconds since 1970.
    pub(super) now: u32,
    /// Excludes events that these readers may not see.
    pub(super) audience: Audience<'a>,
    /// Excludes events that the operator hides.
    pub(super) hidden: Option<&'a dyn Hide>,
    pub(super) tags: TagsBy,
    /// Work after which the page ends, as in [`Query`].
    pub(super) work: u64,
    pub(super) pace: Option<&'a dyn Pace>,
}

/// Event that may match.
struct Candidate {
    created_at: u32,
    seq: Seq,
    head: Head,
}

/// Visits the next `rows` events of a query, as [`Events::page`](crate::Events::page) does.
pub(crate) fn page(
    reader: Reader<'_>,
    query: Query<'_>,
    from: Option<Position>,
    rows: usize,
    visit: Visit<'_>,
) -> Result<Option<Position>> {
    page_at_cost(reader, query, from, rows, &mut Cost::default(), visit)
}

/// Visits the next `rows` events of a query, and adds to the cost.
pub(crate) fn page_at_cost(
    reader: Reader<'_>,
    query: Query<'_>,
    from: Option<Position>,
    rows: usize,
    cost: &mut Cost,
    visit: Visit<'_>,
) -> Result<Option<Position>> {
    let plan = plan_of(reader, query, rows);
    answer(reader, query.filter, &plan, Bounds::of(query, from, rows), cost, visit)
}

/// Returns the plan of a query, and the cost of its first `rows` rows.
pub(crate) fn explain(reader: Reader<'_>, query: Query<'_>, rows: usize) -> Result<Explanation> {
    let (plan, mut cost) = (plan_of(reader, query, rows), Cost::default());
    let bounds = Bounds::of(query, None, rows);
    answer(reader, query.filter, &plan, bounds, &mut cost, &mut |_, _| ControlFlow::Continue(()))?;
    Ok(Explanation { steps: plan.steps(query.filter), cost })
}

fn plan_of(reader: Reader<'_>, query: Query<'_>, rows: usize) -> Plan {
    plan(query.filter, rows, reader.index, |lists| lookup::size(reader, lists))
}

/// Visits the next events of a filter by its plan. Returns the position after which the next page starts, or `None` at
/// the end.
fn answer(
    reader: Reader<'_>,
    filter: &Filter,
    plan: &Plan,
    bounds: Bounds<'_>,
    cost: &mut Cost,
    visit: Visit<'_>,
) -> Result<Option<Position>> {
    match plan {
        Plan::Nothing => Ok(None),
        Plan::Ids(wanted) => ids(reader, filter, wanted, bounds, cost, visit),
        Plan::Merge(merge) => run(reader, filter, merge, bounds, cost, visit),
    }
}

/// Visits the next events of a filter by merging lists. Returns the position after which the next page starts, or
/// `None` at the end.
pub(super) fn run(
    reader: Reader<'_>,
    filter: &Filter,
    plan: &Merge,
    bounds: Bounds<'_>,
    cost: &mut Cost,
    visit: Visit<'_>,
) -> Result<Option<Position>> {
    let Some((since, mut until)) = times(filter) else { return Ok(None) };
    if let Some(from) = bounds.from {
        until = until.min(from.created_at);
    }
    let have_all = |letter| reader.segments.iter().all(|segment| segment.segment.letters.contains(letter));
    let filter = if bounds.tags == TagsBy::List && plan.lists.decide_tags(filter, have_all) {
        PackedFilter::without_tags(filter)
    } else {
        PackedFilter::new(filter)
    };
    let mut page = PageScan::new(reader, filter, bounds, cost, visit);
    if let Some(Scan { lists, budget }) = &plan.scan {
        match page.merge(lists, &plan.check, since..=until, *budget)? {
            End::Rows(position) => return Ok(Some(position)),
            End::Exhausted => return Ok(None),
            End::Budget(last) => match last.checked_sub(1) {
                Some(before) => until = before,
                None => return Ok(None),
            },
        }
    }
    match page.merge(&plan.lists, &plan.check, since..=until, usize::MAX)? {
        End::Rows(position) => Ok(Some(position)),
        End::Exhausted | End::Budget(_) => Ok(None),
    }
}

/// Visits the events of these ids that fulfil a filter.
fn ids(
    reader: Reader<'_>,
    filter: &Filter,
    ids: &[EventId],
    bounds: Bounds<'_>,
    cost: &mut Cost,
    visit: Visit<'_>,
) -> Result<Option<Position>> {
    let found: Vec<(Seq, Head)> = lookup::find_many(reader, ids)?.into_iter().flatten().collect();
    let mut candidates = Vec::with_capacity(found.len());
    let fixed: Vec<(Seq, Head)> = found.iter().map(|(seq, head)| (*seq, head.cut(FIXED_BYTES))).collect();
    reader.log.visit_many(&fixed, &mut |index, packed| {
        let (seq, head) = found[index];
        candidates.push(Candidate { created_at: packed.created_at(), seq, head });
        ControlFlow::Continue(())
    })?;
    PageScan::new(reader, PackedFilter::new(filter), bounds, cost, visit).visit_matching(candidates)
}

/// Returns the filter's times in the range that events can have; `None` if no event matches.
fn times(filter: &Filter) -> Option<(u32, u32)> {
    let since = u32::try_from(filter.since.map_or(0, |since| since.0)).ok()?;
    let until = filter.until.map_or(u32::MAX, |until| u32::try_from(until.0).unwrap_or(u32::MAX));
    (since <= until).then_some((since, until))
}

struct PageScan<'a> {
    reader: Reader<'a>,
    filter: PackedFilter<'a>,
    bounds: Bounds<'a>,
    /// Rows that are still wanted.
    rows: usize,
    /// Work that may still be done.
    work: u64,
    cost: &'a mut Cost,
    visit: Visit<'a>,
}

/// Reason for the end of a merge.
enum End {
    /// The page is full, or has done its work; everything up to here was seen.
    Rows(Position),
    /// No list has more postings.
    Exhausted,
    /// The budget is used up. All events of this second and of later ones were seen.
    Budget(u32),
}

impl<'a> PageScan<'a> {
    fn new(
        reader: Reader<'a>,
        filter: PackedFilter<'a>,
        bounds: Bounds<'a>,
        cost: &'a mut Cost,
        visit: Visit<'a>,
    ) -> Self {
        Self { reader, filter, bounds, rows: bounds.rows, work: bounds.work.max(1), cost, visit }
    }

    fn merge(&mut self, lists: &Spans, check: &Check, times: RangeInclusive<u32>, mut budget: usize) -> Result<End> {
        let mut merged = Merged::new(self.reader, lists, *times.end());
        // To open the lists for less than a posting of each would be work in vain.
        self.work = self.work.max(lists.ranges.len() as u64);
        let (mut next, mut batch) = (merged.next_of_all()?, BATCH_FIRST);
        loop {
            // A batch ends with a whole second, because ids order the events of one second.
            let wanted = self.rows.clamp(BATCH_MIN, batch);
            batch = (batch * BATCH_GROWTH).min(BATCH_MAX);
            let (mut postings, mut second) = (Vec::new(), None);
            while let Some(posting) = next.filter(|posting| posting.created_at() >= *times.start()) {
                let is_enough = postings.len() >= wanted || budget == 0 || self.work == 0;
                if second != Some(posting.created_at()) && is_enough {
                    break;
                }
                second = Some(posting.created_at());
                budget = budget.saturating_sub(1);
                self.work = self.work.saturating_sub(1);
                self.cost.postings += 1;
                if check.passes(&posting) && self.reader.is_visible(posting.seq()) {
                    budget = budget.saturating_add(SCAN_PER_EVENT);
                    postings.push(posting);
                }
                next = merged.next_of_all()?;
            }
            let Some(second) = second else { return Ok(End::Exhausted) };
            if let Some(position) = self.visit_matching(self.candidates(&postings)?)? {
                return Ok(End::Rows(position));
            }
            if self.work == 0 {
                return Ok(End::Rows(Position::end_of(second)));
            }
            if budget == 0 {
                return Ok(End::Budget(second));
            }
        }
    }

    fn candidates(&self, postings: &[Posting]) -> Result<Vec<Candidate>> {
        let heads = self.reader.log.heads(postings.iter().map(Posting::seq))?;
        let candidate = |(posting, head): (&Posting, Head)| Candidate {
            created_at: posting.created_at(),
            seq: posting.seq(),
            head,
        };
        Ok(postings.iter().zip(heads).map(candidate).collect())
    }

    /// Visits the candidates that fulfil the filter and that the audience may read, each once. Returns the last one's
    /// position when no more rows are wanted, or no more work.
    fn visit_matching(&mut self, mut candidates: Vec<Candidate>) -> Result<Option<Position>> {
        candidates
            .sort_by(|one, other| other.created_at.cmp(&one.created_at).then_with(|| one.head.id.cmp(&other.head.id)));
        candidates.dedup_by_key(|candidate| candidate.seq);
        let Bounds { from, now, audience, hidden, pace, .. } = self.bounds;
        candidates.retain(|candidate| {
            from.is_none_or(|from| candidate.position().is_after(from)) && !candidate.head.is_expired(now)
        });
        let events: Vec<(Seq, Head)> = candidates.iter().map(|candidate| (candidate.seq, candidate.head)).collect();
        let (filter, rows, work) = (&self.filter, &mut self.rows, &mut self.work);
        let (cost, visit) = (&mut *self.cost, &mut *self.visit);
        let (mut last, mut damaged) = (None, None);
        self.reader.log.visit_many(&events, &mut |index, packed| {
            let bytes = u64::from(candidates[index].head.bytes());
            cost.events += 1;
            cost.bytes += bytes;
            *work = work.saturating_sub(read_work(bytes));
            let mut is_last = *work == 0 || pace.is_some_and(Pace::is_over);
            match filter.matches(packed).and_then(|matches| Some(matches && shows(audience, hidden, packed)?)) {
                None => damaged = Some(candidates[index].seq),
                Some(false) => {}
                Some(true) => {
                    cost.rows += 1;
                    *rows -= 1;
                    is_last |= visit(candidates[index].seq, packed).is_break() || *rows == 0;
                }
            }
            if is_last || damaged.is_some() {
                last = Some(candidates[index].position());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        damaged.map_or(Ok(last), |seq| Err(Error::CorruptEvent(seq)))
    }
}

impl<'a> Bounds<'a> {
    /// Returns the bounds for the next `rows` events of a query.
    pub(super) fn of(query: Query<'a>, from: Option<Position>, rows: usize) -> Self {
        let Query { now, audience, hidden, tags, work_max: work, pace, .. } = query;
        Self { rows, from, now, audience, hidden, tags, work, pace }
    }
}

impl Candidate {
    fn position(&self) -> Position {
        Position { created_at: self.created_at, id: EventId(self.head.id) }
    }
}
