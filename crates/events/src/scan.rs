//! Runs a plan page by page, in exactly NIP-01's order: the newest first, of equal times the lowest id first.
//!
//! Between two pages nothing is held but a [`Position`]. What a posting cannot decide, and where hashes met, the event decides.

use std::ops::{ControlFlow, RangeInclusive};

use crate::audience::Audience;
use crate::error::{Error, Result};
use crate::event::EventId;
use crate::events::{Query, TagsBy};
use crate::explain::Cost;
use crate::filter::Filter;
use crate::judge::find_many;
use crate::log::{Head, Seq};
use crate::merge::{Merged, Reader};
use crate::packed::{Packed, PackedFilter};
use crate::plan::{Check, Merge, Plan, SCAN_PER_EVENT, Scan, Spans};
use crate::posting::Posting;

/// Events that are looked at together: at least; at first, for few large ones may be enough for who shows them; and (but for those of one
/// second) at most.
const TOGETHER_MIN: usize = 32;
const TOGETHER_FIRST: usize = 64;
const TOGETHER_MAX: usize = 1024;
/// How many times more they are each time.
const TOGETHER_GROWTH: usize = 4;

/// Is shown the events, and says when they are enough before as many as were wanted.
pub(crate) type Show<'a> = &'a mut dyn FnMut(Seq, Packed<'_>) -> ControlFlow<()>;

/// A place in NIP-01's order: the newest first, of equal times the lowest id first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub(crate) created_at: u32,
    pub(crate) id: EventId,
}

/// How far a scan may go, and what it may show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds<'a> {
    /// Events that fulfil the filter.
    pub(crate) rows: usize,
    /// Only what comes after.
    pub(crate) from: Option<Position>,
    /// Events that have expired by then are not shown (NIP-40), seconds since 1970.
    pub(crate) now: u32,
    /// What is not for these is not shown.
    pub(crate) audience: Audience<'a>,
    pub(crate) tags: TagsBy,
}

/// An event that may be one.
struct Candidate {
    created_at: u32,
    seq: Seq,
    head: Head,
}

/// Shows the next events of a filter as planned; the position to go on from, `None` at the end.
pub(crate) fn answer(
    reader: Reader<'_>,
    filter: &Filter,
    plan: &Plan,
    bounds: Bounds<'_>,
    cost: &mut Cost,
    show: Show<'_>,
) -> Result<Option<Position>> {
    match plan {
        Plan::Nothing => Ok(None),
        Plan::Ids(wanted) => ids(reader, filter, wanted, bounds, cost, show),
        Plan::Merge(merge) => run(reader, filter, merge, bounds, cost, show),
    }
}

/// Shows the next events of a filter; the position to go on from, `None` at the end.
pub(crate) fn run(
    reader: Reader<'_>,
    filter: &Filter,
    plan: &Merge,
    bounds: Bounds<'_>,
    cost: &mut Cost,
    show: Show<'_>,
) -> Result<Option<Position>> {
    let Some((since, mut until)) = times(filter) else { return Ok(None) };
    if let Some(from) = bounds.from {
        until = until.min(from.created_at);
    }
    let rows = bounds.rows;
    let have_all = |letter| reader.segments.iter().all(|segment| segment.segment.letters.contains(letter));
    let filter = if bounds.tags == TagsBy::List && plan.lists.decide_tags(filter, have_all) {
        PackedFilter::but_tags(filter)
    } else {
        PackedFilter::new(filter)
    };
    let mut page = Page { reader, filter, bounds, rows, cost, show };
    if let Some(Scan { lists, budget }) = &plan.scan {
        match page.merge(lists, &plan.check, since..=until, *budget)? {
            End::Rows(position) => return Ok(Some(position)),
            End::Lists => return Ok(None),
            End::Budget(last) => match last.checked_sub(1) {
                Some(before) => until = before,
                None => return Ok(None),
            },
        }
    }
    match page.merge(&plan.lists, &plan.check, since..=until, usize::MAX)? {
        End::Rows(position) => Ok(Some(position)),
        End::Lists | End::Budget(_) => Ok(None),
    }
}

/// Shows the events of these ids that fulfil a filter.
fn ids(
    reader: Reader<'_>,
    filter: &Filter,
    ids: &[EventId],
    bounds: Bounds<'_>,
    cost: &mut Cost,
    show: Show<'_>,
) -> Result<Option<Position>> {
    let found: Vec<(Seq, Head)> = find_many(reader, ids)?.into_iter().flatten().collect();
    let mut candidates = Vec::with_capacity(found.len());
    reader.log.view_many(&found, &mut |place, packed| {
        let (seq, head) = found[place];
        candidates.push(Candidate { created_at: packed.created_at(), seq, head });
        ControlFlow::Continue(())
    })?;
    let rows = bounds.rows;
    Page { reader, filter: PackedFilter::new(filter), bounds, rows, cost, show }.show(candidates)
}

/// The filter's times as far as events can have them; `None` if none can.
fn times(filter: &Filter) -> Option<(u32, u32)> {
    let since = u32::try_from(filter.since.map_or(0, |since| since.0)).ok()?;
    let until = filter.until.map_or(u32::MAX, |until| u32::try_from(until.0).unwrap_or(u32::MAX));
    (since <= until).then_some((since, until))
}

struct Page<'a> {
    reader: Reader<'a>,
    filter: PackedFilter<'a>,
    bounds: Bounds<'a>,
    /// Still wanted.
    rows: usize,
    cost: &'a mut Cost,
    show: Show<'a>,
}

/// Why merging ended.
enum End {
    /// Enough events were shown, this one last.
    Rows(Position),
    /// No list has more.
    Lists,
    /// Enough was looked through; all events of this second, and of later ones, were seen.
    Budget(u32),
}

impl Page<'_> {
    fn merge(&mut self, lists: &Spans, check: &Check, times: RangeInclusive<u32>, mut budget: usize) -> Result<End> {
        let mut merged = Merged::new(self.reader, lists, *times.end());
        let (mut next, mut together) = (merged.next()?, TOGETHER_FIRST);
        loop {
            // Whole seconds: only within one do ids matter.
            let wanted = self.rows.clamp(TOGETHER_MIN, together);
            together = (together * TOGETHER_GROWTH).min(TOGETHER_MAX);
            let (mut postings, mut second) = (Vec::new(), None);
            while let Some(posting) = next.filter(|posting| posting.created_at() >= *times.start()) {
                if second != Some(posting.created_at()) && (postings.len() >= wanted || budget == 0) {
                    break;
                }
                second = Some(posting.created_at());
                budget = budget.saturating_sub(1);
                self.cost.postings += 1;
                if check.passes(&posting) {
                    budget = budget.saturating_add(SCAN_PER_EVENT);
                    postings.push(posting);
                }
                next = merged.next()?;
            }
            let Some(second) = second else { return Ok(End::Lists) };
            if let Some(position) = self.show(self.candidates(&postings)?)? {
                return Ok(End::Rows(position));
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

    /// Shows those that fulfil the filter and are for who asks, each once; the last one's position when no more are wanted.
    fn show(&mut self, mut candidates: Vec<Candidate>) -> Result<Option<Position>> {
        candidates
            .sort_by(|one, other| other.created_at.cmp(&one.created_at).then_with(|| one.head.id.cmp(&other.head.id)));
        candidates.dedup_by_key(|candidate| candidate.seq);
        let Bounds { from, now, audience, .. } = self.bounds;
        candidates.retain(|candidate| {
            from.is_none_or(|from| candidate.position().is_after(from)) && !candidate.head.is_expired(now)
        });
        let events: Vec<(Seq, Head)> = candidates.iter().map(|candidate| (candidate.seq, candidate.head)).collect();
        let (filter, rows, cost, show) = (&self.filter, &mut self.rows, &mut *self.cost, &mut *self.show);
        let (mut last, mut damaged) = (None, None);
        self.reader.log.view_many(&events, &mut |place, packed| {
            cost.events += 1;
            match filter.matches(packed).and_then(|matches| Some(matches && audience.may_read(packed)?)) {
                None => damaged = Some(candidates[place].seq),
                Some(false) => return ControlFlow::Continue(()),
                Some(true) => {
                    cost.rows += 1;
                    *rows -= 1;
                    if show(candidates[place].seq, packed).is_continue() && *rows > 0 {
                        return ControlFlow::Continue(());
                    }
                    last = Some(candidates[place].position());
                }
            }
            ControlFlow::Break(())
        })?;
        damaged.map_or(Ok(last), |seq| Err(Error::CorruptEvent(seq)))
    }
}

impl<'a> Bounds<'a> {
    /// Those of the next `rows` events of a query.
    pub(crate) fn of(query: Query<'a>, from: Option<Position>, rows: usize) -> Self {
        Self { rows, from, now: query.now, audience: query.audience, tags: query.tags }
    }
}

impl Candidate {
    fn position(&self) -> Position {
        Position { created_at: self.created_at, id: EventId(self.head.id) }
    }
}

impl Position {
    /// Whether it comes later in that order.
    pub fn is_after(self, other: Self) -> bool {
        self.created_at < other.created_at || self.created_at == other.created_at && self.id > other.id
    }
}
