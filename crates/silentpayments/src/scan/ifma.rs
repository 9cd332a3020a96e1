//! Instructions that not every x86-64 has: eight lanes by AVX-512 IFMA, where a limb of eight elements is a register,
//! and BMI2 for one lane. The only file of the crate with `unsafe`.
//!
//! The multiplication of IFMA reads 52 bits of a factor and drops what lies above, so every element is reduced.
//!
//! Safety: the instructions of lanes belong to AVX-512 F and IFMA. A value of [`Ifma`] exists only if the processor has
//! both, and every function that uses them takes such a value. Memory is read and written through arrays of the
//! registers' size.

use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_cmpeq_epi64_mask, _mm512_loadu_si512, _mm512_madd52hi_epu64,
    _mm512_madd52lo_epu64, _mm512_mask_blend_epi64, _mm512_or_si512, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_slli_epi64, _mm512_srli_epi64, _mm512_storeu_si512, _mm512_sub_epi64, _mm512_xor_si512,
};

use crate::scan::field::{FOLD, FOLD_LIMB, MASK, PRIME_LIMBS, TOP, primes};
use crate::scan::lanes::{Job, Lanes, Limbs};

/// Eight lanes.
#[derive(Clone, Copy)]
pub(super) struct Ifma(());

type Registers = [__m512i; 5];

impl Ifma {
    /// The lanes, if the processor has them.
    pub(super) fn detect() -> Option<Self> {
        let is_there = std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512ifma");
        is_there.then_some(Self(()))
    }
}

/// Calls instructions of the lanes.
macro_rules! on {
    ($lanes:expr, $work:expr) => {{
        let Ifma(()) = $lanes;
        // SAFETY: the processor has the instructions, for a value of `Ifma` exists.
        unsafe { $work }
    }};
}

/// Runs a job of one lane; with BMI2, where the processor has it: its multiplication leaves the carry alone, which
/// makes a row a tenth quicker.
pub(super) fn run_with_bmi2<J: Job>(job: J) -> J::Output {
    #[target_feature(enable = "bmi2")]
    fn compiled_for_bmi2<J: Job>(job: J) -> J::Output {
        job.run()
    }
    if std::is_x86_feature_detected!("bmi2") {
        // SAFETY: the processor has the instructions.
        unsafe { compiled_for_bmi2(job) }
    } else {
        job.run()
    }
}

impl Lanes for Ifma {
    const WIDTH: usize = 8;
    type Element = Registers;

    #[inline(always)]
    fn run<J: Job>(self, job: J) -> J::Output {
        #[target_feature(enable = "avx512f,avx512ifma")]
        fn compiled_for_lanes<J: Job>(job: J) -> J::Output {
            job.run()
        }
        on!(self, compiled_for_lanes(job))
    }

    #[inline(always)]
    fn load<'a>(self, limbs: impl Fn(usize) -> &'a Limbs) -> Registers {
        let mut columns = [[0_u64; 8]; 5];
        for lane in 0..8 {
            for (column, limb) in columns.iter_mut().zip(limbs(lane)) {
                column[lane] = *limb;
            }
        }
        let mut loaded = [self.number(0); 5];
        for (loaded, column) in loaded.iter_mut().zip(&columns) {
            // SAFETY: the array has the 64 bytes that a load reads, which needs no alignment; for the rest see `on`.
            *loaded = on!(self, _mm512_loadu_si512(column.as_ptr().cast()));
        }
        loaded
    }

    #[inline(always)]
    fn store(self, element: &Registers, limbs: &mut [Limbs]) {
        for (at, register) in element.iter().enumerate() {
            let mut column = [0_u64; 8];
            // SAFETY: the array has the 64 bytes that a store writes, which needs no alignment; for the rest see `on`.
            on!(self, _mm512_storeu_si512(column.as_mut_ptr().cast(), *register));
            for (limbs, limb) in limbs.iter_mut().zip(column) {
                limbs[at] = limb;
            }
        }
    }

    #[inline(always)]
    fn splat(self, limbs: &Limbs) -> Registers {
        let mut all = [self.number(0); 5];
        for (all, limb) in all.iter_mut().zip(limbs) {
            *all = self.number(*limb);
        }
        all
    }

    #[inline(always)]
    fn multiply(self, a: &Registers, b: &Registers) -> Registers {
        let mut columns = [self.number(0); 10];
        for (i, a) in a.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                columns[i + j] = self.low(columns[i + j], *a, *b);
                columns[i + j + 1] = self.high(columns[i + j + 1], *a, *b);
            }
        }
        self.fold(columns)
    }

    #[inline(always)]
    fn square(self, a: &Registers) -> Registers {
        let mut columns = [self.number(0); 10];
        for i in 0..5 {
            for j in i + 1..5 {
                columns[i + j] = self.low(columns[i + j], a[i], a[j]);
                columns[i + j + 1] = self.high(columns[i + j + 1], a[i], a[j]);
            }
        }
        for (at, column) in columns.iter_mut().enumerate() {
            let half = a[at / 2];
            let doubled = self.add(*column, *column);
            *column = if at % 2 == 0 { self.low(doubled, half, half) } else { self.high(doubled, half, half) };
        }
        self.fold(columns)
    }

    #[inline(always)]
    fn sum<const A: u64, const B: u64, const C: u64>(self, a: &Registers, b: &Registers, c: &Registers) -> Registers {
        let primes = const { primes(B + C + 1) };
        let mut limbs = [self.number(0); 5];
        for at in 0..5 {
            limbs[at] = self.times::<A>(a[at]);
            if B + C > 0 {
                limbs[at] = self.add(limbs[at], self.number(primes[at]));
            }
            limbs[at] = self.subtract(self.subtract(limbs[at], self.times::<B>(b[at])), self.times::<C>(c[at]));
        }
        self.reduce(limbs)
    }

    #[inline(always)]
    fn zeros(self, a: &Registers) -> u32 {
        // A reduced zero is zero or the prime.
        u32::from(self.equals(a, &[0; 5]) | self.equals(a, &PRIME_LIMBS))
    }

    #[inline(always)]
    fn select(self, mask: u32, yes: &Registers, no: &Registers) -> Registers {
        let [mask, ..] = mask.to_le_bytes();
        let mut selected = *no;
        for (no, yes) in selected.iter_mut().zip(yes) {
            *no = on!(self, _mm512_mask_blend_epi64(mask, *no, *yes));
        }
        selected
    }
}

impl Ifma {
    #[inline(always)]
    fn number(self, number: u64) -> __m512i {
        if number == 0 { on!(self, _mm512_setzero_si512()) } else { on!(self, _mm512_set1_epi64(number.cast_signed())) }
    }

    /// The lanes with these limbs.
    #[inline(always)]
    fn equals(self, a: &Registers, limbs: &Limbs) -> u8 {
        let mut differences = self.number(0);
        for (a, limb) in a.iter().zip(limbs) {
            let difference = on!(self, _mm512_xor_si512(*a, self.number(*limb)));
            differences = on!(self, _mm512_or_si512(differences, difference));
        }
        on!(self, _mm512_cmpeq_epi64_mask(differences, self.number(0)))
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        on!(self, _mm512_add_epi64(a, b))
    }

    #[inline(always)]
    fn subtract(self, a: __m512i, b: __m512i) -> __m512i {
        on!(self, _mm512_sub_epi64(a, b))
    }

    /// `sum` plus the low 52 bits of a product of 52 bits each.
    #[inline(always)]
    fn low(self, sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        on!(self, _mm512_madd52lo_epu64(sum, a, b))
    }

    /// `sum` plus the high 52 bits of a product of 52 bits each.
    #[inline(always)]
    fn high(self, sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        on!(self, _mm512_madd52hi_epu64(sum, a, b))
    }

    #[inline(always)]
    fn and(self, a: __m512i, mask: u64) -> __m512i {
        on!(self, _mm512_and_si512(a, self.number(mask)))
    }

    #[inline(always)]
    fn shift<const BITS: u32>(self, a: __m512i) -> __m512i {
        on!(self, _mm512_srli_epi64::<BITS>(a))
    }

    /// A small multiple by shifts: the multiplication would drop high bits.
    #[inline(always)]
    fn times<const N: u64>(self, a: __m512i) -> __m512i {
        const { assert!(matches!(N, 0 | 1 | 2 | 3 | 4 | 8)) };
        match N {
            0 => self.number(0),
            1 => a,
            2 => on!(self, _mm512_slli_epi64::<1>(a)),
            3 => self.add(a, on!(self, _mm512_slli_epi64::<1>(a))),
            4 => on!(self, _mm512_slli_epi64::<2>(a)),
            _ => on!(self, _mm512_slli_epi64::<3>(a)),
        }
    }

    /// Reduces limbs below 2^62.
    #[inline(always)]
    fn reduce(self, mut limbs: Registers) -> Registers {
        let above = self.shift::<48>(limbs[4]);
        limbs[4] = self.and(limbs[4], TOP);
        limbs[0] = self.low(limbs[0], above, self.number(FOLD));
        for at in 0..4 {
            limbs[at + 1] = self.add(limbs[at + 1], self.shift::<52>(limbs[at]));
            limbs[at] = self.and(limbs[at], MASK);
        }
        limbs
    }

    /// Reduces the columns of a product. Each is the sum of at most ten numbers of 52 bits.
    #[inline(always)]
    fn fold(self, mut columns: [__m512i; 10]) -> Registers {
        let fold = self.number(FOLD_LIMB);
        for at in 5..9 {
            columns[at + 1] = self.add(columns[at + 1], self.shift::<52>(columns[at]));
            columns[at] = self.and(columns[at], MASK);
        }
        // The product is below 2^514, so the last column is below 2^46 and its high part below 2^31.
        let above = self.high(self.number(0), columns[9], fold);
        for at in 0..5 {
            columns[at] = self.low(columns[at], columns[at + 5], fold);
        }
        for at in 1..5 {
            columns[at] = self.high(columns[at], columns[at + 4], fold);
        }
        columns[0] = self.low(columns[0], above, fold);
        columns[1] = self.high(columns[1], above, fold);
        let [a, b, c, d, e, ..] = columns;
        self.reduce([a, b, c, d, e])
    }
}
