//! A scan key as all subscriptions to it share it: prepared once, and no block scanned twice for them.

use std::sync::OnceLock;

use birdhouse_chain::Found;
use birdhouse_silentpayments::{Engine, ScanKey, Scanner};
use bitcoin::BlockHash;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

/// A scan key with its labels.
pub(crate) struct SharedKey {
    /// Taken when it is prepared.
    key: Mutex<Option<ScanKey>>,
    scanner: OnceLock<Scanner>,
    /// Held while blocks are scanned: who comes second finds the result.
    pub(crate) known: AsyncMutex<Known>,
}

/// Consecutive blocks that were scanned, and what was found in them.
#[derive(Debug, Default)]
pub(crate) struct Known {
    start: u32,
    end: u32,
    /// Hash of the last of them, which stands for all.
    last: Option<BlockHash>,
    found: Vec<Found>,
}

/// Result for some of the blocks that were asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) found: Vec<Found>,
    /// Height after the last of them.
    pub(crate) end: u32,
}

impl SharedKey {
    pub(super) fn new(key: ScanKey) -> Self {
        Self { key: Mutex::new(Some(key)), scanner: OnceLock::new(), known: AsyncMutex::default() }
    }

    /// Returns the prepared key. The first call takes some milliseconds.
    pub(crate) fn scanner(&self, engine: &Engine) -> &Scanner {
        self.scanner.get_or_init(|| engine.scanner(self.key.lock().take().expect("it is taken once")))
    }
}

impl Known {
    /// Returns what is in the blocks from `height` on and where these end, at `most` at the latest; `None` if the block
    /// there is not known on the chain that has these hashes.
    pub(crate) fn from(&self, height: u32, most: u32, hash_at: impl Fn(u32) -> Option<BlockHash>) -> Option<Part> {
        let is_known = (self.start..self.end).contains(&height) && hash_at(self.end - 1) == self.last;
        let end = self.end.min(most);
        let heights = height..end;
        let found = self.found.iter().filter(|found| found.height.is_some_and(|at| heights.contains(&at.0)));
        is_known.then(|| Part { found: found.copied().collect(), end })
    }

    /// Adds blocks that were scanned, up to one with this hash. Blocks that do not follow replace those before.
    pub(crate) fn add(
        &mut self,
        heights: std::ops::Range<u32>,
        found: &[Found],
        hash_at: impl Fn(u32) -> Option<BlockHash>,
    ) {
        let follows = heights.start == self.end && self.end > 0 && hash_at(self.end - 1) == self.last;
        if !follows {
            (self.start, self.found) = (heights.start, Vec::new());
        }
        self.end = heights.end;
        self.last = heights.end.checked_sub(1).and_then(hash_at);
        self.found.extend_from_slice(found);
    }
}

#[cfg(test)]
mod tests {
    use birdhouse_chain::Height;
    use bitcoin::Txid;
    use bitcoin::hashes::Hash as _;

    use super::*;

    fn found(height: u32) -> Found {
        Found { height: Some(Height(height)), txid: Txid::from_byte_array([1; 32]), tweak: [2; 33] }
    }

    fn hash(chain: u8) -> impl Fn(u32) -> Option<BlockHash> {
        move |height| {
            let mut bytes = [chain; 32];
            bytes[..4].copy_from_slice(&height.to_be_bytes());
            Some(BlockHash::from_byte_array(bytes))
        }
    }

    #[test]
    fn blocks_that_were_scanned_are_known_on_their_chain_alone() {
        let mut known = Known::default();
        assert_eq!(known.from(0, 9, hash(1)), None);
        known.add(5..8, &[found(6)], hash(1));
        known.add(8..12, &[found(8), found(11)], hash(1));
        assert_eq!(known.from(5, 100, hash(1)), Some(Part { found: vec![found(6), found(8), found(11)], end: 12 }));
        assert_eq!(known.from(7, 10, hash(1)), Some(Part { found: vec![found(8)], end: 10 }));
        assert_eq!(known.from(12, 100, hash(1)), None);
        assert_eq!(known.from(4, 100, hash(1)), None);
        assert_eq!(known.from(7, 10, hash(2)), None);
    }

    #[test]
    fn blocks_of_another_chain_or_elsewhere_replace_those_before() {
        let mut known = Known::default();
        known.add(5..8, &[found(6)], hash(1));
        known.add(8..9, &[found(8)], hash(2));
        assert_eq!(known.from(6, 100, hash(2)), None);
        assert_eq!(known.from(8, 100, hash(2)), Some(Part { found: vec![found(8)], end: 9 }));
        known.add(20..21, &[], hash(2));
        assert_eq!(known.from(8, 100, hash(2)), None);
        assert_eq!(known.from(20, 100, hash(2)), Some(Part { found: vec![], end: 21 }));
    }
}
