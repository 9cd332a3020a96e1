//! The number of taproot outputs, for the cost of an answer.

use std::ops::Range;

use crate::error::Result;
use crate::names::Height;
use crate::state::Snapshot;
use crate::tweaks::derived::PREFIXES;
use crate::tweaks::index::Tweaks;

impl Tweaks {
    /// Returns the number of taproot outputs of the rows of some blocks; `None` as [`Self::read`].
    ///
    /// # Errors
    /// Failures of the store.
    pub fn outputs(&self, at: &Snapshot, heights: Range<Height>) -> Result<Option<u64>> {
        self.index().count(at, PREFIXES, heights)
    }
}
