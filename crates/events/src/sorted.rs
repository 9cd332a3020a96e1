//! Sorted records in an array, found by a key of eight bytes.
//!
//! A *fence* stands in memory for each [`STRIDE`] records: the key of the first of them. A lookup reads the one page
//! between two fences. Keys are hashes, spread evenly: where one stands is guessed from its value, and looked for from there, so
//! that a lookup touches two or three lines of memory where halving touches a dozen. (A feed of 500 authors looks up 1000
//! lists in each segment.) Keys that are not spread evenly cost some steps more.

use std::ops::Range;

use birdhouse_store::Array;

use crate::error::Result;

/// Records between two fences: a page of 4096 bytes.
pub(crate) const STRIDE: usize = 256;

/// A run of an array's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Section {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// A section whose records ascend by their keys.
#[derive(Debug)]
pub(crate) struct Sorted {
    section: Section,
    fences: Vec<u64>,
}

impl Section {
    pub(crate) fn view(self, array: &dyn Array, view: &mut dyn FnMut(&[u8])) -> Result<()> {
        let count = usize::try_from(self.count).expect("a section fits the address space");
        Ok(array.view_run(self.first, count, view)?)
    }
}

impl Sorted {
    pub(crate) fn new(section: Section, fences: Vec<u64>) -> Self {
        Self { section, fences }
    }

    pub(crate) fn section(&self) -> Section {
        self.section
    }

    /// Where among `records` (all of the section's) those with keys in `first..=last` stand.
    pub(crate) fn find<T>(&self, records: &[T], key: impl Fn(&T) -> u64, first: u64, last: u64) -> Range<usize> {
        // Records of one key may stand on both sides of a fence.
        let fences = &self.fences;
        let guess = between(first, 0, u64::MAX, fences.len());
        let begin = partition_near(fences, guess, |fence| *fence < first).saturating_sub(1);
        let (low, high) = (fences.get(begin).copied().unwrap_or(0), fences.get(begin + 1).copied().unwrap_or(u64::MAX));
        let begin = begin * STRIDE;
        let end = (begin + 2 * STRIDE).min(records.len());
        let near = &records[begin.min(end)..end];
        let guess = between(first, low, high, STRIDE.min(near.len()));
        let start = begin + partition_near(near, guess, |record| key(record) < first);
        let mut stop = start;
        while records.get(stop).is_some_and(|record| key(record) <= last) {
            stop += 1;
        }
        start..stop
    }
}

/// Where among `count` keys that are spread evenly from `low` to `high` a key stands, about.
fn between(key: u64, low: u64, high: u64, count: usize) -> usize {
    let (part, whole) = (key.saturating_sub(low), high.saturating_sub(low).max(1));
    let place = u128::from(part) * count as u128 / u128::from(whole);
    usize::try_from(place).unwrap_or(usize::MAX).min(count)
}

/// The same as `partition_point`, quick when the place is near `guess`.
fn partition_near<T>(sorted: &[T], guess: usize, is_before: impl Fn(&T) -> bool) -> usize {
    let guess = guess.min(sorted.len());
    let mut step = 1;
    if sorted.get(guess).is_some_and(&is_before) {
        let mut low = guess;
        while let Some(one) = sorted.get(low + step)
            && is_before(one)
        {
            (low, step) = (low + step, 2 * step);
        }
        let high = (low + step).min(sorted.len());
        return low + 1 + sorted[low + 1..high].partition_point(is_before);
    }
    let mut high = guess;
    while let Some(low) = high.checked_sub(step)
        && !is_before(&sorted[low])
    {
        (high, step) = (low, 2 * step);
    }
    let low = high.saturating_sub(step);
    low + sorted[low..high].partition_point(is_before)
}

/// The fences of records with these keys.
#[derive(Debug, Default)]
pub(crate) struct FenceBuilder {
    fences: Vec<u64>,
    records: usize,
}

impl FenceBuilder {
    pub(crate) fn push(&mut self, key: u64) {
        if self.records.is_multiple_of(STRIDE) {
            self.fences.push(key);
        }
        self.records += 1;
    }

    pub(crate) fn finish(self) -> Vec<u64> {
        self.fences
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_records_of_a_range_of_keys_are_found(mut keys in proptest::collection::vec(0_u64..600, 0..1500), ends: (u16, u16)) {
            keys.sort_unstable();
            let mut fences = FenceBuilder::default();
            for key in &keys {
                fences.push(*key);
            }
            let section = Section { first: 0, count: keys.len() as u64 };
            let sorted = Sorted::new(section, fences.finish());
            let (first, last) = (u64::from(ends.0 % 620), u64::from(ends.0 % 620) + u64::from(ends.1 % 9));
            let expected = keys.partition_point(|key| *key < first)..keys.partition_point(|key| *key <= last);
            prop_assert_eq!(sorted.find(&keys, |key| *key, first, last), expected);
        }

        #[test]
        fn it_does_not_matter_where_one_begins_to_look(mut keys in proptest::collection::vec(0_u8..40, 0..70), wanted in 0_u8..42, guess in 0_usize..90) {
            keys.sort_unstable();
            let expected = keys.partition_point(|key| *key < wanted);
            prop_assert_eq!(partition_near(&keys, guess, |key| *key < wanted), expected);
        }

        #[test]
        fn keys_that_are_spread_evenly_are_guessed_well(seed: u64, count in 1000_usize..5000) {
            let mix = |number: u64| (seed ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mut keys: Vec<u64> = (0..count as u64).map(mix).collect();
            keys.sort_unstable();
            let far = keys.iter().enumerate().map(|(place, key)| between(*key, 0, u64::MAX, count).abs_diff(place)).max();
            prop_assert!(far.unwrap_or(0) < count / 10, "{far:?} of {count}");
        }
    }
}
