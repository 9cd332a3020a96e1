//! The blocks that a subscription has scanned. Pure.
//!
//! Some of their hashes show how far they are still those of the chain: of the last ten blocks, and then at distances
//! that double. After a reorg scanning goes on above the last of these that both chains share, so at most twice the
//! depth of the reorg is scanned again.

use bitcoin::BlockHash;

/// Blocks whose hashes are all kept.
const DENSE: u32 = 10;

/// The first block that was not scanned, and the chain that it follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    next: u32,
    /// Heights below `next` with their hashes, descending.
    below: Vec<(u32, BlockHash)>,
}

impl Cursor {
    /// Begins at a height; nothing below it was scanned.
    pub(crate) fn new(next: u32) -> Self {
        Self { next, below: Vec::new() }
    }

    /// Begins after a block with this hash.
    pub(crate) fn after(height: u32, hash: BlockHash) -> Self {
        Self { next: height + 1, below: vec![(height, hash)] }
    }

    /// Everything below `next` was scanned, on the chain that has these hashes.
    pub(crate) fn at(next: u32, hash_at: impl Fn(u32) -> Option<BlockHash>) -> Self {
        let (mut below, mut distance) = (Vec::new(), 1);
        while let Some(height) = next.checked_sub(distance) {
            below.extend(hash_at(height).map(|hash| (height, hash)));
            distance = if distance < DENSE { distance + 1 } else { distance.saturating_mul(2) };
        }
        Self { next, below }
    }

    /// Returns the first height that was not scanned on the chain that has these hashes; `least` if nothing known is
    /// shared.
    pub(crate) fn next_on(&self, least: u32, hash_at: impl Fn(u32) -> Option<BlockHash>) -> u32 {
        if self.below.is_empty() {
            return self.next;
        }
        let shared = self.below.iter().find(|(height, hash)| hash_at(*height) == Some(*hash));
        shared.map_or(least, |(height, _)| height + 1)
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash as _;

    use super::*;

    /// The hash at a height of a chain of this length, which left chain 0 at a height.
    fn hash(len: u32, left_at: u32, height: u32) -> Option<BlockHash> {
        let chain = u8::from(height >= left_at);
        let mut bytes = [chain; 32];
        bytes[..4].copy_from_slice(&height.to_be_bytes());
        (height < len).then(|| BlockHash::from_byte_array(bytes))
    }

    #[test]
    fn scanning_goes_on_above_what_both_chains_share_at_most_twice_as_deep() {
        for next in [1, 2, 9, 10, 11, 12, 200, 5000] {
            let cursor = Cursor::at(next, |height| hash(next, u32::MAX, height));
            assert!(cursor.below.len() < 25, "{next}");
            for fork in 0..=next {
                for len in [fork, fork + 1, next, next + 3] {
                    let goes_on = cursor.next_on(0, |height| hash(len, fork, height));
                    assert!(goes_on <= fork, "{next} {fork}");
                    let depth = next - fork;
                    let again = next - goes_on;
                    assert!(again <= depth.max((2 * depth).saturating_sub(1)), "{next} {fork}: {again} blocks again");
                }
            }
        }
    }

    #[test]
    fn nothing_was_scanned_below_the_beginning() {
        let cursor = Cursor::new(700);
        assert_eq!(cursor.next_on(0, |_| None), 700);
        let cursor = Cursor::at(0, |height| hash(9, u32::MAX, height));
        assert_eq!(cursor.next_on(5, |height| hash(9, 0, height)), 0);
    }

    #[test]
    fn a_cursor_after_a_block_goes_on_above_it_or_begins_anew() {
        let cursor = Cursor::after(5, hash(10, 100, 5).expect("a block of the chain"));
        assert_eq!(cursor.next_on(5, |height| hash(10, 100, height)), 6);
        assert_eq!(cursor.next_on(5, |height| hash(10, 6, height)), 6);
        assert_eq!(cursor.next_on(5, |height| hash(10, 4, height)), 5);
    }
}
