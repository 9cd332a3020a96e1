//! The chain of filter headers: a derived index of one record a block.
//!
//! ```text
//! array `filter-header`  header of the filter at this height, 32 bytes in the byte order of the hash function
//! ```

use std::ops::Range;
use std::sync::Arc;

use birdhouse_store::ArraySpec;

use super::basic;
use crate::block::{BlockError, ProvedBlock};
use crate::derived::{Derived, DerivedArray, DerivedIndex, Records};
use crate::error::Result;
use crate::names::{Hash256, Height, sha256d};
use crate::outside::BlockId;
use crate::state::Snapshot;

const ARRAYS: &[DerivedArray] = &[DerivedArray::PerBlock(ArraySpec { name: "filter-header", record_bytes: 32 })];

/// Computes the headers of basic filters.
struct Headers;

/// The headers of basic filters of one chain.
#[derive(Debug)]
pub struct FilterHeaders(Arc<DerivedIndex>);

impl Derived for Headers {
    fn name(&self) -> &'static str {
        FilterHeaders::NAME
    }

    fn format(&self) -> u8 {
        1
    }

    fn arrays(&self) -> &'static [DerivedArray] {
        ARRAYS
    }

    /// Returns the hash of the filter.
    fn of_block(&self, id: BlockId, block: &ProvedBlock<'_>) -> Result<Records, BlockError> {
        Ok(Records::new([sha256d(&basic::of_block(id.hash, block)).to_vec()]))
    }

    /// Replaces the hash by the header.
    fn link(&self, before: &Records, records: &mut Records) {
        let hash: Hash256 = records.of(0).try_into().expect("a hash has 32 bytes");
        let before: Hash256 = before.of(0).try_into().unwrap_or_default();
        *records = Records::new([basic::header(&hash, &before).to_vec()]);
    }
}

// === impl FilterHeaders ===

impl FilterHeaders {
    /// Name of the derived index.
    pub const NAME: &str = "filters";

    /// Returns what computes them.
    pub fn derived() -> Arc<dyn Derived> {
        Arc::new(Headers)
    }

    /// Returns the headers that one of some derived indexes keeps, if any does.
    pub fn among(all: &[Arc<DerivedIndex>]) -> Option<Self> {
        all.iter().find(|index| index.name() == Self::NAME).cloned().map(Self)
    }

    /// Returns the number of headers that belong to a snapshot's chain: those of the heights below it.
    pub fn len(&self, at: &Snapshot) -> u32 {
        self.0.len(at)
    }

    /// Returns true if no header belongs to a snapshot's chain.
    pub fn is_empty(&self, at: &Snapshot) -> bool {
        self.0.is_empty(at)
    }

    /// Returns the headers at some heights of a snapshot's chain, concatenated; `None` if they are not all computed.
    ///
    /// # Errors
    /// Failures of the store.
    pub fn read(&self, at: &Snapshot, heights: Range<Height>) -> Result<Option<Vec<u8>>> {
        self.0.read(at, 0, heights)
    }
}
