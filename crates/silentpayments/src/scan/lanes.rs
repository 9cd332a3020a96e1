//! Arithmetic in the field of the curve on several elements side by side, one a lane.
//!
//! The algorithms above are written once for any number of lanes. Elements have five limbs of 52 bits. *Reduced* limbs
//! are below 2^52, the last one at most a little above 2^48, so that the value is below twice the prime.

/// The limbs of one element, the least significant first.
pub(super) type Limbs = [u64; 5];

/// The most lanes of all implementations: a mask has a bit for each.
pub(super) const WIDTH_MAX: usize = 16;

/// A piece of work that runs on lanes.
pub(super) trait Job {
    type Output;
    /// Implementations are inlined always, so that they are compiled for the processor of their lanes.
    fn run(self) -> Self::Output;
}

/// A way to compute with elements. Every element is reduced.
pub(super) trait Lanes: Copy {
    /// Number of lanes.
    const WIDTH: usize;
    /// An element in each lane.
    type Element: Copy;

    /// Runs a job with the instructions of these lanes.
    fn run<J: Job>(self, job: J) -> J::Output;
    /// Loads reduced limbs, by lane.
    fn load<'a>(self, limbs: impl Fn(usize) -> &'a Limbs) -> Self::Element;
    /// Stores reduced limbs.
    fn store(self, element: &Self::Element, limbs: &mut [Limbs]);
    /// The product.
    fn multiply(self, a: &Self::Element, b: &Self::Element) -> Self::Element;
    /// The square.
    fn square(self, a: &Self::Element) -> Self::Element;
    /// `A * a - B * b - C * c`. The constants are 0, 1, 2, 3, 4 or 8.
    fn sum<const A: u64, const B: u64, const C: u64>(
        self,
        a: &Self::Element,
        b: &Self::Element,
        c: &Self::Element,
    ) -> Self::Element;
    /// The lanes that are zero.
    fn zeros(self, a: &Self::Element) -> u32;
    /// The first element in the lanes of a mask, the second in others.
    fn select(self, mask: u32, yes: &Self::Element, no: &Self::Element) -> Self::Element;

    /// The same element in all lanes.
    #[inline(always)]
    fn splat(self, limbs: &Limbs) -> Self::Element {
        self.load(|_| limbs)
    }

    /// The mask of all lanes.
    #[inline(always)]
    fn all(self) -> u32 {
        (1 << Self::WIDTH) - 1
    }
}

/// Several elements of the same lanes: the processor computes with one while it waits for another.
#[derive(Clone, Copy)]
pub(super) struct Times<L, const N: usize>(pub(super) L);

impl<L: Lanes, const N: usize> Lanes for Times<L, N> {
    const WIDTH: usize = N * L::WIDTH;
    type Element = [L::Element; N];

    #[inline(always)]
    fn run<J: Job>(self, job: J) -> J::Output {
        self.0.run(job)
    }

    // Loops, not closures: a closure is not inlined always, and would be compiled for any processor.
    #[inline(always)]
    fn load<'a>(self, limbs: impl Fn(usize) -> &'a Limbs) -> Self::Element {
        let mut loaded = [self.0.splat(&[0; 5]); N];
        for (at, loaded) in loaded.iter_mut().enumerate() {
            *loaded = self.0.load(|lane| limbs(at * L::WIDTH + lane));
        }
        loaded
    }

    #[inline(always)]
    fn store(self, element: &Self::Element, limbs: &mut [Limbs]) {
        for (element, limbs) in element.iter().zip(limbs.chunks_exact_mut(L::WIDTH)) {
            self.0.store(element, limbs);
        }
    }

    #[inline(always)]
    fn multiply(self, a: &Self::Element, b: &Self::Element) -> Self::Element {
        let mut product = *a;
        for (product, b) in product.iter_mut().zip(b) {
            *product = self.0.multiply(product, b);
        }
        product
    }

    #[inline(always)]
    fn square(self, a: &Self::Element) -> Self::Element {
        let mut square = *a;
        for square in &mut square {
            *square = self.0.square(square);
        }
        square
    }

    #[inline(always)]
    fn sum<const A: u64, const B: u64, const C: u64>(
        self,
        a: &Self::Element,
        b: &Self::Element,
        c: &Self::Element,
    ) -> Self::Element {
        let mut sum = *a;
        for (sum, (b, c)) in sum.iter_mut().zip(b.iter().zip(c)) {
            *sum = self.0.sum::<A, B, C>(sum, b, c);
        }
        sum
    }

    #[inline(always)]
    fn zeros(self, a: &Self::Element) -> u32 {
        let mut zeros = 0;
        for (at, a) in a.iter().enumerate() {
            zeros |= self.0.zeros(a) << (at * L::WIDTH);
        }
        zeros
    }

    #[inline(always)]
    fn select(self, mask: u32, yes: &Self::Element, no: &Self::Element) -> Self::Element {
        let mut selected = *yes;
        for (at, (yes, no)) in selected.iter_mut().zip(no).enumerate() {
            *yes = self.0.select(mask >> (at * L::WIDTH) & self.0.all(), yes, no);
        }
        selected
    }
}
