//! Numbers of 256 bits, and the order of the curve.
//!
//! Only a scan key's preparation computes with them, and the splitting or recoding of one scalar a row.

use std::cmp::Ordering;

/// A number below 2^256 in words of 64 bits, the least significant first.
pub(super) type Number = [u64; 4];

/// The order of the curve ([SEC 2](https://www.secg.org/sec2-v2.pdf), 2.4.1).
pub(super) const ORDER: Number =
    [0xbfd2_5e8c_d036_4141, 0xbaae_dce6_af48_a03b, 0xffff_ffff_ffff_fffe, 0xffff_ffff_ffff_ffff];
/// The prime of the curve's field.
pub(super) const PRIME: Number =
    [0xffff_fffe_ffff_fc2f, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff];
/// A cube root of one modulo the order: multiplying a point by it multiplies its x coordinate by `curve::BETA`.
pub(super) const LAMBDA: Number =
    [0xdf02_967c_1b23_bd72, 0x122e_22ea_2081_6678, 0xa526_1c02_8812_645a, 0x5363_ad4c_c05c_30e0];

pub(super) fn from_be_bytes(bytes: &[u8; 32]) -> Number {
    let mut number = [0; 4];
    for (word, bytes) in number.iter_mut().rev().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_be_bytes(*bytes);
    }
    number
}

pub(super) fn to_be_bytes(number: &Number) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (word, bytes) in number.iter().rev().zip(bytes.as_chunks_mut::<8>().0) {
        *bytes = word.to_be_bytes();
    }
    bytes
}

pub(super) fn is_below(number: &Number, bound: &Number) -> bool {
    number.iter().rev().cmp(bound.iter().rev()) == Ordering::Less
}

/// The sum modulo 2^256, and its carry.
#[inline(always)]
pub(super) fn add(a: &Number, b: &Number) -> (Number, bool) {
    let (mut sum, mut carry) = ([0; 4], false);
    for at in 0..4 {
        (sum[at], carry) = a[at].carrying_add(b[at], carry);
    }
    (sum, carry)
}

/// The number with all bits changed.
fn not(number: &Number) -> Number {
    number.map(|word| !word)
}

/// The difference modulo 2^256.
fn subtract(a: &Number, b: &Number) -> Number {
    // a - b = not(not(a) + b), as not(a) = -1 - a.
    not(&add(&not(a), b).0)
}

/// The sum of two numbers below the order, modulo it.
pub(super) fn add_mod(a: &Number, b: &Number) -> Number {
    let (sum, carry) = add(a, b);
    if carry || !is_below(&sum, &ORDER) { subtract(&sum, &ORDER) } else { sum }
}

/// Minus a number below the order, modulo it.
pub(super) fn negate_mod(number: &Number) -> Number {
    if *number == [0; 4] { *number } else { subtract(&ORDER, number) }
}

/// Half of a number below the order, modulo it.
pub(super) fn half_mod(number: &Number) -> Number {
    let odd = number[0] & 1 == 1;
    let (even, carry) = if odd { add(number, &ORDER) } else { (*number, false) };
    let above = [even[1], even[2], even[3], u64::from(carry)];
    std::array::from_fn(|at| even[at] >> 1 | above[at] << 63)
}

/// Part of a split scalar.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Half {
    pub(super) magnitude: u128,
    pub(super) is_negative: bool,
}

/// Writes a scalar as `first + LAMBDA * second` with halves below 0.64 and 0.55 times 2^128: the nearest point of a
/// lattice (Gallant, Lambert and Vanstone, CRYPTO 2001).
pub(super) fn split(scalar: &Number) -> [Half; 2] {
    // Two short vectors (A1, -B1) and (A2, A1) of the lattice of pairs (x, y) with x + LAMBDA * y = 0.
    const A1: Number = [0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd, 0, 0];
    const B1: Number = [0x6f54_7fa9_0abf_e4c3, 0xe443_7ed6_010e_8828, 0, 0];
    const A2: Number = [0x57c1_108d_9d44_cfd8, 0x14ca_50f7_a8e2_f3f6, 1, 0];
    // A1 and B1 times 2^384 / ORDER, rounded: products with a scalar are wrong by 2^-129 at most.
    const A1_SHARE: Number =
        [0xe893_209a_45db_b031, 0x3daa_8a14_71e8_ca7f, 0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd];
    const B1_SHARE: Number =
        [0x1571_b4ae_8ac4_7f71, 0x2212_08ac_9df5_06c6, 0x6f54_7fa9_0abf_e4c4, 0xe443_7ed6_010e_8828];
    let first = scaled(scalar, &A1_SHARE);
    let second = scaled(scalar, &B1_SHARE);
    let x = subtract(scalar, &add(&multiply(&first, &A1), &multiply(&second, &A2)).0);
    let y = subtract(&multiply(&first, &B1), &multiply(&second, &A1));
    [half(&x), half(&y)]
}

/// A number modulo 2^256 that is small, or minus a small one.
fn half(number: &Number) -> Half {
    let is_negative = number[3] >> 63 == 1;
    let magnitude = if is_negative { subtract(&[0; 4], number) } else { *number };
    Half { magnitude: u128::from(magnitude[1]) << 64 | u128::from(magnitude[0]), is_negative }
}

/// The product in words.
fn product(a: &Number, b: &Number) -> [u64; 8] {
    let mut words = [0_u64; 8];
    for (i, a) in a.iter().enumerate() {
        let mut carry = 0;
        for (j, b) in b.iter().enumerate() {
            let sum = u128::from(*a) * u128::from(*b) + u128::from(words[i + j]) + carry;
            (words[i + j], carry) = (low(sum), sum >> 64);
        }
        words[i + 4] = low(carry);
    }
    words
}

/// The low word.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low word is wanted")]
pub(super) fn low(number: u128) -> u64 {
    number as u64
}

/// The product modulo 2^256.
fn multiply(a: &Number, b: &Number) -> Number {
    let words = product(a, b);
    [words[0], words[1], words[2], words[3]]
}

/// `a * b / 2^384`, rounded to the nearest. It must be below 2^128.
fn scaled(a: &Number, b: &Number) -> Number {
    let [.., below, low, high] = product(a, b);
    add(&[low, high, 0, 0], &[below >> 63, 0, 0, 0]).0
}
