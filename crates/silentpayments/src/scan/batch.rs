//! Candidates of many rows at once, in lanes.
//!
//! All rows of a batch do the same step before the next one, so that affine additions share inversions: then an
//! addition costs half of one with Jacobian coordinates. The doublings of the scan key's multiple would win nothing by
//! that, and each row makes them alone.
//!
//! A zero would spoil the inversions of all. Only the spend key and the labels, which a client chooses, can make one:
//! the rows of such lanes are computed again with complete formulas.

use crate::scan::curve::{self, Affine, Inversions, Jacobian};
use crate::scan::field::{canonical, limbs};
use crate::scan::lanes::{Job, Lanes, Limbs, WIDTH_MAX};
use crate::scan::number::{self, Number, ORDER, PRIME};
use crate::scan::schedule::{MULTIPLES, Schedule};
use crate::scan::table::{LOW_WINDOWS, Recoded, Table};
use crate::tagged;
use crate::transaction::TWEAK_BYTES;

/// Rows that share inversions, of which one costs as much as the additions of fifty rows.
const BATCH_ROWS: usize = 1024;

/// A scan key, prepared.
pub(super) struct Prepared {
    pub(super) schedule: Schedule,
    /// The multiples of the highest window with the spend key.
    pub(super) top: Vec<Affine<Limbs>>,
    pub(super) labels: Vec<Affine<Limbs>>,
}

/// The x coordinates of candidates, some for each row.
pub(super) struct Candidates {
    /// By row: without a label, then of each label. Rows that must be computed again have any values here.
    pub(super) x: Vec<Number>,
    /// Rows that met an exception of the formulas, ascending.
    pub(super) exceptions: Vec<usize>,
}

/// Memory of a batch, by group of lanes.
struct Scratch<E> {
    points: Vec<Affine<E>>,
    addends: Vec<Affine<E>>,
    multiples: Vec<[Affine<E>; MULTIPLES]>,
    secrets: Vec<Jacobian<E>>,
    inversions: Inversions<E>,
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
        let groups = self.tweaks.len().min(BATCH_ROWS).div_ceil(L::WIDTH);
        let mut scratch = Scratch::new(groups, self.lanes.splat(&[0; 5]));
        for (at, tweaks) in self.tweaks.chunks(BATCH_ROWS).enumerate() {
            let from = at * BATCH_ROWS;
            let batch = Batch { job: &self, tweaks, from };
            batch.run(&mut scratch, &mut found).map_err(|row| from + row)?;
        }
        Ok(found)
    }
}

impl<E: Copy> Scratch<E> {
    fn new(groups: usize, any: E) -> Self {
        let point = Affine { x: any, y: any };
        Self {
            points: vec![point; groups],
            addends: vec![point; groups],
            multiples: vec![[point; MULTIPLES]; groups],
            secrets: vec![Jacobian { x: any, w: any, z: any }; groups],
            inversions: Inversions::new(groups, any),
        }
    }

    /// Keeps some groups, without exceptions.
    fn begin(&mut self, groups: usize) {
        self.points.truncate(groups);
        self.addends.truncate(groups);
        self.multiples.truncate(groups);
        self.secrets.truncate(groups);
        self.inversions.exceptions.fill(0);
    }
}

/// The rows that share inversions.
struct Batch<'a, L> {
    job: &'a Batches<'a, L>,
    tweaks: &'a [&'a [u8; TWEAK_BYTES]],
    /// The number of the first row.
    from: usize,
}

impl<L: Lanes> Batch<'_, L> {
    #[inline(always)]
    fn run(&self, scratch: &mut Scratch<L::Element>, found: &mut Candidates) -> Result<(), usize> {
        scratch.begin(self.tweaks.len().div_ceil(L::WIDTH));
        self.read(&mut scratch.points)?;
        let Scratch { points, addends, multiples, inversions, .. } = scratch;
        curve::odd_multiples(self.job.lanes, points, addends, multiples, inversions);
        self.multiply(scratch);
        let scalars = self.hash(scratch);
        self.candidates(scratch, &scalars, found);
        let rows = (0..self.tweaks.len())
            .filter(|row| scratch.inversions.exceptions[row / L::WIDTH] >> (row % L::WIDTH) & 1 == 1);
        found.exceptions.extend(rows.map(|row| self.from + row));
        Ok(())
    }

    /// Reads tweaks; lanes without a row of their own repeat the last one.
    #[inline(always)]
    fn read(&self, points: &mut [Affine<L::Element>]) -> Result<(), usize> {
        let f = self.job.lanes;
        for (group, point) in points.iter_mut().enumerate() {
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
            *point = Affine { x, y: f.select(roots ^ odd, &curve::negate(f, &y), &y) };
        }
        Ok(())
    }

    /// The shared secrets: the scan key times the tweaks.
    #[inline(always)]
    fn multiply(&self, scratch: &mut Scratch<L::Element>) {
        let f = self.job.lanes;
        for (secret, multiples) in scratch.secrets.iter_mut().zip(&scratch.multiples) {
            *secret = curve::multiply(f, &self.job.prepared.schedule, multiples);
        }
        curve::affine_all(f, &scratch.secrets, &mut scratch.points, &mut scratch.inversions);
    }

    /// Hashes the shared secrets: the scalar of output 0 of each row, recoded.
    #[inline(always)]
    fn hash(&self, scratch: &mut Scratch<L::Element>) -> Vec<Recoded> {
        let f = self.job.lanes;
        let mut scalars = vec![Recoded::default(); scratch.points.len() * L::WIDTH];
        for (group, point) in scratch.points.iter().enumerate() {
            let (mut x, mut y) = ([[0; 5]; WIDTH_MAX], [[0; 5]; WIDTH_MAX]);
            f.store(&point.x, &mut x[..L::WIDTH]);
            f.store(&point.y, &mut y[..L::WIDTH]);
            for lane in 0..L::WIDTH {
                let scalar = scalar_of(&x[lane], &y[lane]);
                if scalar != [0; 4] && number::is_below(&scalar, &ORDER) {
                    scalars[group * L::WIDTH + lane] = self.job.table.recode(&scalar);
                } else {
                    scratch.inversions.exceptions[group] |= 1 << lane;
                }
            }
        }
        scalars
    }

    /// The spend key plus multiples of the generator, then plus labels.
    #[inline(always)]
    fn candidates(&self, scratch: &mut Scratch<L::Element>, scalars: &[Recoded], found: &mut Candidates) {
        let f = self.job.lanes;
        let Scratch { points, addends, inversions, .. } = scratch;
        for (point, scalars) in points.iter_mut().zip(scalars.chunks_exact(L::WIDTH)) {
            *point = load(f, |lane| &self.job.prepared.top[scalars[lane].top()]);
        }
        for window in 0..LOW_WINDOWS {
            for (addend, scalars) in addends.iter_mut().zip(scalars.chunks_exact(L::WIDTH)) {
                *addend = self.digits(scalars, window);
            }
            curve::add_all(f, points, addends, inversions);
        }
        self.store(points, found, 0);
        for (at, label) in (1..).zip(&self.job.prepared.labels) {
            addends.fill(load(f, |_| label));
            // The sum of both does not depend on their order.
            curve::add_all(f, addends, points, inversions);
            self.store(addends, found, at);
        }
    }

    /// A digit of each lane's scalar, times its power of two and the generator.
    #[inline(always)]
    fn digits(&self, scalars: &[Recoded], window: usize) -> Affine<L::Element> {
        let f = self.job.lanes;
        let (mut entries, mut negative) = ([&self.job.prepared.top[0]; WIDTH_MAX], 0);
        for (lane, scalar) in scalars.iter().enumerate() {
            let digit = self.job.table.digit(scalar, window);
            entries[lane] = digit.entry;
            negative |= u32::from(digit.is_negative) << lane;
        }
        let Affine { x, y } = load(f, |lane| entries[lane]);
        Affine { x, y: f.select(negative, &curve::negate(f, &y), &y) }
    }

    /// Stores a candidate of each row.
    #[inline(always)]
    fn store(&self, points: &[Affine<L::Element>], found: &mut Candidates, candidate: usize) {
        let each = 1 + self.job.prepared.labels.len();
        for (point, rows) in points.iter().zip(found.x[self.from * each..].chunks_mut(L::WIDTH * each)) {
            let mut lanes: [Limbs; WIDTH_MAX] = [[0; 5]; WIDTH_MAX];
            self.job.lanes.store(&point.x, &mut lanes[..L::WIDTH]);
            for (row, lane) in rows.chunks_exact_mut(each).zip(&lanes) {
                row[candidate] = canonical(lane);
            }
        }
    }
}

/// Loads a point by lane.
#[inline(always)]
fn load<'a, L: Lanes>(f: L, point: impl Fn(usize) -> &'a Affine<Limbs>) -> Affine<L::Element> {
    let mut points: [&Affine<Limbs>; WIDTH_MAX] = [point(0); WIDTH_MAX];
    for (lane, slot) in points[..L::WIDTH].iter_mut().enumerate() {
        *slot = point(lane);
    }
    Affine { x: f.load(|lane| &points[lane].x), y: f.load(|lane| &points[lane].y) }
}

/// The hash of a shared secret, as a number.
#[inline(always)]
fn scalar_of(x: &Limbs, y: &Limbs) -> Number {
    let mut message = [0; TWEAK_BYTES + 4];
    message[..TWEAK_BYTES].copy_from_slice(&curve::compressed(x, y));
    number::from_be_bytes(&tagged::SHARED_SECRET.hash(&message))
}
