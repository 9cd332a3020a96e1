//! Candidates of many rows at once, in lanes.
//!
//! Inversions are shared: Montgomery's trick makes one of all groups of lanes. An element that is zero would spoil all
//! of them. Only the spend key and the labels, which a client chooses, can make one: such lanes get a one instead, and
//! their rows are computed again with complete formulas.

use crate::scan::curve::{self, Addend, Affine, Jacobian};
use crate::scan::field::{ONE, canonical, limbs};
use crate::scan::lanes::{Job, Lanes, Limbs, WIDTH_MAX};
use crate::scan::number::{self, Number, ORDER, PRIME};
use crate::scan::schedule::{MULTIPLES, Schedule};
use crate::scan::table::{LOW_WINDOWS, Recoded, Table};
use crate::tagged;
use crate::transaction::TWEAK_BYTES;

/// Groups of lanes that share inversions.
const GROUPS: usize = 64;

/// A scan key, prepared.
pub(super) struct Prepared {
    pub(super) schedule: Schedule,
    /// The multiples of the highest window with the spend key.
    pub(super) top: Vec<Addend<Limbs>>,
    pub(super) labels: Vec<Affine<Limbs>>,
}

/// The x coordinates of candidates, some for each row.
pub(super) struct Candidates {
    /// By row: without a label, then of each label. Rows that must be computed again have any values here.
    pub(super) x: Vec<Number>,
    /// Rows that met an exception of the formulas.
    pub(super) exceptions: Vec<usize>,
}

/// Memory of a batch.
struct Scratch<E> {
    multiples: Vec<[Affine<E>; MULTIPLES]>,
    doubles: Vec<Affine<E>>,
    points: Vec<Jacobian<E>>,
    elements: Vec<E>,
    products: Vec<E>,
}

/// The computation of candidates.
pub(super) struct Batches<'a, L> {
    pub(super) lanes: L,
    pub(super) table: &'a Table,
    pub(super) prepared: &'a Prepared,
    pub(super) tweaks: &'a [&'a [u8; TWEAK_BYTES]],
}

impl<L: Lanes> Job for Batches<'_, L> {
    /// An error is the number of a tweak that is not a point.
    type Output = Result<Candidates, usize>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let each = 1 + self.prepared.labels.len();
        let mut found = Candidates { x: vec![[0; 4]; each * self.tweaks.len()], exceptions: Vec::new() };
        let groups = GROUPS.min(self.tweaks.len().div_ceil(L::WIDTH));
        let zero = self.lanes.splat(&[0; 5]);
        let point = Affine { x: zero, y: zero };
        let mut scratch = Scratch {
            multiples: vec![[point; MULTIPLES]; groups],
            doubles: vec![point; groups],
            points: vec![Jacobian { x: zero, w: zero, z: zero }; groups],
            elements: vec![zero; groups],
            products: Vec::with_capacity(groups * each),
        };
        let rows = groups * L::WIDTH;
        for (at, tweaks) in self.tweaks.chunks(rows.max(1)).enumerate() {
            let batch = Batch { job: &self, tweaks, groups: tweaks.len().div_ceil(L::WIDTH) };
            let from = at * rows;
            batch.run(&mut scratch, &mut found, from).map_err(|row| from + row)?;
        }
        Ok(found)
    }
}

/// The rows that share inversions.
struct Batch<'a, L> {
    job: &'a Batches<'a, L>,
    tweaks: &'a [&'a [u8; TWEAK_BYTES]],
    groups: usize,
}

impl<L: Lanes> Batch<'_, L> {
    #[inline(always)]
    fn run(&self, scratch: &mut Scratch<L::Element>, found: &mut Candidates, from: usize) -> Result<(), usize> {
        let f = self.job.lanes;
        self.read(scratch)?;
        self.odd_multiples(scratch);
        for group in 0..self.groups {
            scratch.points[group] = curve::multiply(f, &self.job.prepared.schedule, &scratch.multiples[group]);
        }
        let scalars = self.hash(scratch, found, from);
        self.candidates(scratch, &scalars, found, from);
        Ok(())
    }

    /// Reads tweaks; lanes without a row of their own repeat the last one.
    #[inline(always)]
    fn read(&self, scratch: &mut Scratch<L::Element>) -> Result<(), usize> {
        let f = self.job.lanes;
        for group in 0..self.groups {
            let mut x = [[0; 5]; WIDTH_MAX];
            let (mut bad, mut odd) = (0, 0);
            for (lane, x) in x[..L::WIDTH].iter_mut().enumerate() {
                let [parity, bytes @ ..] = self.tweaks[(group * L::WIDTH + lane).min(self.tweaks.len() - 1)];
                let number = number::from_be_bytes(bytes);
                bad |= u32::from(!matches!(parity, 2 | 3) || !number::is_below(&number, &PRIME)) << lane;
                odd |= u32::from(parity & 1) << lane;
                *x = limbs(&number);
            }
            let x = f.load(|lane| &x[lane]);
            let (y, without) = curve::lift(f, &x);
            if bad | without != 0 {
                let lane = (bad | without).trailing_zeros() as usize;
                return Err((group * L::WIDTH + lane).min(self.tweaks.len() - 1));
            }
            let mut lanes = [[0; 5]; WIDTH_MAX];
            f.store(&y, &mut lanes[..L::WIDTH]);
            let is_odd = |lane: usize| u32::try_from(canonical(&lanes[lane])[0] & 1).expect("one bit");
            let roots: u32 = (0..L::WIDTH).map(|lane| is_odd(lane) << lane).sum();
            scratch.multiples[group][0] = Affine { x, y: f.select(roots ^ odd, &curve::negate(f, &y), &y) };
        }
        Ok(())
    }

    /// The multiples 3, 5, .., 15 of each tweak. No sum is an exception: a tweak has the order of the curve.
    #[inline(always)]
    fn odd_multiples(&self, scratch: &mut Scratch<L::Element>) {
        let f = self.job.lanes;
        let Scratch { multiples, doubles, elements, products, .. } = scratch;
        let (multiples, elements) = (&mut multiples[..self.groups], &mut elements[..self.groups]);
        for (element, multiples) in elements.iter_mut().zip(multiples.iter()) {
            let y = &multiples[0].y;
            *element = f.sum::<2, 0, 0>(y, y, y);
        }
        curve::invert_all(f, elements, products);
        for group in 0..self.groups {
            doubles[group] = curve::double_affine(f, &multiples[group][0], &elements[group]);
        }
        for at in 1..MULTIPLES {
            for group in 0..self.groups {
                let last = &multiples[group][at - 1].x;
                elements[group] = f.sum::<1, 1, 0>(&doubles[group].x, last, last);
            }
            curve::invert_all(f, elements, products);
            for group in 0..self.groups {
                let last = multiples[group][at - 1];
                multiples[group][at] = curve::add_affine(f, &last, &doubles[group], &elements[group]);
            }
        }
    }

    /// Hashes the shared secrets: the scalar of output 0 of each row, recoded.
    #[inline(always)]
    fn hash(&self, scratch: &mut Scratch<L::Element>, found: &mut Candidates, from: usize) -> Vec<Recoded> {
        let f = self.job.lanes;
        let Scratch { points, elements, products, .. } = scratch;
        let elements = &mut elements[..self.groups];
        for (element, point) in elements.iter_mut().zip(points.iter()) {
            *element = curve::twice_z(f, point);
        }
        curve::invert_all(f, elements, products);
        let mut scalars = vec![Recoded::default(); self.groups * L::WIDTH];
        for group in 0..self.groups {
            let point = curve::affine(f, &points[group], &elements[group]);
            let (mut x, mut y) = ([[0; 5]; WIDTH_MAX], [[0; 5]; WIDTH_MAX]);
            f.store(&point.x, &mut x[..L::WIDTH]);
            f.store(&point.y, &mut y[..L::WIDTH]);
            for lane in 0..L::WIDTH {
                let row = group * L::WIDTH + lane;
                let scalar = scalar_of(&x[lane], &y[lane]);
                if scalar != [0; 4] && number::is_below(&scalar, &ORDER) {
                    scalars[row] = self.job.table.recode(&scalar);
                } else if row < self.tweaks.len() {
                    found.exceptions.push(from + row);
                }
            }
        }
        scalars
    }

    /// The spend key plus multiples of the generator, then plus labels.
    #[inline(always)]
    fn candidates(&self, scratch: &mut Scratch<L::Element>, scalars: &[Recoded], found: &mut Candidates, from: usize) {
        let f = self.job.lanes;
        let Scratch { points, doubles, elements, products, .. } = scratch;
        let one = f.splat(&ONE);
        let each = 1 + self.job.prepared.labels.len();
        for (group, scalars) in scalars.chunks_exact(L::WIDTH).enumerate() {
            points[group] = self.unlabelled(scalars);
            let z = curve::twice_z(f, &points[group]);
            let zeros = f.zeros(&z);
            self.add_exceptions(zeros, group, found, from);
            elements[group] = f.select(zeros, &one, &z);
        }
        curve::invert_all(f, &mut elements[..self.groups], products);
        for group in 0..self.groups {
            doubles[group] = curve::affine(f, &points[group], &elements[group]);
            self.store(&doubles[group].x, group, &mut found.x[from * each..], 0);
        }
        for (at, label) in (1..).zip(&self.job.prepared.labels) {
            let (x, y) = (f.splat(&label.x), f.splat(&label.y));
            for group in 0..self.groups {
                let point = &doubles[group];
                let difference = f.sum::<1, 1, 0>(&x, &point.x, &point.x);
                let zeros = f.zeros(&difference);
                self.add_exceptions(zeros, group, found, from);
                elements[group] = f.select(zeros, &one, &difference);
            }
            curve::invert_all(f, &mut elements[..self.groups], products);
            for group in 0..self.groups {
                let sum = curve::add_affine(f, &doubles[group], &Affine { x, y }, &elements[group]);
                self.store(&sum.x, group, &mut found.x[from * each..], at);
            }
        }
    }

    /// The candidates without a label of one group.
    #[inline(always)]
    fn unlabelled(&self, scalars: &[Recoded]) -> Jacobian<L::Element> {
        let f = self.job.lanes;
        let top: [&Addend<Limbs>; WIDTH_MAX] =
            std::array::from_fn(|lane| &self.job.prepared.top[scalars[lane % L::WIDTH].top()]);
        let first = Addend { x: f.load(|lane| &top[lane].x), w: f.load(|lane| &top[lane].w) };
        let mut point = first.point(&f.splat(&ONE));
        for window in 0..LOW_WINDOWS {
            let digits: [_; WIDTH_MAX] =
                std::array::from_fn(|lane| self.job.table.digit(&scalars[lane % L::WIDTH], window));
            let (x, w) = (f.load(|lane| &digits[lane].entry.x), f.load(|lane| &digits[lane].entry.w));
            let negative = (0..L::WIDTH).map(|lane| u32::from(digits[lane].is_negative) << lane).sum();
            point = curve::add(f, &point, &Addend { x, w: f.select(negative, &curve::negate(f, &w), &w) });
        }
        point
    }

    #[inline(always)]
    fn add_exceptions(&self, lanes: u32, group: usize, found: &mut Candidates, from: usize) {
        let rows = (0..L::WIDTH).filter(|lane| lanes >> lane & 1 == 1).map(|lane| group * L::WIDTH + lane);
        found.exceptions.extend(rows.filter(|row| *row < self.tweaks.len()).map(|row| from + row));
    }

    /// Stores a candidate of each row of a group.
    #[inline(always)]
    fn store(&self, x: &L::Element, group: usize, found: &mut [Number], candidate: usize) {
        let each = 1 + self.job.prepared.labels.len();
        let mut lanes: [Limbs; WIDTH_MAX] = [[0; 5]; WIDTH_MAX];
        self.job.lanes.store(x, &mut lanes[..L::WIDTH]);
        let rows = group * L::WIDTH..self.tweaks.len().min((group + 1) * L::WIDTH);
        for (row, lane) in rows.zip(&lanes) {
            found[row * each + candidate] = canonical(lane);
        }
    }
}

/// The hash of a shared secret, as a number.
#[inline(always)]
fn scalar_of(x: &Limbs, y: &Limbs) -> Number {
    let mut message = [0; TWEAK_BYTES + 4];
    message[0] = if canonical(y)[0] & 1 == 1 { 3 } else { 2 };
    message[1..TWEAK_BYTES].copy_from_slice(&number::to_be_bytes(&canonical(x)));
    number::from_be_bytes(&tagged::SHARED_SECRET.hash(&message))
}
