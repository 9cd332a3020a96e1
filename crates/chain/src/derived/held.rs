//! Records of blocks that come in any order, held back until they follow each other. Pure.

use std::collections::BTreeMap;

use super::Records;
use super::index::PIECE_BLOCKS;

/// Bytes of records that one derived index holds back while the first build reads blocks.
const HELD_BYTES_MAX: usize = 128 << 20;
/// Pieces of [`PIECE_BLOCKS`] heights over which the blocks that are held back may spread.
const HELD_PIECES_MAX: u32 = 1024;
/// Bytes of memory of a block beside its records, about.
const BLOCK_BYTES: usize = 128;

/// Bounds of what is held back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) bytes: usize,
    pub(super) pieces: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: HELD_BYTES_MAX, pieces: HELD_PIECES_MAX }
    }
}

/// Blocks that wait for those before them.
///
/// Beyond its bounds the highest blocks are given up, and none above them is taken any more: whoever follows the chain
/// later computes them.
#[derive(Debug)]
pub(super) struct Held {
    bounds: Bounds,
    /// Height of the first block that was not taken out yet.
    next: u32,
    /// Height after the last block that follows it without a gap.
    ready: u32,
    /// Height from which no block is taken.
    end: u32,
    bytes: usize,
    blocks: BTreeMap<u32, Records>,
}

/// The least that [`Held::take_piece`] takes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Least {
    Piece,
    Block,
}

impl Held {
    /// Holds nothing, and takes blocks from `next` on.
    pub(super) fn new(next: u32, bounds: Bounds) -> Self {
        Self { bounds, next, ready: next, end: u32::MAX, bytes: 0, blocks: BTreeMap::new() }
    }

    /// True if the records of the block at a height are wanted.
    pub(super) fn wants(&self, height: u32) -> bool {
        (self.next..self.end).contains(&height)
    }

    /// Height of the first block that was not taken out yet.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// True if a bound was exceeded.
    pub(super) fn has_given_up(&self) -> bool {
        self.end < u32::MAX
    }

    /// Gives up all blocks.
    pub(super) fn give_up(&mut self) {
        self.end = self.next;
        self.blocks.clear();
        self.bytes = 0;
    }

    /// Adds the records of a block.
    pub(super) fn insert(&mut self, height: u32, records: Records) {
        if !self.wants(height) {
            return;
        }
        self.bytes += bytes(&records);
        self.bytes -= self.blocks.insert(height, records).as_ref().map_or(0, bytes);
        while self.blocks.contains_key(&self.ready) {
            self.ready += 1;
        }
        while let Some((highest, _)) = self.blocks.last_key_value()
            && (self.bytes > self.bounds.bytes || highest - self.next >= self.bounds.pieces * PIECE_BLOCKS)
        {
            let (highest, records) = self.blocks.pop_last().expect("there is one");
            self.bytes -= bytes(&records);
            self.end = highest;
            self.ready = self.ready.min(highest);
        }
    }

    /// Takes out the first blocks that follow each other, [`PIECE_BLOCKS`] at most, with the height of the first one;
    /// `None` if there are fewer than `least`.
    pub(super) fn take_piece(&mut self, least: Least) -> Option<(u32, Vec<Records>)> {
        let first = self.next;
        let end = self.ready.min(first + PIECE_BLOCKS);
        let is_enough = match least {
            Least::Piece => end - first == PIECE_BLOCKS,
            Least::Block => end > first,
        };
        if !is_enough {
            return None;
        }
        let rest = self.blocks.split_off(&end);
        let piece: Vec<Records> = std::mem::replace(&mut self.blocks, rest).into_values().collect();
        self.bytes -= piece.iter().map(bytes).sum::<usize>();
        self.next = end;
        Some((first, piece))
    }
}

/// Bytes of memory of the records of a block, about.
fn bytes(records: &Records) -> usize {
    BLOCK_BYTES + records.0.iter().map(Vec::len).sum::<usize>()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_testkit::rng::{Rng, rounds};

    use super::*;

    fn records(height: u32) -> Records {
        Records::new([height.to_le_bytes().to_vec()])
    }

    #[test]
    fn blocks_in_any_order_come_out_in_that_of_the_chain_as_far_as_they_fit() {
        for seed in rounds(300) {
            let mut rng = Rng::new(seed);
            let mut below = |limit: u64| u32::try_from(rng.below(limit)).unwrap();
            let (first, len) = (below(10), below(3000));
            let bounds = match below(3) {
                0 => Bounds::default(),
                1 => Bounds { bytes: 1 + 100 * below(4000) as usize, ..Bounds::default() },
                _ => Bounds { pieces: 1 + below(4), ..Bounds::default() },
            };
            let mut heights: Vec<u32> = (0..first + len).collect();
            let (stripe, mixed) = (1 + below(400) as usize, below(2) == 0);
            for chunk in heights.chunks_mut(if mixed { stripe } else { usize::MAX }) {
                (1..chunk.len()).rev().for_each(|at| chunk.swap(at, below(at as u64 + 1) as usize));
            }
            let (mut held, mut out) = (Held::new(first, bounds), Vec::new());
            for height in heights {
                held.insert(height, records(height));
                assert!(held.bytes <= bounds.bytes, "seed {seed}");
                assert!(held.blocks.keys().all(|height| held.wants(*height)), "seed {seed}");
                while let Some((at, piece)) = held.take_piece(Least::Piece) {
                    assert_eq!((at as usize, piece.len()), (first as usize + out.len(), PIECE_BLOCKS as usize));
                    out.extend(piece);
                }
            }
            while let Some((at, piece)) = held.take_piece(Least::Block) {
                assert_eq!(at as usize, first as usize + out.len(), "seed {seed}");
                out.extend(piece);
            }
            let expected: Vec<Records> = (first..).take(out.len()).map(records).collect();
            assert_eq!(out, expected, "seed {seed}");
            assert!(held.has_given_up() || out.len() == len as usize, "seed {seed}: {} of {len}", out.len());
            assert!(!held.has_given_up() || out.len() <= len as usize, "seed {seed}");
        }
    }
}
