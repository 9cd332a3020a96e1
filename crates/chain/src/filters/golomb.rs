//! Golomb-coded sets: sorted numbers as differences, each a quotient in unary and a remainder in binary.
//!
//! Own code, because the writer of the crate `bitcoin` copies each element into a tree before it hashes it.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;

/// Bits of a remainder (BIP 158: P).
const REMAINDER_BITS: u32 = 19;
/// Inverse of the rate of false matches (BIP 158: M).
const RANGE_PER_ELEMENT: u64 = 784_931;

/// Bits of bytes, the highest first.
struct BitWriter {
    out: Vec<u8>,
    /// Bits that make no whole byte yet.
    rest: u64,
    bits: u32,
}

/// Encodes a set of different elements, hashed by a keyed hasher: their number, then the differences of their hashes.
pub(super) fn encode(keyed: &SipHasher24, elements: &[&[u8]]) -> Vec<u8> {
    let count = elements.len() as u64;
    let range = u128::from(count * RANGE_PER_ELEMENT);
    let hash = |element: &&[u8]| {
        let mut hasher = *keyed;
        hasher.write(element);
        u64::try_from((u128::from(hasher.finish()) * range) >> 64).expect("below the range, which has 64 bits")
    };
    let mut hashes: Vec<u64> = elements.iter().map(hash).collect();
    hashes.sort_unstable();
    let mut out = Vec::with_capacity(9 + elements.len() * 3);
    put_compact_size(&mut out, count);
    let mut writer = BitWriter { out, rest: 0, bits: 0 };
    let mut before = 0;
    for hash in hashes {
        let difference = hash - before;
        before = hash;
        for _ in 0..difference >> REMAINDER_BITS {
            writer.put(1, 1);
        }
        writer.put(0, 1);
        writer.put(difference & ((1 << REMAINDER_BITS) - 1), REMAINDER_BITS);
    }
    writer.finish()
}

/// Appends a number in the coding of Bitcoin's messages.
pub fn put_compact_size(out: &mut Vec<u8>, number: u64) {
    let bytes = number.to_le_bytes();
    match number {
        0..=0xfc => out.push(bytes[0]),
        0xfd..=0xffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xfe);
            out.extend_from_slice(&bytes[..4]);
        }
        _ => {
            out.push(0xff);
            out.extend_from_slice(&bytes);
        }
    }
}

impl BitWriter {
    /// Appends the low `bits` bits of a value that has no others.
    fn put(&mut self, value: u64, bits: u32) {
        self.rest = self.rest << bits | value;
        self.bits += bits;
        while self.bits >= 8 {
            self.bits -= 8;
            self.out.push(u8::try_from(self.rest >> self.bits & 0xff).expect("eight bits"));
        }
        self.rest &= (1 << self.bits) - 1;
    }

    /// Fills the last byte with zeros.
    fn finish(mut self) -> Vec<u8> {
        if self.bits > 0 {
            self.put(0, 8 - self.bits);
        }
        self.out
    }
}
