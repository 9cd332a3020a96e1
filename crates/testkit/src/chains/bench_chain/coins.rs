//! The bounded pool of coins that may be spent.

use birdhouse_regtest::rng::Rng;

use super::scripts::ScriptId;

/// An output that may be spent. It has 56 bytes, because there are millions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coin {
    pub(super) txid: [u8; 32],
    pub(super) vout: u32,
    pub(super) script: ScriptId,
    pub(super) value: u64,
    /// Height of its block.
    pub(super) height: u32,
    pub(super) is_coinbase: bool,
}

const _: () = assert!(size_of::<Coin>() == 56);

/// Number of newest coins from which one spent coin in five is taken.
const RECENT: usize = 2000;

pub(super) struct Coins {
    pool: Vec<Coin>,
    max: usize,
}

impl Coins {
    pub(super) fn new(max: usize) -> Self {
        Self { pool: Vec::new(), max }
    }

    pub(super) fn len(&self) -> usize {
        self.pool.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pool.is_empty()
    }

    /// Adds a coin. From a full pool a random coin is removed first, and is never spent.
    pub(super) fn add(&mut self, coin: Coin, rng: &mut Rng) {
        if self.pool.len() == self.max {
            let out = rng.index(self.max);
            self.pool.swap_remove(out);
        }
        self.pool.push(coin);
    }

    /// Removes and returns a random coin; the pool must not be empty.
    pub(super) fn take(&mut self, rng: &mut Rng) -> Coin {
        let len = self.pool.len();
        let index = if rng.per_mille(200) { len - 1 - rng.index(len.min(RECENT)) } else { rng.index(len) };
        self.pool.swap_remove(index)
    }
}
