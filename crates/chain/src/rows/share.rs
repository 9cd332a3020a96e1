//! Shares of all keys: those that begin with the same bits. Threads write the rows of one share each.

use std::ops::Range;

use birdhouse_store::{Direction, KeyRange};

use crate::rows::{bucket_key, bucket_of};

/// Keys whose first bits are a number. Keyed hashes are spread evenly, so shares are of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    number: u64,
    bits: u32,
}

/// The most shares, as a power of two.
pub(crate) const SHARE_BITS_MAX: u32 = 2;

impl Share {
    /// All keys.
    pub(crate) const ALL: Self = Self { number: 0, bits: 0 };

    /// The shares of `bits` bits, ascending.
    pub(crate) fn each(bits: u32) -> impl Iterator<Item = Self> {
        (0..1 << bits).map(move |number| Self { number, bits })
    }

    /// The least key of the share.
    fn start(self) -> u64 {
        if self.bits == 0 { 0 } else { self.number << (64 - self.bits) }
    }

    /// The least key above the share; `None` for the last one.
    fn end(self) -> Option<u64> {
        let next = Self { number: self.number + 1, ..self };
        (next.number < 1 << self.bits).then(|| next.start())
    }

    /// The range of the share in a list that ascends by `key`.
    pub(crate) fn range_in<T>(self, ascending: &[T], key: impl Fn(&T) -> u64) -> Range<usize> {
        let below = |bound: u64| ascending.partition_point(|item| key(item) < bound);
        below(self.start())..self.end().map_or(ascending.len(), below)
    }

    /// The share's partitions of keys by their first `bits` bits. The share must not have more bits.
    pub(crate) fn partitions(self, bits: u32) -> Range<usize> {
        debug_assert!(self.bits <= bits);
        let first = |number: u64| usize::try_from(number << (bits - self.bits)).expect("few bits");
        first(self.number)..first(self.number + 1)
    }

    /// The rows of the share in a table of buckets of `bucket_bits` bits. The share must not have more bits.
    pub(crate) fn buckets(self, bucket_bits: u32) -> KeyRange {
        debug_assert!(self.bits <= bucket_bits);
        let key = |hash: u64| bucket_key(bucket_of(hash, bucket_bits)).to_vec();
        self.rows(key)
    }

    /// The rows of the share in a table whose keys begin with the hash.
    pub(crate) fn hashes(self) -> KeyRange {
        self.rows(|hash| hash.to_be_bytes().to_vec())
    }

    fn rows(self, key: impl Fn(u64) -> Vec<u8>) -> KeyRange {
        let start = if self.number == 0 { Vec::new() } else { key(self.start()) };
        KeyRange { start, end: self.end().map(key).unwrap_or_default(), direction: Direction::Forward }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn shares_have_every_key_once() {
        let keys: Vec<u64> = (0..=64).map(|step: u64| (step << 58).wrapping_sub(step % 2)).collect();
        let mut keys: Vec<u64> = keys.into_iter().chain([0, u64::MAX]).collect();
        keys.sort_unstable();
        for bits in 0..=SHARE_BITS_MAX {
            let shares: Vec<Share> = Share::each(bits).collect();
            let ranges: Vec<Range<usize>> = shares.iter().map(|share| share.range_in(&keys, |key| *key)).collect();
            assert_eq!((ranges[0].start, ranges.last().unwrap().end), (0, keys.len()));
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            for (share, range) in shares.iter().zip(ranges) {
                for (index, key) in keys.iter().enumerate() {
                    assert_eq!(share.hashes().contains(&key.to_be_bytes()), range.contains(&index));
                    let partition = usize::try_from(bucket_of(*key, 5)).unwrap();
                    assert_eq!(share.partitions(5).contains(&partition), range.contains(&index));
                    let bucket = bucket_key(bucket_of(*key, 5));
                    assert_eq!(share.buckets(5).contains(&bucket), range.contains(&index), "{key:x} of {share:?}");
                }
            }
        }
        assert_eq!(Share::each(0).collect::<Vec<_>>(), [Share::ALL]);
    }
}
