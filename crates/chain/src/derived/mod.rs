//! Derived indexes: records computed from blocks and the outputs that they spend, kept beside the index.
//!
//! A [`Derived`] says what one block gives. A [`DerivedIndex`] keeps the records of a chain in a store of its own, so
//! the manifest of the index knows nothing of them, and a store that is lost is made again.
//!
//! ```text
//! arrays    those of the derived index: records, and for each block the end of its records where their number differs
//! manifest  version of the format u8, then a locator of the blocks whose records are there
//! ```
//!
//! Invariants: the records below the locator's end are those of its chain; records above it are cut when the store is
//! opened. A reorg publishes a locator of the blocks that the old one surely shares with the new chain, then cuts, and
//! publishes the cut before anything is written above it.
//!
//! `index` has the one writer, `column` the arrays, `locator` the manifest. `check` computes records again and compares
//! them. `taking` takes the blocks that the first build reads, of which `held` holds back those that come early. The
//! loop that follows the tip is `tip/derived`. May use all folders above it.
//!
//! A reader passes its snapshot and gets the records of that chain or none. Deliberately absent: tables and merges.
//! Records are found by height alone.

mod check;
mod column;
mod held;
mod index;
mod locator;
mod taking;

pub use self::check::DerivedReport;
pub use self::index::{DerivedIndex, DerivedProgress};
pub(crate) use self::taking::Taking;

use birdhouse_store::ArraySpec;

use crate::block::{BlockError, ProvedBlock};
use crate::names::Height;
use crate::outside::BlockId;

/// The computation of a derived index, and its arrays. Implementations are pure.
pub trait Derived: Send + Sync + 'static {
    /// Returns its name: the folder of its store, and its label in metrics and reports.
    fn name(&self) -> &'static str;

    /// Returns the version of its format, which changes whenever records or arrays do. A store of another format is not
    /// opened.
    fn format(&self) -> u8;

    /// Returns the height of the first block that gives records.
    fn start(&self) -> Height {
        Height(0)
    }

    /// Returns its arrays. Their names are unique among themselves.
    fn arrays(&self) -> &'static [DerivedArray];

    /// Computes the records of one block, for each array. Blocks come in any order, on several threads.
    ///
    /// # Errors
    /// The block contradicts itself.
    fn of_block(&self, id: BlockId, block: &ProvedBlock<'_>) -> Result<Records, BlockError>;

    /// Completes the records of a block whose values depend on the finished ones of the block before it, which are
    /// empty at the first block. Called in the order of the chain; most derived indexes have nothing to do here.
    fn link(&self, _before: &Records, _records: &mut Records) {}
}

/// One array of a derived index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DerivedArray {
    /// One record for each block, its number counted from [`Derived::start`].
    PerBlock(ArraySpec),
    /// Any number of records for each block.
    PerItem {
        /// The records, in the order of the chain.
        records: ArraySpec,
        /// Name of the array that has, for each block, the number of records up to its end, 8 bytes LE.
        ends: &'static str,
    },
}

/// The records of one block, concatenated for each array.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records(Vec<Vec<u8>>);

impl Records {
    /// Returns records for the arrays in the order of [`Derived::arrays`].
    pub fn new(arrays: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self(arrays.into_iter().collect())
    }

    /// Returns the records for the array with this number; none if it has none.
    pub fn of(&self, array: usize) -> &[u8] {
        self.0.get(array).map_or(&[], Vec::as_slice)
    }
}
