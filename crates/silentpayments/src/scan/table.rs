//! Multiples of the generator, so that a multiple of it is some additions and no doubling.
//!
//! A scalar `t` becomes a number `e` with `t = 2 e - (2^260 - 1)` modulo the order. So each bit of `e`
//! stands for plus or minus its power of two, and each window of bits for an odd number: no digit is zero, and the
//! table needs the positive ones alone. The highest window has only positive bits left and comes from a table of each
//! scan key, in which the spend key is already added.

use secp256k1::{PublicKey, SECP256K1, SecretKey};

use crate::scan::curve::{Affine, Inversions, add_all, double_all};
use crate::scan::field::{One, limbs};
use crate::scan::lanes::Limbs;
use crate::scan::number::{self, Number};

/// A point that no table holds.
type Point = Affine<Number>;
/// A point of a table.
type Entry = Affine<Limbs>;

/// Bits of a window. Larger windows need fewer additions, but all of them (1 MB) no longer fit the second cache: with
/// 12 bits a row took a thirtieth longer.
pub(super) const BITS: usize = 10;
/// Windows of a scalar.
pub(super) const WINDOWS: usize = 26;
/// Windows that the table has; the highest one belongs to the scan key.
pub(super) const LOW_WINDOWS: usize = WINDOWS - 1;
/// Positive odd digits of a window.
const DIGITS_BITS: usize = BITS - 1;
const DIGITS: usize = 1 << DIGITS_BITS;
/// Bits of the highest window that numbers below the order have.
const TOP_BITS: usize = 256 - BITS * LOW_WINDOWS;

/// The odd multiples 1, 3, .., 2^10 - 1 of 2^(10 i) times the generator, by `i`.
pub(super) struct Table {
    entries: Vec<Entry>,
    /// The digit of the highest window whose bits are zero, times its unit.
    top: Point,
    /// Twice the unit of the highest window.
    top_step: Point,
    /// The constant of the recoding: 2^260 - 1 modulo the order.
    offset: Number,
}

/// A digit of a low window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Digit<'a> {
    pub(super) entry: &'a Entry,
    pub(super) is_negative: bool,
}

/// A recoded scalar.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Recoded(Number);

impl Table {
    pub(super) fn new() -> Self {
        let mut entries = Vec::with_capacity(LOW_WINDOWS * DIGITS);
        for window in 0..LOW_WINDOWS {
            let unit = multiple(&power_of_two(BITS * window));
            let twice = multiple(&power_of_two(BITS * window + 1));
            let odd = spread(unit, twice, DIGITS_BITS).expect("odd multiples below 2^10 differ");
            entries.extend(odd.iter().map(entry));
        }
        let (all, unit) = (power_of_two(BITS * WINDOWS), power_of_two(BITS * LOW_WINDOWS));
        let minus_one = number::negate_mod(&[1, 0, 0, 0]);
        Self {
            entries,
            // -(2^10 - 1) units.
            top: multiple(&number::add_mod(&unit, &number::negate_mod(&all))),
            top_step: multiple(&number::add_mod(&unit, &unit)),
            offset: number::add_mod(&all, &minus_one),
        }
    }

    /// A table with a wrong multiple, for tests.
    #[cfg(test)]
    pub(super) fn damaged() -> Self {
        let mut table = Self::new();
        table.entries.swap(7, 8);
        table
    }

    /// The multiples of the highest window, with a point added; `None` if one of these sums is infinity, or if a sum on
    /// the way is an exception.
    pub(super) fn top(&self, point: &Point) -> Option<Vec<Entry>> {
        let start = spread(*point, self.top, 1)?[1];
        Some(spread(start, self.top_step, TOP_BITS)?.iter().map(entry).collect())
    }

    /// Recodes a scalar below the order.
    pub(super) fn recode(&self, scalar: &Number) -> Recoded {
        Recoded(number::half_mod(&number::add_mod(scalar, &self.offset)))
    }

    /// The digit of a low window.
    #[inline(always)]
    pub(super) fn digit(&self, recoded: &Recoded, window: usize) -> Digit<'_> {
        let value = recoded.bits(window);
        // The digit is 2 * value - (2^10 - 1).
        let is_negative = value < DIGITS;
        let index = if is_negative { DIGITS - 1 - value } else { value - DIGITS };
        Digit { entry: &self.entries[window * DIGITS + index], is_negative }
    }
}

impl Recoded {
    /// Index of the highest window's multiple in [`Table::top`].
    pub(super) fn top(&self) -> usize {
        self.bits(LOW_WINDOWS)
    }

    #[inline(always)]
    fn bits(&self, window: usize) -> usize {
        let (word, bit) = (BITS * window / 64, BITS * window % 64);
        let above = self.0.get(word + 1).copied().unwrap_or(0);
        let bits = (u128::from(above) << 64 | u128::from(self.0[word])) >> bit;
        usize::try_from(bits & ((1 << BITS) - 1)).expect("ten bits")
    }
}

/// The point of a key, in limbs.
pub(super) fn point_of(key: &PublicKey) -> Affine<Limbs> {
    entry(&point(key))
}

/// The point of a key.
pub(super) fn point(key: &PublicKey) -> Point {
    let bytes = key.serialize_uncompressed();
    let coordinate = |bytes: &[u8]| number::from_be_bytes(bytes.try_into().expect("32 bytes of 65"));
    Affine { x: coordinate(&bytes[1..33]), y: coordinate(&bytes[33..]) }
}

fn entry(point: &Point) -> Entry {
    Affine { x: limbs(&point.x), y: limbs(&point.y) }
}

fn power_of_two(exponent: usize) -> Number {
    (0..exponent).fold([1, 0, 0, 0], |power, _| number::add_mod(&power, &power))
}

/// A multiple of the generator.
fn multiple(scalar: &Number) -> Point {
    let secret = SecretKey::from_slice(&number::to_be_bytes(scalar)).expect("neither zero nor the order");
    point(&secret.public_key(SECP256K1))
}

/// The points `start + k * step` for `k` below 2^bits; `None` if a sum on the way is an exception.
fn spread(start: Point, step: Point, bits: usize) -> Option<Vec<Point>> {
    let (mut points, mut step) = (vec![start], [step]);
    let mut inversions = Inversions::new(1 << bits, start.x);
    for _ in 0..bits {
        let mut sums = points.clone();
        add_all(One, &mut sums, &step.repeat(points.len()), &mut inversions);
        points.append(&mut sums);
        double_all(One, &mut step, &mut inversions);
    }
    inversions.exceptions.iter().all(|lanes| *lanes == 0).then_some(points)
}
