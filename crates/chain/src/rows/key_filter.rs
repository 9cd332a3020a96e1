//! Filters in memory that tell which packs and deltas cannot have a script or a transaction.
//!
//! Most scripts are in few packs. A lookup in a pack that lacks the script costs as much as one that finds it, so young
//! packs and deltas have a filter of their keys. The oldest pack has most scripts and needs none.
//!
//! They are made again from the rows when the index is opened.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::rows::share::SHARE_BITS_MAX;

/// Bits for each key: with six of them set for each, a filter errs for about one key in a hundred.
const BITS_PER_KEY: u64 = 10;
/// A line of a filter is one line of the processor's cache.
const LINE_WORDS: usize = 8;
const LINE_BITS: u64 = 512;
/// Bits that a key sets in its line.
const PROBES: u32 = 6;

/// A blocked Bloom filter over keyed hashes. Keys may be added while others read.
#[derive(Debug)]
pub(crate) struct KeyFilter {
    lines: Vec<[AtomicU64; LINE_WORDS]>,
    /// Keys that changed a bit when they were added.
    keys: AtomicU64,
}

impl KeyFilter {
    /// A filter for about `keys` keys. With more it errs more often.
    pub(super) fn new(keys: u64) -> Self {
        // Shares have as many lines each.
        let lines = (keys * BITS_PER_KEY).div_ceil(LINE_BITS).max(1).next_multiple_of(1 << SHARE_BITS_MAX);
        Self { lines: (0..lines).map(|_| Default::default()).collect(), keys: AtomicU64::new(0) }
    }

    /// Adds a key while others read and add.
    pub(crate) fn add(&self, hash: u64) {
        let line = &self.lines[line_of(hash, self.lines.len())];
        let mut is_new = false;
        for (word, bit) in probes(hash) {
            is_new |= line[word].fetch_or(bit, Ordering::Relaxed) & bit == 0;
        }
        if is_new {
            self.keys.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The filter's shares, of `bits` bits, for as many threads. Nobody else has the filter yet.
    fn shares(&mut self, bits: u32) -> impl Iterator<Item = FilterShare<'_>> {
        let (all, keys) = (self.lines.len(), &self.keys);
        let lines = self.lines.chunks_exact_mut(all >> bits).enumerate();
        lines.map(move |(number, lines)| FilterShare { before: number * lines.len(), lines, all, keys })
    }

    /// The number of distinct keys, less those that the filter would have found before they were added.
    pub(crate) fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    /// False only if the key was never added.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        let line = &self.lines[line_of(hash, self.lines.len())];
        probes(hash).all(|(word, bit)| line[word].load(Ordering::Relaxed) & bit != 0)
    }
}

/// The index of a key's line among `lines`. Ascending keys have ascending lines.
fn line_of(hash: u64, lines: usize) -> usize {
    usize::try_from((u128::from(hash) * lines as u128) >> 64).expect("below the number of lines")
}

/// The lines of a filter for a [`Share`](crate::rows::share::Share) of the keys.
pub(crate) struct FilterShare<'a> {
    lines: &'a mut [[AtomicU64; LINE_WORDS]],
    /// Lines of the shares before.
    before: usize,
    /// Lines of the filter.
    all: usize,
    keys: &'a AtomicU64,
}

impl FilterShare<'_> {
    /// Adds a key of the share, in a third of the time of [`KeyFilter::add`].
    pub(crate) fn insert(&mut self, hash: u64) {
        let line = &mut self.lines[line_of(hash, self.all) - self.before];
        let mut is_new = false;
        for (word, bit) in probes(hash) {
            let word = line[word].get_mut();
            is_new |= *word & bit == 0;
            *word |= bit;
        }
        if is_new {
            self.keys.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The lines of both filters of a pack for a share of the keys.
pub(crate) struct FilterShares<'a> {
    pub(crate) scripts: FilterShare<'a>,
    pub(crate) txids: FilterShare<'a>,
}

/// The bits of a key in its line: 9 bits of a second hash choose each.
fn probes(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..PROBES).map(move |probe| {
        let bit = mixed >> (9 * probe) & (LINE_BITS - 1);
        (usize::try_from(bit / 64).expect("below 8"), 1 << (bit % 64))
    })
}

/// The filters of one pack or delta. They exclude nothing until they have every key.
#[derive(Debug)]
pub(crate) struct Filters {
    /// By the prefix of a script key.
    pub(crate) scripts: KeyFilter,
    /// By the kept hash of a txid.
    pub(crate) txids: KeyFilter,
    is_whole: AtomicBool,
}

impl Filters {
    pub(crate) fn new(scripts: u64, txids: u64) -> Self {
        Self { scripts: KeyFilter::new(scripts), txids: KeyFilter::new(txids), is_whole: AtomicBool::new(true) }
    }

    /// The shares of both, of `bits` bits, for as many threads. Nobody else has the filters yet.
    pub(crate) fn shares(&mut self, bits: u32) -> impl Iterator<Item = FilterShares<'_>> {
        let shares = self.scripts.shares(bits).zip(self.txids.shares(bits));
        shares.map(|(scripts, txids)| FilterShares { scripts, txids })
    }

    /// Filters that lack keys which are there already, until [`Self::finish`].
    pub(crate) fn unfinished(self) -> Self {
        Self { is_whole: AtomicBool::new(false), ..self }
    }

    /// Notes that they have every key.
    pub(crate) fn finish(&self) {
        self.is_whole.store(true, Ordering::Release);
    }

    /// True once they have every key.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_knows_every_key_and_few_others() {
        let key = |number: u64| number.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(31).wrapping_mul(0x9e37_79b9);
        let insert = |filter: &mut KeyFilter, numbers: std::ops::Range<u64>| {
            for (mut lines, share) in filter.shares(2).zip(0..) {
                let keys = numbers.clone().map(key).filter(|key| key >> 62 == share);
                keys.for_each(|key| lines.insert(key));
            }
        };
        let mut filter = KeyFilter::new(10_000);
        (0..5_000).for_each(|number| filter.add(key(number)));
        insert(&mut filter, 5_000..10_000);
        assert!((0..10_000).all(|number| filter.may_have(key(number))));
        insert(&mut filter, 0..5_000);
        (5_000..10_000).for_each(|number| filter.add(key(number)));
        assert!((9_900..=10_000).contains(&filter.keys()), "{} keys", filter.keys());
        let errors = (10_000..110_000).filter(|number| filter.may_have(key(*number))).count();
        assert!(errors < 3_000, "{errors} of 100 000");
    }
}
