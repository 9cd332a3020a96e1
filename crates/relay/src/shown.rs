//! What the filters of a subscription have shown so far, so that a later filter does not show it again: a place for each filter, and
//! not a list of events.

use std::collections::HashSet;

use birdhouse_events::{Filter, Packed, PackedFilter, Position, Seq};

/// What one filter has shown.
#[derive(Debug, Default)]
pub(crate) enum Shown {
    #[default]
    Nothing,
    /// What matches it, from the newest to there.
    To(Position),
    /// The best of a search, which are few.
    These(HashSet<Seq>),
}

/// What earlier filters have shown, ready to be asked of many events.
pub(crate) struct Earlier<'a>(Vec<(PackedFilter<'a>, &'a Shown)>);

impl<'a> Earlier<'a> {
    pub(crate) fn new(filters: &'a [Filter], shown: &'a [Shown]) -> Self {
        let some = filters.iter().zip(shown).filter(|(_, shown)| !matches!(shown, Shown::Nothing));
        Self(some.map(|(filter, shown)| (PackedFilter::new(filter), shown)).collect())
    }

    /// Whether one of them has shown this.
    pub(crate) fn have(&self, seq: Seq, packed: Packed<'_>) -> bool {
        self.0.iter().any(|(filter, shown)| match shown {
            Shown::Nothing => false,
            Shown::To(last) => !packed.position().is_after(*last) && filter.matches(packed) == Some(true),
            Shown::These(seqs) => seqs.contains(&seq),
        })
    }
}
