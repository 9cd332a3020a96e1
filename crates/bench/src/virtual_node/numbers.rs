//! Numbers of a made-up chain: keyed hashes, permutations with their inverse, and running numbers over epochs.

use birdhouse_testkit::rng::mix;

/// An odd number, by which multiplication is a bijection of 64-bit numbers, and its inverse.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR_INVERSE: u64 = inverse(FACTOR);

/// Returns the number by which the product with an odd `factor` is 1 modulo 2^64 (Newton's iteration).
const fn inverse(factor: u64) -> u64 {
    let mut inverse = factor;
    let mut step = 0;
    while step < 6 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(factor.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// Returns a number that depends on both.
pub(super) fn keyed(key: u64, number: u64) -> u64 {
    mix(key ^ number.wrapping_mul(FACTOR))
}

/// A shuffle of the numbers below a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Permutation {
    bits: u32,
    key: u64,
}

impl Permutation {
    /// Makes the shuffle of the numbers below 2^`bits`. Each key gives another one.
    pub(super) fn new(bits: u32, key: u64) -> Self {
        Self { bits, key }
    }

    /// Returns where `number` goes.
    pub(super) fn apply(self, number: u64) -> u64 {
        let once = self.fold(self.cut((number ^ self.cut(self.key)).wrapping_mul(FACTOR)));
        self.fold(self.cut(once.wrapping_add(self.key).wrapping_mul(FACTOR)))
    }

    /// Returns the number that goes to `place`.
    pub(super) fn invert(self, place: u64) -> u64 {
        let once = self.cut(self.fold(place).wrapping_mul(FACTOR_INVERSE).wrapping_sub(self.key));
        self.cut(self.fold(once).wrapping_mul(FACTOR_INVERSE)) ^ self.cut(self.key)
    }

    /// Mixes the upper half into the lower one; its own inverse.
    fn fold(self, number: u64) -> u64 {
        number ^ (number >> self.bits.div_ceil(2).max(1))
    }

    fn cut(self, number: u64) -> u64 {
        number & ((1 << self.bits) - 1)
    }
}

/// Running numbers of items of which each cell of an epoch has the same count.
#[derive(Debug, Clone)]
pub(super) struct Running {
    steps: Vec<Step>,
    /// The number after the last.
    end: u64,
}

/// The running numbers of an epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// The number of its first item.
    pub(super) first: u64,
    first_cell: u64,
    /// Items of a cell.
    pub(super) in_cell: u64,
}

/// An item's place: its epoch and cell, and its index among those of the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InCell {
    pub(super) epoch: usize,
    pub(super) cell: u64,
    pub(super) index: usize,
}

impl Running {
    /// Counts from `first` on, over epochs with these numbers of cells and of items a cell.
    pub(super) fn over(first: u64, epochs: impl Iterator<Item = (u64, u64)>) -> Self {
        let (mut next, mut first_cell, mut steps) = (first, 0, Vec::new());
        for (cells, in_cell) in epochs {
            steps.push(Step { first: next, first_cell, in_cell });
            next += cells * in_cell;
            first_cell += cells;
        }
        Self { steps, end: next }
    }

    /// Returns the number of an item.
    pub(super) fn number(&self, place: InCell) -> u64 {
        let step = self.steps[place.epoch];
        step.first + (place.cell - step.first_cell) * step.in_cell + place.index as u64
    }

    /// Returns the place of an item; `None` for a number before the first or after the last.
    pub(super) fn place(&self, number: u64) -> Option<InCell> {
        if number >= self.end || number < self.steps.first()?.first {
            return None;
        }
        // Epochs are few. One without items has no number of its own.
        let epoch = self.steps.iter().rposition(|step| step.first <= number && step.in_cell > 0)?;
        let Step { first, first_cell, in_cell } = self.steps[epoch];
        let index = usize::try_from((number - first) % in_cell).expect("a cell has few items");
        Some(InCell { epoch, cell: first_cell + (number - first) / in_cell, index })
    }

    /// Returns the number after the last.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the first number of each epoch, and the items of each of its cells.
    pub(super) fn epochs(&self) -> &[Step] {
        &self.steps
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_permutation_reaches_every_number_once_and_goes_back() {
        for bits in 0..12 {
            for key in [0, 1, 0x1234_5678_9abc_def0, u64::MAX] {
                let permutation = Permutation::new(bits, key);
                let reached: BTreeSet<u64> = (0..1 << bits).map(|number| permutation.apply(number)).collect();
                assert!(reached.into_iter().eq(0..1 << bits), "{bits} bits");
                assert!((0..1 << bits).all(|number| permutation.invert(permutation.apply(number)) == number));
            }
        }
        let wide = Permutation::new(40, 77);
        assert!((0..1000).map(|step| step * 1_000_000_007).all(|number| wide.invert(wide.apply(number)) == number));
    }

    #[test]
    fn running_numbers_find_their_cell_over_epochs() {
        let running = Running::over(100, [(3, 2), (5, 0), (4, 7)].into_iter());
        assert_eq!(running.end(), 100 + 6 + 28);
        assert!(running.place(99).is_none() && running.place(134).is_none());
        let mut places = Vec::new();
        for number in 100..134 {
            let place = running.place(number).expect("it is within");
            assert_eq!(running.number(place), number);
            places.push((place.cell, place.index));
        }
        let expected = (0..3).flat_map(|cell| [(cell, 0), (cell, 1)]);
        let expected = expected.chain((8..12).flat_map(|cell| (0..7).map(move |index| (cell, index))));
        assert!(places.into_iter().eq(expected));
    }
}
