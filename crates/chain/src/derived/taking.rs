//! Takes the blocks that the first build reads, so that a derived index need not read them again.
//!
//! The build reads blocks in parallel and in the order of files. Records are computed by the thread that has the block,
//! held back until they follow those that are published, and published in pieces. A derived index that fails here, or
//! lies outside the bounds of `held`, never delays or ends the build: it stays behind, and follows the chain later.
//!
//! Headers of block filters add 21 % to the CPU time of a build, half of what they cost where blocks are read again
//! ("Block filters beside the build" of `BENCHMARKS.md`).

use std::sync::Arc;

use parking_lot::Mutex;

use super::Records;
use super::held::{Bounds, Held, Least};
use super::index::DerivedIndex;
use crate::block::ProvedBlock;
use crate::error::{Error, Result};
use crate::names::Height;
use crate::outside::{BlockId, BlockMeta};

/// One derived index beside a generation of the build.
pub(crate) struct Taking<'a> {
    index: &'a DerivedIndex,
    chain: &'a [BlockMeta],
    state: Mutex<State>,
}

struct State {
    held: Held,
    /// True while a thread publishes a piece.
    is_publishing: bool,
}

impl<'a> Taking<'a> {
    /// Takes blocks of `chain` for each derived index whose records end at or above `start`, the first one that the
    /// build reads.
    pub(crate) fn begin(all: &'a [Arc<DerivedIndex>], chain: &'a [BlockMeta], start: Height) -> Vec<Self> {
        all.iter().filter_map(|index| Self::of(index, chain, start)).collect()
    }

    fn of(index: &'a DerivedIndex, chain: &'a [BlockMeta], start: Height) -> Option<Self> {
        let next = index.cut_to_chain(chain).inspect_err(|error| stays_behind(index, error)).ok()?;
        if next < start.0 {
            tracing::info!(index = index.name(), blocks = next, "the derived index is behind the build; reads later");
            return None;
        }
        let state = State { held: Held::new(next, Bounds::default()), is_publishing: false };
        Some(Self { index, chain, state: Mutex::new(state) })
    }

    /// Takes one block of the chain.
    pub(crate) fn take(&self, height: Height, block: &ProvedBlock<'_>) {
        if !self.state.lock().held.wants(height.0) {
            return;
        }
        let id = BlockId { height, hash: self.chain[height.0 as usize].hash };
        match self.index.derived.of_block(id, block) {
            Ok(records) => {
                self.state.lock().held.insert(height.0, records);
                self.publish(Least::Piece);
            }
            Err(error) => self.fail(&Error::Block { height, error }),
        }
    }

    /// Publishes all blocks that follow each other, at the end of a generation.
    pub(crate) fn finish(self) {
        self.publish(Least::Block);
        let (index, held) = (self.index.name(), &self.state.lock().held);
        let blocks = held.next();
        if held.has_given_up() {
            tracing::info!(index, blocks, "the derived index did not take all blocks of the build; reads later");
        } else {
            tracing::info!(index, blocks, "computed a derived index beside the build");
        }
    }

    /// Publishes pieces, unless another thread does.
    fn publish(&self, least: Least) {
        let mut state = self.state.lock();
        while !state.is_publishing
            && let Some((first, records)) = state.held.take_piece(least)
        {
            state.is_publishing = true;
            drop(state);
            let published = self.index.append_of_build(self.chain, first, records);
            state = self.state.lock();
            state.is_publishing = false;
            if let Err(error) = published {
                drop(state);
                self.fail(&error);
                return;
            }
        }
    }

    fn fail(&self, error: &Error) {
        let mut state = self.state.lock();
        if !state.held.has_given_up() {
            stays_behind(self.index, error);
        }
        state.held.give_up();
    }
}

fn stays_behind(index: &DerivedIndex, error: &Error) {
    tracing::warn!(index = index.name(), %error, "failed to compute a derived index beside the build; reads later");
}

impl DerivedIndex {
    /// Cuts what a chain to be built does not share. Returns the height of the first block whose records are missing.
    fn cut_to_chain(&self, chain: &[BlockMeta]) -> Result<u32> {
        let mut surplus = self.writing.lock();
        self.cut_to(chain, &mut surplus)
    }

    /// Publishes records of blocks that follow those that are published.
    fn append_of_build(&self, chain: &[BlockMeta], first: u32, records: Vec<Records>) -> Result<()> {
        let _writing = self.writing.lock();
        self.append(chain, first, records)
    }
}
