//! The keys in a bucket: the bits that its number does not decide.
//!
//! ```text
//! high bits  a bitmap, lowest bit of each byte first: a 1 for each key, and a 0 after the keys of each value of the
//!            high bits; zeros to the end of the last byte
//! low bytes  of each key, ascending as the keys
//! ```
//! A bucket of `bits` bits decides the first bits of its keys. The next 1 to 8, up to a whole byte, are the *high
//! bits*; the *low bytes* follow, up to the last byte that is kept. So the bitmap of n keys has n + 2^high bits, where
//! a byte of each would take 8n: the form of Elias ([1974](https://doi.org/10.1145/321812.321820)) and Fano.

use std::ops::Range;

use crate::block::{Cursor, Malformed, put_first};

/// The bits of keys that the buckets of a table keep. Keys are the first bits of a number of 128.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    /// Bits that the number of a bucket decides.
    bits: u32,
    /// Bits after these, up to a whole byte: 1 to 8.
    high: u32,
    /// Bytes after these.
    low: usize,
}

impl Kept {
    /// The form of keys of `bytes` bytes in buckets of `bits` bits, which decide fewer than all of them.
    pub(super) fn new(bits: u32, bytes: usize) -> Self {
        Self { bits, high: 8 - bits % 8, low: bytes - bits as usize / 8 - 1 }
    }

    fn high_bits(self, key: u128) -> usize {
        usize::try_from(key << self.bits >> (128 - self.high)).expect("at most eight bits")
    }

    fn low_bytes(self, key: u128) -> u64 {
        let bytes = u64::try_from(key << (self.bits + self.high) >> 64).expect("64 bits");
        self.number(bytes)
    }

    /// The number in the first low bytes of eight.
    fn number(self, bytes: u64) -> u64 {
        if self.low == 0 { 0 } else { bytes >> (64 - 8 * self.low) }
    }

    /// The key with these parts.
    fn key(self, bucket: u32, high_bits: usize, low_bytes: u64) -> u128 {
        let whole = self.bits + self.high;
        let first = u128::from(bucket) << self.high | high_bits as u128;
        let low_bits = u32::try_from(8 * self.low).expect("at most 64");
        (first << low_bits | u128::from(low_bytes)) << (128 - whole - low_bits)
    }
}

/// The keys of a bucket while it is filled, ascending.
#[derive(Debug, Default)]
pub(super) struct Remainders {
    high_bits: Vec<u8>,
    low_bytes: Vec<u8>,
}

impl Remainders {
    pub(super) fn len(&self) -> usize {
        self.high_bits.len()
    }

    pub(super) fn push(&mut self, key: u128, kept: Kept) {
        self.high_bits.push(u8::try_from(kept.high_bits(key)).expect("at most eight bits"));
        put_first(&mut self.low_bytes, (key << (kept.bits + kept.high)).to_be_bytes(), kept.low);
    }

    /// Appends the keys to `out`, and removes them here.
    pub(super) fn take(&mut self, kept: Kept, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + bitmap_bytes(self.len(), kept), 0);
        let bitmap = &mut out[start..];
        for (index, high_bits) in self.high_bits.drain(..).enumerate() {
            let at = index + usize::from(high_bits);
            bitmap[at / 8] |= 1 << (at % 8);
        }
        out.append(&mut self.low_bytes);
    }
}

fn bitmap_bytes(keys: usize, kept: Kept) -> usize {
    keys.saturating_add(1 << kept.high).div_ceil(8)
}

/// Reads the keys of a bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct RemainderReader<'a> {
    kept: Kept,
    len: usize,
    bitmap: &'a [u8],
    low_bytes: &'a [u8],
}

impl<'a> RemainderReader<'a> {
    /// Reads `count` keys.
    pub(super) fn new(cursor: &mut Cursor<'a>, count: u64, kept: Kept) -> Result<Self, Malformed> {
        let len = usize::try_from(count).map_err(|_| cursor.malformed("number of keys"))?;
        let bitmap = cursor.take(bitmap_bytes(len, kept), "high bits of keys")?;
        let (whole, last) = words(bitmap);
        let ones = whole.iter().chain([&last]).map(|word| u64::from_le_bytes(*word).count_ones());
        // Those after the end of the last word do not count.
        if ones.sum::<u32>() as usize != len + 64 * (whole.len() + 1) - 8 * bitmap.len() {
            return Err(cursor.malformed("high bits of keys"));
        }
        let low_bytes = cursor.take(len.saturating_mul(kept.low), "low bytes of keys")?;
        Ok(Self { kept, len, bitmap, low_bytes })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The places of the keys that are kept as this one is.
    pub(super) fn find(&self, key: u128) -> Range<usize> {
        let (high_bits, low_bytes) = (self.kept.high_bits(key), self.kept.low_bytes(key));
        // Before the keys of a value are a zero for each value below, and the keys of these.
        let first = high_bits.checked_sub(1).map_or(0, |below| self.zero(below) - below);
        // They are few: a search by halves is no quicker.
        let mut same_high = (first..self.len).take_while(|index| self.is_one(index + high_bits));
        let Some(start) = same_high.find(|index| self.low_bytes(*index) >= low_bytes) else { return 0..0 };
        let same = std::iter::once(start).chain(same_high).take_while(|index| self.low_bytes(*index) == low_bytes);
        start..start + same.count()
    }

    /// The keys of this bucket, ascending.
    pub(super) fn keys(self, bucket: u32) -> impl Iterator<Item = u128> {
        let ones = (0..8 * self.bitmap.len()).filter(move |at| self.is_one(*at));
        ones.enumerate().map(move |(index, at)| self.kept.key(bucket, at - index, self.low_bytes(index)))
    }

    fn is_one(&self, at: usize) -> bool {
        self.bitmap[at / 8] >> (at % 8) & 1 == 1
    }

    /// The position of the zero with this number. There are more than high bits have values.
    fn zero(&self, number: usize) -> usize {
        let (whole, last) = words(self.bitmap);
        let (mut left, mut at) = (u32::try_from(number).expect("at most eight bits"), 0);
        for word in whole.iter().chain([&last]) {
            let zeros = !u64::from_le_bytes(*word);
            if left < zeros.count_ones() {
                return at + nth_one(zeros, left) as usize;
            }
            left -= zeros.count_ones();
            at += 64;
        }
        unreachable!("the bitmap has as many ones as keys")
    }

    fn low_bytes(&self, index: usize) -> u64 {
        let bytes = &self.low_bytes[index * self.kept.low..];
        // Of most keys eight bytes can be copied, of the last ones fewer.
        let bytes = bytes.first_chunk().copied().unwrap_or_else(|| {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            padded
        });
        self.kept.number(u64::from_be_bytes(bytes))
    }
}

/// The words of a bitmap, least significant byte first. After its end the last one has ones.
fn words(bitmap: &[u8]) -> (&[[u8; 8]], [u8; 8]) {
    let (whole, rest) = bitmap.as_chunks();
    let mut last = [0xff; 8];
    last[..rest.len()].copy_from_slice(rest);
    (whole, last)
}

/// The position of a one in a word that has more of them than this number.
fn nth_one(mut word: u64, mut number: u32) -> u32 {
    let mut at = 0;
    for width in [32, 16, 8, 4, 2, 1] {
        let ones = (word & ((1 << width) - 1)).count_ones();
        if number >= ones {
            number -= ones;
            word >>= width;
            at += width;
        }
    }
    at
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(keys: &[u128], kept: Kept) -> Vec<u8> {
        let (mut remainders, mut bytes) = (Remainders::default(), Vec::new());
        for key in keys {
            remainders.push(*key, kept);
        }
        assert_eq!(remainders.len(), keys.len());
        remainders.take(kept, &mut bytes);
        assert_eq!(remainders.len(), 0);
        bytes
    }

    #[test]
    fn golden_bytes() {
        // Six bits are decided, two are high bits: 1, 1 and 3.
        let kept = Kept::new(6, 2);
        let keys = [0b0000_0101_0000_0111_u128, 0b0000_0101_0000_1000, 0b0000_0111_0000_0001].map(|key| key << 112);
        // A zero for the value 0, two keys, two zeros for 1 and 2, one key, a zero for 3.
        assert_eq!(written(&keys, kept), [0b0010_0110, 7, 8, 1]);
        // Eight decided bits leave eight high bits.
        assert_eq!(written(&[0x00ab_0203_u128 << 104], Kept::new(8, 3)).len(), 33 + 1);
        assert_eq!(written(&[], Kept::new(7, 1)), [0]);
    }

    proptest! {
        #[test]
        fn every_key_is_found_and_no_other(
            keys in prop::collection::btree_set(any::<u128>(), 0..120), bits in 0..25_u32, more in 1..6_usize,
            is_dense: bool, absent: u128,
        ) {
            let bytes = bits as usize / 8 + more;
            let kept = Kept::new(bits, bytes);
            // All of one bucket; dense ones share what is kept.
            let shape = |key: u128| {
                let key = if is_dense { key & 0x3f << (128 - bits - 8) } else { key };
                let first = if bits == 0 { 0 } else { 5_u128 << (128 - bits) };
                (first | key << bits >> bits) >> (128 - 8 * bytes) << (128 - 8 * bytes)
            };
            let mut keys: Vec<u128> = keys.into_iter().map(shape).collect();
            keys.sort_unstable();
            let bytes = written(&keys, kept);
            let mut cursor = Cursor::new(&bytes);
            let reader = RemainderReader::new(&mut cursor, keys.len() as u64, kept).unwrap();
            prop_assert!(cursor.is_at_end());
            prop_assert_eq!(&reader.keys(if bits == 0 { 0 } else { 5 }).collect::<Vec<_>>(), &keys);
            for key in keys.iter().copied().chain([shape(absent)]) {
                let start = keys.partition_point(|other| *other < key);
                let end = keys.partition_point(|other| *other <= key);
                let found = reader.find(key);
                prop_assert_eq!(found.len(), end - start);
                prop_assert!(found.is_empty() || found == (start..end));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, count in 0..300_u64, bits in 0..25_u32, key: u128) {
            if let Ok(reader) = RemainderReader::new(&mut Cursor::new(&bytes), count, Kept::new(bits, 5)) {
                let _ = reader.find(key);
                assert_eq!(reader.keys(0).count(), reader.len());
            }
        }
    }
}
