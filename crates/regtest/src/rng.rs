//! Deterministic random numbers: the same seed gives the same numbers on every machine and in every version.
//!
//! The generator is `SplitMix64` (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014).

use std::ops::Range;

/// A generator of random numbers.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Makes the generator of this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Returns a number below `bound`, which is not 0. The bias of the multiplication is below 2^-32 for bounds below
    /// 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below_u32(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(bound.into())).expect("below a u32")
    }

    /// Returns an index of a list of `len` entries, which is not 0.
    #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns true with this probability, in thousandths.
    pub fn per_mille(&mut self, probability: u64) -> bool {
        self.below(1000) < probability
    }

    /// Returns one of `items`, which is not empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// Returns `N` random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }
}

/// The finaliser of `SplitMix64`: a bijection under which neighbouring inputs have unrelated outputs.
pub fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Returns the rounds of a randomised test: `BIRDHOUSE_ROUNDS` from `BIRDHOUSE_FROM` on, else the first `usual`.
pub fn rounds(usual: u64) -> Range<u64> {
    let first = number("BIRDHOUSE_FROM").unwrap_or(0);
    first..first + number("BIRDHOUSE_ROUNDS").unwrap_or(usual)
}

/// Returns the number in a variable of the environment, which sets the volume or the seed of a randomised test.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_is_that_of_the_reference_implementation() {
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_stay_below_their_bound() {
        let mut rng = Rng::new(7);
        let seen: std::collections::BTreeSet<u64> = (0..1000).map(|_| rng.below(5)).collect();
        assert_eq!(seen, (0..5).collect());
    }
}
