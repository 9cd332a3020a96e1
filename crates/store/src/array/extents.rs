//! A set of byte ranges: the parts of an array's file that were written.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges of bytes. Invariant: they ascend, none is empty, and no two touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Extents(BTreeMap<u64, u64>);

impl Extents {
    /// Returns the set of these ranges; `None` if they break the invariant.
    pub(crate) fn of(ranges: impl IntoIterator<Item = Range<u64>>) -> Option<Self> {
        let (mut extents, mut before) = (Self::default(), None);
        for range in ranges {
            if range.start >= range.end || before.is_some_and(|end| range.start <= end) {
                return None;
            }
            before = Some(range.end);
            extents.0.insert(range.start, range.end);
        }
        Some(extents)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Range<u64>> {
        self.0.iter().map(|(start, end)| *start..*end)
    }

    /// Adds a range.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((first, last)) = self.0.range(..=end).next_back().filter(|(_, last)| **last >= start) {
            let (first, last) = (*first, *last);
            self.0.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.0.insert(start, end);
    }

    /// Removes a range.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((first, last)) = self.0.range(..range.end).next_back().filter(|(_, last)| **last > range.start) {
            let (first, last) = (*first, *last);
            self.0.remove(&first);
            if last > range.end {
                self.0.insert(range.end, last);
            }
            if first < range.start {
                self.0.insert(first, range.start);
            }
        }
    }

    /// Returns the parts of the set in a range, ascending.
    pub(crate) fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.0.range(..=range.start).next_back().filter(|(_, end)| **end > range.start);
        let others = self.0.range(range.start.saturating_add(1)..range.end.max(range.start.saturating_add(1)));
        let parts = first.into_iter().chain(others);
        parts.map(move |(start, end)| (*start).max(range.start)..(*end).min(range.end)).filter(|part| !part.is_empty())
    }

    /// Returns true if the set has all of a range.
    pub(crate) fn covers(&self, range: Range<u64>) -> bool {
        range.is_empty() || self.within(range.clone()).next() == Some(range)
    }

    /// Returns the parts of `0..end` that the set lacks, ascending.
    pub(crate) fn gaps(&self, end: u64) -> Vec<Range<u64>> {
        let starts = std::iter::once(0).chain(self.0.values().copied());
        let ends = self.0.keys().copied().chain([end]);
        starts.zip(ends).map(|(start, next)| start..next.min(end)).filter(|gap| !gap.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_set_has_what_a_list_of_bytes_has(changes in prop::collection::vec((any::<bool>(), 0..60_u64, 0..20_u64), 0..30), from in 0..80_u64, count in 0..30_u64) {
            let (mut extents, mut bytes) = (Extents::default(), [false; 100]);
            for (is_added, start, count) in changes {
                if is_added { extents.insert(start..start + count) } else { extents.remove(start..start + count) }
                (start..start + count).for_each(|at| bytes[usize::try_from(at).unwrap_or(0)] = is_added);
            }
            prop_assert_eq!(Extents::of(extents.iter()), Some(extents.clone()));
            let has = |at: u64| bytes[usize::try_from(at).unwrap_or(0)];
            let range = from..(from + count).min(100);
            prop_assert!(extents.within(range.clone()).all(|part| !part.is_empty()));
            let within: Vec<u64> = extents.within(range.clone()).flatten().collect();
            prop_assert_eq!(within, range.clone().filter(|at| has(*at)).collect::<Vec<_>>());
            prop_assert_eq!(extents.covers(range.clone()), range.clone().all(has));
            let gaps: Vec<u64> = extents.gaps(100).into_iter().flatten().collect();
            prop_assert_eq!(gaps, (0..100).filter(|at| !has(*at)).collect::<Vec<_>>());
        }
    }
}
