//! The events that the filters of a subscription have sent so far, so that a later filter does not send them again: a
//! position for each filter, and not a list of events.

use std::collections::HashSet;

use birdhouse_events::{Filter, Packed, PackedFilter, Position, Seq};

/// The events that one filter has sent.
#[derive(Debug, Default)]
pub(super) enum Shown {
    #[default]
    Nothing,
    /// All that match it, from the newest to this position.
    To(Position),
    /// The best of a search, which are few.
    These(HashSet<Seq>),
}

/// The events that earlier filters have sent, prepared for many lookups.
pub(super) struct Earlier<'a>(Vec<(PackedFilter<'a>, &'a Shown)>);

impl<'a> Earlier<'a> {
    pub(super) fn new(filters: &'a [Filter], shown: &'a [Shown]) -> Self {
        let some = filters.iter().zip(shown).filter(|(_, shown)| !matches!(shown, Shown::Nothing));
        Self(some.map(|(filter, shown)| (PackedFilter::new(filter), shown)).collect())
    }

    /// True if one of them has sent this event.
    pub(super) fn have(&self, seq: Seq, packed: Packed<'_>) -> bool {
        self.0.iter().any(|(filter, shown)| match shown {
            Shown::Nothing => false,
            Shown::To(last) => !packed.position().is_after(*last) && filter.matches(packed) == Some(true),
            Shown::These(seqs) => seqs.contains(&seq),
        })
    }
}
