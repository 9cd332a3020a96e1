//! The stored events of a subscription, page by page.

use std::collections::HashSet;
use std::sync::Arc;

use birdhouse_events::{Audience, Events, Filter, Position, Query, Seq};

/// What is left to be shown of the stored events. Between pages it holds no more than where it is.
#[derive(Debug)]
pub(crate) struct Stored {
    filters: Arc<[Filter]>,
    /// Later events are told and not stored.
    end: Seq,
    /// The filter whose events come next, how far they came, and how many are still wanted.
    filter: usize,
    from: Option<Position>,
    left: usize,
    /// Of several filters: what was shown already.
    shown: HashSet<Seq>,
}

impl Stored {
    pub(crate) fn new(filters: Arc<[Filter]>, end: Seq) -> Self {
        let left = limit(filters.first());
        Self { filters, end, filter: 0, from: None, left, shown: HashSet::new() }
    }

    /// Shows some more events, about `rows`, as they are at a time and for who asks; whether there may be others.
    pub(crate) fn page(
        &mut self,
        events: &Events,
        (now, audience): (u32, Audience<'_>),
        rows: usize,
        show: &mut dyn FnMut(birdhouse_events::Packed<'_>),
    ) -> birdhouse_events::Result<bool> {
        let Some(filter) = self.filters.get(self.filter) else { return Ok(false) };
        if self.left > 0 {
            let (rows, query) = (self.left.min(rows), Query { filter, end: self.end, now, audience });
            let (mut seen, several) = (0, self.filters.len() > 1);
            let shown = &mut self.shown;
            self.from = events.page(query, self.from, rows, &mut |seq, packed| {
                seen += 1;
                if !several || shown.insert(seq) {
                    show(packed);
                }
            })?;
            self.left -= seen;
            if self.from.is_some() && self.left > 0 {
                return Ok(true);
            }
        }
        self.filter += 1;
        (self.from, self.left) = (None, limit(self.filters.get(self.filter)));
        Ok(self.filter < self.filters.len())
    }
}

fn limit(filter: Option<&Filter>) -> usize {
    filter.and_then(|filter| filter.limit).unwrap_or(usize::MAX)
}
