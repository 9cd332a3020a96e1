//! Points of the curve y² = x³ + 7 in lanes.
//!
//! The formulas have exceptions: an addition of equal or opposite points, or of infinity. Affine additions, which share
//! inversions, note the lanes that meet one. Jacobian additions do not: their callers have proved that there is none.
//! After one the z coordinate is zero, and stays zero.

use crate::scan::field::{ONE, canonical};
use crate::scan::lanes::{Lanes, Limbs};
use crate::scan::number;
use crate::scan::schedule::{MULTIPLES, Schedule};

/// A cube root of one in the field; see `number::LAMBDA`.
pub(super) const BETA: Limbs =
    [0x9_6c28_7195_01ee, 0x7_512f_5899_5c13, 0xc_3434_e99c_f049, 0x7106_e644_79ea, 0x7ae9_6a2b_657c];
/// The constant of the curve's equation.
const SEVEN: Limbs = [7, 0, 0, 0, 0];

/// A point other than infinity by its two coordinates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Affine<E> {
    pub(super) x: E,
    pub(super) y: E,
}

/// The point (x / z², w / (2 z³)). With twice the y coordinate no step has to be halved, nor multiplied by eight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jacobian<E> {
    pub(super) x: E,
    pub(super) w: E,
    pub(super) z: E,
}

/// An addend: its x coordinate and twice its y coordinate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addend<E> {
    pub(super) x: E,
    pub(super) w: E,
}

impl<E: Copy> Addend<E> {
    /// The point by itself; the element is a one.
    #[inline(always)]
    pub(super) fn point(&self, one: &E) -> Jacobian<E> {
        Jacobian { x: self.x, w: self.w, z: *one }
    }
}

/// Twice a point.
#[inline(always)]
pub(super) fn double<L: Lanes>(f: L, point: &Jacobian<L::Element>) -> Jacobian<L::Element> {
    let Jacobian { x, w, z } = point;
    let a = f.square(x);
    let b = f.square(w);
    let z3 = f.multiply(w, z);
    let c = f.square(&b);
    let s = f.multiply(x, &b);
    let e = f.sum::<3, 0, 0>(&a, &a, &a);
    let x3 = f.sum::<1, 2, 0>(&f.square(&e), &s, &s);
    let product = f.multiply(&e, &f.sum::<1, 1, 0>(&s, &x3, &x3));
    Jacobian { x: x3, w: f.sum::<2, 1, 0>(&product, &c, &c), z: z3 }
}

/// The sum of two points that are neither equal nor opposite.
#[inline(always)]
pub(super) fn add<L: Lanes>(f: L, point: &Jacobian<L::Element>, addend: &Addend<L::Element>) -> Jacobian<L::Element> {
    let Jacobian { x, w, z } = point;
    let zz = f.square(z);
    let zzz = f.multiply(&zz, z);
    let h = f.sum::<1, 1, 0>(&f.multiply(&addend.x, &zz), x, x);
    let r = f.sum::<1, 1, 0>(&f.multiply(&addend.w, &zzz), w, w);
    let hh = f.square(&h);
    let i = f.sum::<4, 0, 0>(&hh, &hh, &hh);
    let j = f.multiply(&h, &i);
    let v = f.multiply(x, &i);
    let x3 = f.sum::<1, 1, 2>(&f.square(&r), &j, &v);
    let product = f.multiply(&r, &f.sum::<1, 1, 0>(&v, &x3, &x3));
    let wj = f.multiply(w, &j);
    let zh = f.multiply(z, &h);
    Jacobian { x: x3, w: f.sum::<2, 2, 0>(&product, &wj, &wj), z: f.sum::<2, 0, 0>(&zh, &zh, &zh) }
}

/// Memory of inversions that are shared: Montgomery's trick makes one of all.
pub(super) struct Inversions<E> {
    pub(super) elements: Vec<E>,
    products: Vec<E>,
    /// Lanes of which an element was zero.
    pub(super) exceptions: Vec<u32>,
}

impl<E: Copy> Inversions<E> {
    /// Memory for some elements at once; `any` is any element.
    pub(super) fn new(elements: usize, any: E) -> Self {
        Self { elements: vec![any; elements], products: vec![any; elements], exceptions: vec![0; elements] }
    }

    /// Replaces the first elements by their inverses. A zero would spoil all: it becomes a one, and an exception.
    #[inline(always)]
    pub(super) fn invert<L: Lanes<Element = E>>(&mut self, f: L, count: usize) {
        let mut product = self.multiply(f, count);
        if f.zeros(&product) != 0 {
            let one = f.splat(&ONE);
            for (element, exceptions) in self.elements[..count].iter_mut().zip(&mut self.exceptions) {
                let zeros = f.zeros(element);
                *exceptions |= zeros;
                *element = f.select(zeros, &one, element);
            }
            product = self.multiply(f, count);
        }
        let mut inverse = power(f, &product, INVERSE);
        for (element, before) in self.elements[..count].iter_mut().zip(&self.products[..count]).rev() {
            let inverted = f.multiply(&inverse, before);
            inverse = f.multiply(&inverse, element);
            *element = inverted;
        }
    }

    /// The product of the first elements; keeps those of the elements before each.
    #[inline(always)]
    fn multiply<L: Lanes<Element = E>>(&mut self, f: L, count: usize) -> E {
        let mut product = f.splat(&ONE);
        for (element, before) in self.elements[..count].iter().zip(&mut self.products) {
            *before = product;
            product = f.multiply(&product, element);
        }
        product
    }
}

/// Doubles each point.
#[inline(always)]
pub(super) fn double_all<L: Lanes>(f: L, points: &mut [Affine<L::Element>], inversions: &mut Inversions<L::Element>) {
    for (element, point) in inversions.elements.iter_mut().zip(points.iter()) {
        *element = f.sum::<2, 0, 0>(&point.y, &point.y, &point.y);
    }
    inversions.invert(f, points.len());
    for (point, inverse) in points.iter_mut().zip(&inversions.elements) {
        *point = double_affine(f, point, inverse);
    }
}

/// Adds to each point an addend. Lanes of equal or opposite points are exceptions, and get any point.
#[inline(always)]
pub(super) fn add_all<L: Lanes>(
    f: L,
    points: &mut [Affine<L::Element>],
    addends: &[Affine<L::Element>],
    inversions: &mut Inversions<L::Element>,
) {
    for (element, (point, addend)) in inversions.elements.iter_mut().zip(points.iter().zip(addends)) {
        *element = f.sum::<1, 1, 0>(&addend.x, &point.x, &point.x);
    }
    inversions.invert(f, points.len());
    for (inverse, (point, addend)) in inversions.elements.iter().zip(points.iter_mut().zip(addends)) {
        *point = add_affine(f, point, addend, inverse);
    }
}

/// The affine forms. Infinity is an exception, and gets any point.
#[inline(always)]
pub(super) fn affine_all<L: Lanes>(
    f: L,
    points: &[Jacobian<L::Element>],
    affine: &mut [Affine<L::Element>],
    inversions: &mut Inversions<L::Element>,
) {
    for (element, point) in inversions.elements.iter_mut().zip(points) {
        *element = f.sum::<2, 0, 0>(&point.z, &point.z, &point.z);
    }
    inversions.invert(f, points.len());
    for ((affine, point), inverse) in affine.iter_mut().zip(points).zip(&inversions.elements) {
        *affine = self::affine(f, point, inverse);
    }
}

/// The point that a line through two points meets, mirrored; `inverse` is of the difference of their x coordinates.
#[inline(always)]
fn add_affine<L: Lanes>(
    f: L,
    a: &Affine<L::Element>,
    b: &Affine<L::Element>,
    inverse: &L::Element,
) -> Affine<L::Element> {
    let slope = f.multiply(&f.sum::<1, 1, 0>(&b.y, &a.y, &a.y), inverse);
    through(f, a, &b.x, &slope)
}

/// Twice a point; `inverse` is of twice its y coordinate.
#[inline(always)]
fn double_affine<L: Lanes>(f: L, point: &Affine<L::Element>, inverse: &L::Element) -> Affine<L::Element> {
    let square = f.square(&point.x);
    let slope = f.multiply(&f.sum::<3, 0, 0>(&square, &square, &square), inverse);
    through(f, point, &point.x, &slope)
}

#[inline(always)]
fn through<L: Lanes>(f: L, point: &Affine<L::Element>, other_x: &L::Element, slope: &L::Element) -> Affine<L::Element> {
    let x = f.sum::<1, 1, 1>(&f.square(slope), &point.x, other_x);
    let product = f.multiply(slope, &f.sum::<1, 1, 0>(&point.x, &x, &x));
    Affine { x, y: f.sum::<1, 1, 0>(&product, &point.y, &point.y) }
}

/// Minus a point's y coordinate.
#[inline(always)]
pub(super) fn negate<L: Lanes>(f: L, y: &L::Element) -> L::Element {
    f.sum::<0, 1, 0>(y, y, y)
}

/// Computes the multiples 1, 3, .., 15 of points, which end as the last of them; `twice` is memory. No sum is an
/// exception: a point has the order of the curve.
#[inline(always)]
pub(super) fn odd_multiples<L: Lanes>(
    f: L,
    points: &mut [Affine<L::Element>],
    twice: &mut [Affine<L::Element>],
    multiples: &mut [[Affine<L::Element>; MULTIPLES]],
    inversions: &mut Inversions<L::Element>,
) {
    twice.copy_from_slice(points);
    double_all(f, twice, inversions);
    for at in 0..MULTIPLES {
        if at > 0 {
            add_all(f, points, twice, inversions);
        }
        for (multiples, point) in multiples.iter_mut().zip(points.iter()) {
            multiples[at] = *point;
        }
    }
}

/// Addends for both halves of a scalar: the multiples of a point, and those times `number::LAMBDA`.
#[inline(always)]
pub(super) fn halves<L: Lanes>(
    f: L,
    multiples: &[Affine<L::Element>; MULTIPLES],
) -> [[Addend<L::Element>; MULTIPLES]; 2] {
    let beta = f.splat(&BETA);
    let mut halves = [[Addend { x: beta, w: beta }; MULTIPLES]; 2];
    for (at, point) in multiples.iter().enumerate() {
        let w = f.sum::<2, 0, 0>(&point.y, &point.y, &point.y);
        halves[0][at] = Addend { x: point.x, w };
        halves[1][at] = Addend { x: f.multiply(&point.x, &beta), w };
    }
    halves
}

/// A compressed point.
#[inline(always)]
pub(super) fn compressed(x: &Limbs, y: &Limbs) -> [u8; 33] {
    let mut bytes = [0; 33];
    bytes[0] = if canonical(y)[0] & 1 == 1 { 3 } else { 2 };
    bytes[1..].copy_from_slice(&number::to_be_bytes(&canonical(x)));
    bytes
}

/// Multiplies points, of which the odd multiples are given, by the scalar of a schedule.
#[inline(always)]
pub(super) fn multiply<L: Lanes>(
    f: L,
    schedule: &Schedule,
    multiples: &[Affine<L::Element>; MULTIPLES],
) -> Jacobian<L::Element> {
    let one = f.splat(&ONE);
    let halves = halves(f, multiples);
    let mut sum = Jacobian { x: one, w: one, z: one };
    for (at, step) in schedule.steps.iter().enumerate() {
        let mut addend = halves[usize::from(step.half)][usize::from(step.multiple)];
        if step.is_negative {
            addend.w = negate(f, &addend.w);
        }
        if at == 0 {
            sum = addend.point(&one);
            continue;
        }
        for _ in 0..step.doublings {
            sum = double(f, &sum);
        }
        sum = add(f, &sum, &addend);
    }
    for _ in 0..schedule.doublings {
        sum = double(f, &sum);
    }
    sum
}

/// The affine form, by the inverse of twice the z coordinate.
#[inline(always)]
fn affine<L: Lanes>(f: L, point: &Jacobian<L::Element>, inverse: &L::Element) -> Affine<L::Element> {
    // (4 x, 4 w, 2 z) is the same point with its own y coordinate.
    let square = f.square(inverse);
    let square = f.sum::<4, 0, 0>(&square, &square, &square);
    Affine { x: f.multiply(&point.x, &square), y: f.multiply(&point.w, &f.multiply(&square, inverse)) }
}

/// A root of x³ + 7, and the lanes where this is not a square, so that no point has this x coordinate.
#[inline(always)]
pub(super) fn lift<L: Lanes>(f: L, x: &L::Element) -> (L::Element, u32) {
    let cube = f.multiply(&f.square(x), x);
    // Minus minus seven.
    let minus_seven = negate(f, &f.splat(&SEVEN));
    let square = f.sum::<1, 1, 0>(&cube, &minus_seven, &minus_seven);
    let root = power(f, &square, SQUARE_ROOT);
    let difference = f.sum::<1, 1, 0>(&f.square(&root), &square, &square);
    (root, f.all() & !f.zeros(&difference))
}

/// Squarings, then a product with an earlier power, which is counted from the base.
struct Link {
    squarings: u8,
    with: u8,
}

const fn link(squarings: u8, with: u8) -> Link {
    Link { squarings, with }
}

/// Powers of which the exponents are 2, 3, 6, 9, 11, 22, 44, 88, 176, 220 and 223 ones in binary.
const ONES: [Link; 11] = [
    link(1, 0),
    link(1, 0),
    link(3, 2),
    link(3, 2),
    link(2, 1),
    link(11, 5),
    link(22, 6),
    link(44, 7),
    link(88, 8),
    link(44, 7),
    link(3, 2),
];
/// From there to (prime + 1) / 4, before two last squarings: the root of a square, for the prime is 3 modulo 4.
const SQUARE_ROOT: (&[Link], u8) = (&[link(23, 6), link(6, 1)], 2);
/// From there to prime - 2.
const INVERSE: (&[Link], u8) = (&[link(23, 6), link(5, 0), link(3, 1), link(2, 0)], 0);

#[inline(always)]
fn power<L: Lanes>(f: L, base: &L::Element, (end, squarings): (&[Link], u8)) -> L::Element {
    let mut powers = [*base; 1 + ONES.len()];
    let mut power = *base;
    for (at, link) in ONES.iter().chain(end).enumerate() {
        for _ in 0..link.squarings {
            power = f.square(&power);
        }
        power = f.multiply(&power, &powers[usize::from(link.with)]);
        if let Some(slot) = powers.get_mut(at + 1) {
            *slot = power;
        }
    }
    for _ in 0..squarings {
        power = f.square(&power);
    }
    power
}
