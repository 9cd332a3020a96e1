//! Sorted records in an array, found by a key of eight bytes.
//!
//! A *fence* stands in memory for each [`STRIDE`] records: the key of the first of them. A lookup reads the one page
//! between two fences.

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
        let begin = self.fences.partition_point(|fence| *fence < first).saturating_sub(1) * STRIDE;
        let end = (begin + 2 * STRIDE).min(records.len());
        let near = &records[begin.min(end)..end];
        let start = begin + near.partition_point(|record| key(record) < first);
        let mut stop = start;
        while records.get(stop).is_some_and(|record| key(record) <= last) {
            stop += 1;
        }
        start..stop
    }
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
    }
}
