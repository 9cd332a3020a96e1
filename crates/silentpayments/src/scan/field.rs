//! One lane, and conversions between words and limbs.
//!
//! The prime is 2^256 - 2^32 - 977, so what lies above 2^256 is folded down by one small product.

use crate::scan::lanes::{Job, Lanes, Limbs};
use crate::scan::number::{self, Number, PRIME};

/// The bits of a limb.
pub(super) const MASK: u64 = (1 << 52) - 1;
/// The bits of the last limb of a number below 2^256.
pub(super) const TOP: u64 = (1 << 48) - 1;
/// 2^256 modulo the prime.
pub(super) const FOLD: u64 = 0x1_0000_03d1;
/// 2^260 modulo the prime.
pub(super) const FOLD_LIMB: u64 = FOLD << 4;
/// The limbs of the prime.
pub(super) const PRIME_LIMBS: Limbs = [0xf_fffe_ffff_fc2f, MASK, MASK, MASK, TOP];

/// A multiple of the prime, limb by limb. Its limbs are above those of the sum of one reduced element less.
pub(super) const fn primes(times: u64) -> Limbs {
    let [a, b, c, d, e] = PRIME_LIMBS;
    [times * a, times * b, times * c, times * d, times * e]
}

pub(super) const ONE: Limbs = [1, 0, 0, 0, 0];

/// The limbs of a number.
pub(super) fn limbs(number: &Number) -> Limbs {
    let [a, b, c, d] = *number;
    [a & MASK, (a >> 52 | b << 12) & MASK, (b >> 40 | c << 24) & MASK, (c >> 28 | d << 36) & MASK, d >> 16]
}

/// The number of reduced limbs in words, and what is above 2^256.
#[inline(always)]
fn words(limbs: &Limbs) -> (Number, u64) {
    let [a, b, c, d, e] = *limbs;
    ([a | b << 52, b >> 12 | c << 40, c >> 24 | d << 28, d >> 36 | e << 16], e >> 48)
}

/// The number below the prime that reduced limbs stand for.
#[inline(always)]
pub(super) fn canonical(limbs: &Limbs) -> Number {
    let (number, above) = words(limbs);
    if above == 0 && number::is_below(&number, &PRIME) {
        return number;
    }
    // Minus the prime is plus FOLD modulo 2^256.
    let (first, mut carry) = number[0].overflowing_add(FOLD);
    let mut reduced = [first, 0, 0, 0];
    for at in 1..4 {
        (reduced[at], carry) = number[at].overflowing_add(u64::from(carry));
    }
    reduced
}

/// One lane: a number below 2^256, in four words. Words of 64 bits need a third fewer multiplications than limbs, and
/// the processor has a carry.
#[derive(Debug, Clone, Copy)]
pub(super) struct One;

impl Lanes for One {
    const WIDTH: usize = 1;
    type Element = Number;

    #[inline(always)]
    fn run<J: Job>(self, job: J) -> J::Output {
        job.run()
    }

    #[inline(always)]
    fn load<'a>(self, limbs: impl Fn(usize) -> &'a Limbs) -> Number {
        let (number, above) = words(limbs(0));
        fold_carry(number, above)
    }

    #[inline(always)]
    fn store(self, element: &Number, limbs: &mut [Limbs]) {
        limbs[0] = self::limbs(element);
    }

    #[inline(always)]
    fn multiply(self, a: &Number, b: &Number) -> Number {
        // Low and high words of the products in two chains of carries each: a word costs one addition, not two.
        let mut product = [0_u64; 8];
        for i in 0..4 {
            let (mut lows, mut highs) = ([0; 4], [0; 4]);
            for j in 0..4 {
                (lows[j], highs[j]) = a[i].carrying_mul(b[j], 0);
            }
            product[i + 4] = u64::from(add_to(&mut product[i..], &lows));
            add_to(&mut product[i + 1..], &highs);
        }
        fold(&product)
    }

    #[inline(always)]
    fn square(self, a: &Number) -> Number {
        let [a, b, c, d] = *a;
        // Products of different words, once.
        let (p1, carry) = a.carrying_mul(b, 0);
        let (p2, carry) = a.carrying_mul(c, carry);
        let (p3, p4) = a.carrying_mul(d, carry);
        let (p3, carry) = b.carrying_mul(c, p3);
        let (p4, p5) = b.carrying_mul_add(d, p4, carry);
        let (p5, p6) = c.carrying_mul(d, p5);
        // Twice these, and the squares of words.
        let twice = [0, p1 << 1, p2 << 1 | p1 >> 63, p3 << 1 | p2 >> 63, p4 << 1 | p3 >> 63];
        let above = [p5 << 1 | p4 >> 63, p6 << 1 | p5 >> 63, p6 >> 63];
        let squares = [a, b, c, d].map(|word| word.carrying_mul(word, 0));
        let product0 = squares[0].0;
        let (product1, carry) = twice[1].carrying_add(squares[0].1, false);
        let (product2, carry) = twice[2].carrying_add(squares[1].0, carry);
        let (product3, carry) = twice[3].carrying_add(squares[1].1, carry);
        let (product4, carry) = twice[4].carrying_add(squares[2].0, carry);
        let (product5, carry) = above[0].carrying_add(squares[2].1, carry);
        let (product6, carry) = above[1].carrying_add(squares[3].0, carry);
        let (product7, _) = above[2].carrying_add(squares[3].1, carry);
        fold(&[product0, product1, product2, product3, product4, product5, product6, product7])
    }

    #[inline(always)]
    fn sum<const A: u64, const B: u64, const C: u64>(self, a: &Number, b: &Number, c: &Number) -> Number {
        let mut sum = times::<A>(a);
        if B > 0 {
            sum = minus(sum, times::<B>(b));
        }
        if C > 0 {
            sum = minus(sum, times::<C>(c));
        }
        // What is above 2^256 is between -16 and 8, and after a fold -1, 0 or 1. Not zero, it leaves a number within
        // 2^38 of 0 or of 2^256, so that the second fold stays in the first word.
        let ([a, b, c, d], above) = fold_signed(sum);
        [a.wrapping_add(above.wrapping_mul(FOLD)), b, c, d]
    }

    #[inline(always)]
    fn zeros(self, a: &Number) -> u32 {
        u32::from(*a == [0; 4] || *a == PRIME)
    }

    #[inline(always)]
    fn select(self, mask: u32, yes: &Number, no: &Number) -> Number {
        // No branch: the mask is often a random bit.
        let bits = sign(u64::from(mask) << 63);
        let mut selected = *no;
        for (selected, yes) in selected.iter_mut().zip(yes) {
            *selected ^= (*selected ^ yes) & bits;
        }
        selected
    }
}

/// Adds to the first four words; returns the carry.
#[inline(always)]
fn add_to(words: &mut [u64], addend: &Number) -> bool {
    let mut carry = false;
    for at in 0..4 {
        (words[at], carry) = words[at].carrying_add(addend[at], carry);
    }
    carry
}

/// Reduces a product: what is above 2^256 is folded down.
#[inline(always)]
fn fold(product: &[u64; 8]) -> Number {
    let [a, b, c, d, e, f, g, h] = *product;
    let (a, carry) = e.carrying_mul(FOLD, a);
    let (b, carry) = f.carrying_mul_add(FOLD, b, carry);
    let (c, carry) = g.carrying_mul_add(FOLD, c, carry);
    let (d, carry) = h.carrying_mul_add(FOLD, d, carry);
    fold_carry([a, b, c, d], carry)
}

/// Adds a number below 2^35 times 2^256.
#[inline(always)]
fn fold_carry([a, b, c, d]: Number, times: u64) -> Number {
    let (least, more) = times.carrying_mul(FOLD, 0);
    let (a, carry) = a.carrying_add(least, false);
    let (b, carry) = b.carrying_add(more, carry);
    let (c, carry) = c.carrying_add(0, carry);
    let (d, carry) = d.carrying_add(0, carry);
    // After a carry the number is below 2^69, so that this addition carries no further than the second word.
    let (a, carry) = a.carrying_add(if carry { FOLD } else { 0 }, false);
    [a, b.wrapping_add(u64::from(carry)), c, d]
}

/// A small multiple of a number, and what is above 2^256.
#[inline(always)]
fn times<const N: u64>(number: &Number) -> (Number, u64) {
    const { assert!(matches!(N, 0 | 1 | 2 | 3 | 4 | 8)) };
    let [a, b, c, d] = *number;
    match N {
        0 => ([0; 4], 0),
        1 => (*number, 0),
        3 => {
            let (twice, above) = times::<2>(number);
            let (sum, carry) = number::add(&twice, number);
            (sum, above.wrapping_add(u64::from(carry)))
        }
        _ => {
            let left = N.trailing_zeros();
            let right = 64 - left;
            ([a << left, b << left | a >> right, c << left | b >> right, d << left | c >> right], d >> right)
        }
    }
}

/// A difference; what is above 2^256 has a sign.
#[inline(always)]
fn minus((a, above): (Number, u64), (b, more): (Number, u64)) -> (Number, u64) {
    let (mut difference, mut borrow) = ([0; 4], false);
    for at in 0..4 {
        (difference[at], borrow) = a[at].borrowing_sub(b[at], borrow);
    }
    (difference, above.wrapping_sub(more).wrapping_sub(u64::from(borrow)))
}

/// Folds down what is above 2^256, a small number with a sign.
#[inline(always)]
fn fold_signed(([a, b, c, d], above): (Number, u64)) -> (Number, u64) {
    let sign = sign(above);
    let (a, carry) = a.carrying_add(above.wrapping_mul(FOLD), false);
    let (b, carry) = b.carrying_add(sign, carry);
    let (c, carry) = c.carrying_add(sign, carry);
    let (d, carry) = d.carrying_add(sign, carry);
    ([a, b, c, d], sign.wrapping_add(u64::from(carry)))
}

/// All bits of a number below zero, none of another.
#[inline(always)]
fn sign(number: u64) -> u64 {
    (number.cast_signed() >> 63).cast_unsigned()
}
