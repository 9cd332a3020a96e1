//! The stored events of a subscription, page by page. A page has a bound on its rows and one on its work, so that a
//! filter whose conditions rarely meet keeps no other client waiting.
//!
//! A page is made inline unless pages have taken long lately: handing over to another thread costs more than most
//! pages.

mod shown;
mod tally;

pub(crate) use self::tally::Tally;

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use birdhouse_clients::Held;
use birdhouse_events::{
    Audience, Events, Filter, Hide, Pace, Packed, Position, Query, Rejection, SearchCoverage, SearchProgress, Seq,
    TagsBy,
};

use crate::limits::{PAGE_WORK, SEARCH_ROWS, SEARCH_ROWS_MAX};
use crate::live::SinceSeq;
use crate::stored::shown::{Earlier, Shown};

/// The stored events that are still to be sent. Between two pages it holds no more than a position.
#[derive(Debug)]
pub(crate) struct Stored {
    filters: Arc<[Filter]>,
    /// The client's quota for them.
    _held: Option<Arc<Held>>,
    tags: TagsBy,
    /// Later events are live, not stored.
    end: SinceSeq,
    /// The filter whose events come next, its position, and the number of events that it still wants.
    filter: usize,
    from: Option<Position>,
    left: usize,
    /// The events that the filters have sent so far.
    shown: Vec<Shown>,
    /// The search that is under way.
    searching: SearchProgress,
    /// The events that a search has found and that are not sent yet, best first.
    found: Option<Vec<Seq>>,
    /// The worst of the filters so far.
    hint: Hint,
    /// Private messages that may match were not for the audience.
    is_withheld: bool,
    /// Time that it took so far.
    pub(crate) spent: Duration,
    pub(crate) rows: usize,
}

/// The continuation of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// Perhaps another page.
    Page,
    /// Nothing.
    End(Completeness),
    /// The rest cannot be sent: the full-text index is being built, or was found damaged. A connection asks before the
    /// first page whether it is built.
    Refused(Rejection),
}

/// Completeness of the stored events that a client was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completeness {
    pub(crate) hint: Hint,
    /// There may be private messages that the client could read if it authenticated.
    pub(crate) is_withheld: bool,
}

/// The hint whether stored events were left out (NIP-67); the worst of several filters counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hint {
    /// None.
    Finish,
    /// Not known.
    Unknown,
    /// Some, by a limit.
    More,
}

/// Circumstances of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// Seconds since 1970.
    pub(crate) now: u32,
    pub(crate) audience: Audience<'a>,
    /// The events that are hidden.
    pub(crate) hidden: Option<&'a dyn Hide>,
    /// Ends the page when others wait.
    pub(crate) pace: Option<&'a dyn Pace>,
}

type Show<'a> = &'a mut dyn FnMut(Packed<'_>) -> ControlFlow<()>;

impl Stored {
    pub(crate) fn new(filters: Arc<[Filter]>, tags: TagsBy, end: SinceSeq) -> Self {
        let left = limit(filters.first());
        Self {
            filters,
            _held: None,
            tags,
            end,
            filter: 0,
            from: None,
            left,
            shown: vec![Shown::Nothing],
            searching: SearchProgress::default(),
            found: None,
            hint: Hint::Finish,
            is_withheld: false,
            spent: Duration::ZERO,
            rows: 0,
        }
    }

    /// Keeps a part of the client's quota for as long as the filters are needed.
    pub(crate) fn holding(self, held: Arc<Held>) -> Self {
        Self { _held: Some(held), ..self }
    }

    /// Returns the number of values of each kind in the filters, without the values.
    pub(crate) fn shape(&self) -> String {
        let mut shapes = String::new();
        for filter in &*self.filters {
            let between = if shapes.is_empty() { "" } else { "; " };
            write!(shapes, "{between}{}", filter.shape()).expect("writing to a string never fails");
        }
        shapes
    }

    /// Returns true if the next page is a piece of a search: it makes words of texts, which takes longer than reading.
    pub(crate) fn is_search(&self) -> bool {
        self.found.is_none() && self.filters.get(self.filter).is_some_and(|filter| filter.search.is_some())
    }

    /// Passes some more events to `show`, about `rows` unless it breaks before, as they are at the time of `asked`
    /// and for its audience.
    pub(crate) fn page(
        &mut self,
        events: &Events,
        asked: Asked<'_>,
        rows: usize,
        show: Show<'_>,
    ) -> birdhouse_events::Result<Next> {
        let filters = Arc::clone(&self.filters);
        let Some(filter) = filters.get(self.filter) else { return Ok(self.end()) };
        let Asked { now, audience, hidden, pace } = asked;
        // Not if every id that is asked for was sent.
        let are_all_sent = |left: usize| filter.ids.as_ref().is_some_and(|ids| limit(Some(filter)) - left == ids.len());
        let may_be_withheld = filter.may_be_withheld(audience);
        let (end, tags) = (self.end.get(), self.tags);
        let query = Query { filter, end, now, audience, hidden, tags, work_max: PAGE_WORK, pace };
        if self.left == 0 {
            self.hint = self.hint.max(Hint::Unknown);
        } else if filter.search.is_some() {
            let found = match self.found.take() {
                Some(found) => found,
                None => match self.search(events, query)? {
                    ControlFlow::Continue(found) => found,
                    ControlFlow::Break(next) => return Ok(next),
                },
            };
            if self.view(events, found, rows, show)? {
                return Ok(Next::Page);
            }
        } else if self.read(events, query, rows, show)? {
            // A client that authenticates later lacks what these pages withheld; a list of ids may be a page and more.
            self.is_withheld |= may_be_withheld && filter.ids.is_none();
            return Ok(Next::Page);
        }
        self.is_withheld |= may_be_withheld && !are_all_sent(self.left);
        self.filter += 1;
        (self.from, self.left) = (None, limit(self.filters.get(self.filter)));
        self.shown.push(Shown::Nothing);
        Ok(if self.filter < self.filters.len() { Next::Page } else { self.end() })
    }

    fn end(&self) -> Next {
        Next::End(Completeness { hint: self.hint, is_withheld: self.is_withheld })
    }

    /// Passes on the next events of a filter; true if it may have more that are wanted.
    fn read(
        &mut self,
        events: &Events,
        query: Query<'_>,
        rows: usize,
        show: Show<'_>,
    ) -> birdhouse_events::Result<bool> {
        // One more than is wanted tells whether there are more.
        let rows = if self.left <= rows { self.left + 1 } else { rows };
        let (mut seen, mut last, left) = (0, None, self.left);
        let earlier = Earlier::new(&self.filters[..self.filter], &self.shown);
        let mut flow = ControlFlow::Continue(());
        self.from = events.page(query, self.from, rows, &mut |seq, packed| {
            seen += 1;
            if seen <= left {
                last = Some(packed.position());
                if !earlier.have(seq, packed) {
                    flow = show(packed);
                }
            }
            flow
        })?;
        if let Some(last) = last {
            self.shown[self.filter] = Shown::To(last);
        }
        if seen > left {
            self.hint = Hint::More;
        }
        self.left -= seen.min(left);
        Ok(self.from.is_some() && seen <= left)
    }

    /// Searches on. Continues with the best events after the last piece, and breaks where there are none yet.
    fn search(&mut self, events: &Events, query: Query<'_>) -> birdhouse_events::Result<ControlFlow<Next, Vec<Seq>>> {
        let rows = query.filter.limit.unwrap_or(SEARCH_ROWS).min(SEARCH_ROWS_MAX);
        let Some((found, searched)) = events.search_on(query, rows, &mut self.searching)? else {
            return Ok(ControlFlow::Break(Next::Page));
        };
        match searched {
            SearchCoverage::Complete => {}
            SearchCoverage::Partial => self.hint = Hint::More,
            SearchCoverage::Building(percent) => {
                return Ok(ControlFlow::Break(Next::Refused(words_are_missing(percent))));
            }
        }
        self.shown[self.filter] = Shown::These(found.iter().copied().collect());
        Ok(ControlFlow::Continue(found))
    }

    /// Passes on the next events that a search has found; true if there are more.
    fn view(
        &mut self,
        events: &Events,
        mut found: Vec<Seq>,
        rows: usize,
        show: Show<'_>,
    ) -> birdhouse_events::Result<bool> {
        let earlier = Earlier::new(&self.filters[..self.filter], &self.shown);
        let mut seen = 0;
        events.visit(&found[..rows.min(found.len())], &mut |seq, packed| {
            seen += 1;
            if earlier.have(seq, packed) { ControlFlow::Continue(()) } else { show(packed) }
        })?;
        found.drain(..seen);
        self.found = Some(found).filter(|found| !found.is_empty());
        Ok(self.found.is_some())
    }
}

/// Refuses a search while the full-text index is built.
pub(crate) fn words_are_missing(percent: u8) -> Rejection {
    Rejection::Error(format!("words are being indexed, {percent} % are: search again later").into())
}

fn limit(filter: Option<&Filter>) -> usize {
    filter.and_then(|filter| filter.limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
#[path = "stored_tests.rs"]
mod tests;
