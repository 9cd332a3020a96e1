//! Sorted records in an array, found by a key of eight bytes.
//!
//! A *fence*, the key of the first of [`STRIDE`] records, is kept in memory. A lookup reads the one page between two
//! fences. Keys are hashes and so spread evenly: a lookup guesses the record's index from the key's value and searches
//! from there. It touches two or three cache lines where bisection touches a dozen, and many lookups wait for their
//! lines together. (A feed of 500 authors looks up 1000 lists in each segment.) Keys that are not spread evenly cost a
//! few more steps.

use std::hint::black_box;
use std::ops::{ControlFlow, Range};

use birdhouse_store::{Array, Prove};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::Result;

/// Records between two fences: a page of 4096 bytes.
pub(crate) const STRIDE: usize = 256;

/// Lookups that wait for memory together.
const TOGETHER: usize = 64;

/// Pages of an array on another machine that are read together.
const PAGES_TOGETHER: usize = 256;

/// Records that a visit of a section passes on at a time.
const VISITED_TOGETHER: u64 = 1 << 18;

/// Run of an array's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Section {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// Section whose records ascend by their keys.
#[derive(Debug)]
pub(crate) struct Sorted {
    section: Section,
    fences: Vec<u64>,
}

impl Section {
    /// Visits all records in their order, many at a time.
    pub(crate) fn visit(self, array: &dyn Array, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        let end = self.first + self.count;
        let mut first = self.first;
        while first < end {
            let count = VISITED_TOGETHER.min(end - first);
            array.visit_run(first, Section { first, count }.len(), visit)?;
            first += count;
        }
        Ok(())
    }

    fn len(self) -> usize {
        usize::try_from(self.count).expect("a section fits the address space")
    }
}

impl Sorted {
    pub(crate) fn new(section: Section, fences: Vec<u64>) -> Self {
        Self { section, fences }
    }

    pub(crate) fn section(&self) -> Section {
        self.section
    }

    /// Calls `found` with the records whose keys are in each `first..=last`, in the order of `spans`. Of an array on
    /// another machine it reads the pages that may have them, many at a time.
    pub(crate) fn find<T: FromBytes + KnownLayout + Immutable + Unaligned>(
        &self,
        array: &dyn Array,
        key: impl Fn(&T) -> u64,
        spans: impl Iterator<Item = (u64, u64)>,
        mut found: impl FnMut(&[T]),
    ) -> Result<()> {
        if array.is_remote() {
            return self.find_in_pages(array, key, &spans.collect::<Vec<_>>(), found);
        }
        let mut spans = Some(spans);
        array.visit_parts(self.section.first, self.section.len(), &mut |bytes, prove| {
            let records = records_of(bytes);
            let Some(spans) = spans.take() else { return Ok(()) };
            self.find_many(records, prove, &key, spans, |range| found(&records[range]))
        })?;
        Ok(())
    }

    fn find_in_pages<T: FromBytes + KnownLayout + Immutable + Unaligned>(
        &self,
        array: &dyn Array,
        key: impl Fn(&T) -> u64,
        spans: &[(u64, u64)],
        mut found: impl FnMut(&[T]),
    ) -> Result<()> {
        for some in spans.chunks(PAGES_TOGETHER) {
            let pages: Vec<(u64, usize)> = some.iter().map(|span| self.pages(*span)).collect();
            let read: Vec<(u64, usize)> = pages.iter().copied().filter(|(_, count)| *count > 0).collect();
            let mut rest = some.iter().zip(&pages).peekable();
            let mut skip_empty = |found: &mut dyn FnMut(&[T])| {
                while rest.next_if(|(_, (_, count))| *count == 0).is_some() {
                    found(&[]);
                }
                rest.next()
            };
            array.visit_runs(&read, &mut |bytes| {
                if let Some(((first, last), _)) = skip_empty(&mut found) {
                    let records = records_of(bytes);
                    let start = records.partition_point(|record| key(record) < *first);
                    let end = records.partition_point(|record| key(record) <= *last);
                    found(&records[start..end]);
                }
                ControlFlow::Continue(())
            })?;
            skip_empty(&mut found);
        }
        Ok(())
    }

    /// Returns the first record of the pages that may have keys in a span, in the array, and their number of records.
    fn pages(&self, (first, last): (u64, u64)) -> (u64, usize) {
        let begin = self.fences.partition_point(|fence| *fence < first).saturating_sub(1) * STRIDE;
        let end = (self.fences.partition_point(|fence| *fence <= last) * STRIDE).min(self.section.len());
        (self.section.first + begin as u64, end.saturating_sub(begin))
    }

    /// Finds the records with keys in each `first..=last`. `records` are all records of the section, and `prove` proves
    /// a range of their bytes.
    ///
    /// # Errors
    /// Those of `prove`.
    ///
    /// A lookup waits for memory twice: for a fence and for a record. So several lookups are started before the first
    /// continues, because a processor waits for many cache lines at once, but not beyond a branch that depends on one
    /// of them.
    fn find_many<T>(
        &self,
        records: &[T],
        prove: Prove<'_>,
        key: impl Fn(&T) -> u64,
        mut spans: impl Iterator<Item = (u64, u64)>,
        mut found: impl FnMut(Range<usize>),
    ) -> birdhouse_store::Result<()> {
        let prove = |range: Range<usize>| prove(range.start * size_of::<T>()..range.end * size_of::<T>());
        let (mut some, mut near) = (Vec::with_capacity(TOGETHER), Vec::with_capacity(TOGETHER));
        loop {
            some.clear();
            some.extend(spans.by_ref().take(TOGETHER));
            if some.is_empty() {
                return Ok(());
            }
            for (first, _) in &some {
                black_box(self.fences.get(self.fence_near(*first)).copied());
            }
            near.clear();
            near.extend(some.iter().map(|(first, _)| self.records_near(records, *first)));
            for (near, guess) in &near {
                black_box(records.get(near.start + guess).map(&key));
            }
            for ((first, last), (near, guess)) in some.iter().zip(near.drain(..)) {
                prove(near.clone())?;
                let start = near.start + partition_near(&records[near.clone()], guess, |record| key(record) < *first);
                let (mut end, mut proved) = (start, near.end);
                loop {
                    end += records[end..proved].iter().take_while(|record| key(record) <= *last).count();
                    if end < proved || proved == records.len() {
                        break;
                    }
                    proved = (proved + STRIDE).min(records.len());
                    prove(end..proved)?;
                }
                found(start..end);
            }
        }
    }

    /// Returns the estimated index of the fence before a key.
    fn fence_near(&self, key: u64) -> usize {
        let index = (u128::from(key) * self.fences.len() as u128) >> u64::BITS;
        usize::try_from(index).expect("the product is below the number of fences")
    }

    /// Returns the records among which a key must be, and the estimated index of the key there if keys are spread
    /// evenly.
    fn records_near<T>(&self, records: &[T], key: u64) -> (Range<usize>, usize) {
        // Records of one key may be on both sides of a fence.
        let fences = &self.fences;
        let begin = partition_near(fences, self.fence_near(key), |fence| *fence < key).saturating_sub(1);
        let (low, high) = (fences.get(begin).copied().unwrap_or(0), fences.get(begin + 1).copied().unwrap_or(u64::MAX));
        let end = ((begin + 2) * STRIDE).min(records.len());
        let near = (begin * STRIDE).min(end)..end;
        let guess = between(key, low, high).min(near.len());
        (near, guess)
    }
}

fn records_of<T: FromBytes + KnownLayout + Immutable + Unaligned>(bytes: &[u8]) -> &[T] {
    <[T]>::ref_from_bytes(bytes).expect("arrays return whole records")
}

/// Returns the estimated index of a key among [`STRIDE`] keys that are spread evenly from `low` to `high`.
fn between(key: u64, low: u64, high: u64) -> usize {
    let (part, step) = (key.saturating_sub(low), high.saturating_sub(low) / STRIDE as u64);
    usize::try_from(part / step.max(1)).unwrap_or(usize::MAX).min(STRIDE)
}

/// Returns the same as `partition_point`, quickly if the result is near `guess`.
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

/// Collects the fences of records.
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
        fn the_records_of_a_range_of_keys_are_found(mut keys in proptest::collection::vec(0_u64..600, 0..1500), bounds: (u16, u16)) {
            keys.sort_unstable();
            let mut fences = FenceBuilder::default();
            for key in &keys {
                fences.push(*key);
            }
            let section = Section { first: 0, count: keys.len() as u64 };
            let sorted = Sorted::new(section, fences.finish());
            let (first, last) = (u64::from(bounds.0 % 620), u64::from(bounds.0 % 620) + u64::from(bounds.1 % 9));
            let expected = keys.partition_point(|key| *key < first)..keys.partition_point(|key| *key <= last);
            let mut found = Vec::new();
            let spans = [(first, last); 1 + TOGETHER];
            sorted.find_many(&keys, &|_| Ok(()), |key| *key, spans.into_iter(), |one| found.push(one)).unwrap_or_default();
            prop_assert_eq!(found, vec![expected; 1 + TOGETHER]);
        }

        #[test]
        fn it_does_not_matter_where_one_begins_to_look(mut keys in proptest::collection::vec(0_u8..40, 0..70), wanted in 0_u8..42, guess in 0_usize..90) {
            keys.sort_unstable();
            let expected = keys.partition_point(|key| *key < wanted);
            prop_assert_eq!(partition_near(&keys, guess, |key| *key < wanted), expected);
        }

        #[test]
        fn keys_that_are_spread_evenly_are_guessed_well(seed: u64, strides in 4_usize..20) {
            let mix = |number: u64| (seed ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mut keys: Vec<u64> = (0..(strides * STRIDE) as u64).map(mix).collect();
            keys.sort_unstable();
            let section = Section { first: 0, count: keys.len() as u64 };
            let sorted = Sorted::new(section, keys.iter().step_by(STRIDE).copied().collect());
            for (index, key) in keys.iter().enumerate() {
                let (near, guess) = sorted.records_near(&keys, *key);
                prop_assert!((near.start + guess).abs_diff(index) < STRIDE / 4, "{near:?}, {guess} for {index}");
            }
        }
    }
}
