//! Points times scalars, each lane its own: the last step of the tweaks of a block.
//!
//! A scalar is split in two halves of 128 bits. Each bit of an odd half, recoded, stands for plus or minus its power of
//! two, so four of them are an odd digit between -15 and 15. No digit is zero: all lanes do the same steps with
//! different multiples. An even half takes the next odd number, and its unit is subtracted in the end.
//!
//! No addition meets an exception. A sum, the next one, and the difference of a sum and its addend are pairs of halves
//! within the bounds of `number::split` (and 30), and not both halves are zero, because digits are odd. In these bounds
//! no pair but zero stands for infinity. If a lane met one all the same, its z coordinate would be zero, and
//! libsecp256k1 would compute its row.

use crate::scan::curve::{self, Addend, Affine, Inversions, Jacobian};
use crate::scan::field::ONE;
use crate::scan::lanes::{Job, Lanes, WIDTH_MAX};
use crate::scan::number::{self, Half};
use crate::scan::schedule::MULTIPLES;
use crate::scan::table;
use crate::transaction::{Factors, TWEAK_BYTES};

/// Rows that share inversions.
const BATCH_ROWS: usize = 1024;
/// Bits of a digit.
const BITS: usize = 4;
/// Digits of a half.
const WINDOWS: usize = 128 / BITS;

/// The computation of products, as compressed points.
pub(super) struct Products<'a, L> {
    pub(super) lanes: L,
    pub(super) rows: &'a [Factors],
}

impl<L: Lanes> Job for Products<'_, L> {
    type Output = Vec<[u8; TWEAK_BYTES]>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let mut products = Vec::with_capacity(self.rows.len());
        for rows in self.rows.chunks(BATCH_ROWS) {
            multiply_all(self.lanes, rows, &mut products);
        }
        products
    }
}

#[inline(always)]
fn multiply_all<L: Lanes>(f: L, rows: &[Factors], products: &mut Vec<[u8; TWEAK_BYTES]>) {
    let groups: Vec<_> = rows.chunks(L::WIDTH).collect();
    let zero = f.splat(&[0; 5]);
    let mut inversions = Inversions::new(groups.len(), zero);
    let any = Affine { x: zero, y: zero };
    let (mut points, mut twice) = (vec![any; groups.len()], vec![any; groups.len()]);
    let mut multiples = vec![[any; MULTIPLES]; groups.len()];
    for (point, rows) in points.iter_mut().zip(&groups) {
        let entries: [_; WIDTH_MAX] = std::array::from_fn(|lane| table::point_of(&lane_of(rows, lane).point));
        *point = Affine { x: f.load(|lane| &entries[lane].x), y: f.load(|lane| &entries[lane].y) };
    }
    curve::odd_multiples(f, &mut points, &mut twice, &mut multiples, &mut inversions);
    let mut sums = Vec::with_capacity(groups.len());
    for (multiples, rows) in multiples.iter().zip(&groups) {
        sums.push(multiply(f, rows, multiples));
    }
    curve::affine_all(f, &sums, &mut points, &mut inversions);
    for ((point, rows), exceptions) in points.iter().zip(&groups).zip(&inversions.exceptions) {
        let (mut x, mut y) = ([[0; 5]; WIDTH_MAX], [[0; 5]; WIDTH_MAX]);
        f.store(&point.x, &mut x[..L::WIDTH]);
        f.store(&point.y, &mut y[..L::WIDTH]);
        for (lane, row) in rows.iter().enumerate() {
            let is_exception = exceptions >> lane & 1 == 1;
            products.push(if is_exception { row.multiply() } else { curve::compressed(&x[lane], &y[lane]) });
        }
    }
}

/// The row of a lane; lanes without a row of their own repeat the last one.
#[inline(always)]
fn lane_of(rows: &[Factors], lane: usize) -> &Factors {
    &rows[lane.min(rows.len() - 1)]
}

/// The products of one group.
#[inline(always)]
fn multiply<L: Lanes>(f: L, rows: &[Factors], multiples: &[Affine<L::Element>; MULTIPLES]) -> Jacobian<L::Element> {
    let one = f.splat(&ONE);
    let multiples = curve::halves(f, multiples);
    let mut scalars = [[Half::default(); 2]; WIDTH_MAX];
    for (lane, halves) in scalars[..L::WIDTH].iter_mut().enumerate() {
        *halves = number::split(&number::from_be_bytes(&lane_of(rows, lane).scalar.to_be_bytes()));
    }
    let mut sum = None;
    for window in (0..WINDOWS).rev() {
        if let Some(sum) = &mut sum {
            for _ in 0..BITS {
                *sum = curve::double(f, sum);
            }
        }
        for (half, multiples) in multiples.iter().enumerate() {
            let addend = digits(f, &scalars, half, window, multiples);
            sum = Some(match &sum {
                None => addend.point(&one),
                Some(sum) => curve::add(f, sum, &addend),
            });
        }
    }
    let mut sum = sum.expect("there is a window");
    for (half, multiples) in multiples.iter().enumerate() {
        let (mut even, mut positive) = (0, 0);
        for (lane, halves) in scalars[..L::WIDTH].iter().enumerate() {
            even |= u32::from(halves[half].magnitude & 1 == 0) << lane;
            positive |= u32::from(!halves[half].is_negative) << lane;
        }
        let Addend { x, w } = multiples[0];
        let unit = Addend { x, w: f.select(positive, &curve::negate(f, &w), &w) };
        let less = curve::add(f, &sum, &unit);
        sum = Jacobian {
            x: f.select(even, &less.x, &sum.x),
            w: f.select(even, &less.w, &sum.w),
            z: f.select(even, &less.z, &sum.z),
        };
    }
    sum
}

/// The multiple that a digit of each lane stands for.
#[inline(always)]
fn digits<L: Lanes>(
    f: L,
    scalars: &[[Half; 2]; WIDTH_MAX],
    half: usize,
    window: usize,
    multiples: &[Addend<L::Element>; MULTIPLES],
) -> Addend<L::Element> {
    let (mut lanes, mut negative) = ([0_u32; MULTIPLES], 0);
    for (lane, halves) in scalars[..L::WIDTH].iter().enumerate() {
        let recoded = halves[half].magnitude >> 1 | 1 << 127;
        // The digit is 2 * value - 15.
        let value = usize::from((recoded >> (BITS * window)).to_le_bytes()[0] & 15);
        let is_below = value < MULTIPLES;
        lanes[if is_below { MULTIPLES - 1 - value } else { value - MULTIPLES }] |= 1 << lane;
        negative |= u32::from(is_below != halves[half].is_negative) << lane;
    }
    let Addend { mut x, mut w } = multiples[0];
    for at in 1..MULTIPLES {
        x = f.select(lanes[at], &multiples[at].x, &x);
        w = f.select(lanes[at], &multiples[at].w, &w);
    }
    Addend { x, w: f.select(negative, &curve::negate(f, &w), &w) }
}
