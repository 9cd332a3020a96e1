//! The index of one chain, as it is read.

use std::ops::Range;
use std::sync::Arc;

use bitcoin::Network;

use crate::derived::{Derived, DerivedIndex};
use crate::error::Result;
use crate::names::Height;
use crate::state::Snapshot;
use crate::tweaks::derived::{Computation, NAME, OUTPUTS, PREFIXES, TRANSACTIONS, TweakDetail};
use crate::tweaks::rows::TweakRows;

/// The tweaks of one chain.
#[derive(Debug, Clone)]
pub struct Tweaks {
    index: Arc<DerivedIndex>,
    detail: TweakDetail,
}

// === impl Tweaks ===

impl Tweaks {
    /// Name of the derived index.
    pub const NAME: &str = NAME;

    /// Returns what computes them on a network.
    pub fn derived(network: Network, detail: TweakDetail) -> Arc<dyn Derived> {
        Arc::new(Computation { network, detail })
    }

    /// Returns the tweaks that one of some derived indexes keeps, if any does.
    pub fn among(all: &[Arc<DerivedIndex>]) -> Option<Self> {
        let index = all.iter().find(|index| index.name() == Self::NAME).cloned()?;
        let has_outputs = index.arrays() == Computation::arrays_of(TweakDetail::Full);
        let detail = if has_outputs { TweakDetail::Full } else { TweakDetail::Scan };
        Some(Self { index, detail })
    }

    /// Returns the derived index that keeps them.
    pub fn index(&self) -> Arc<DerivedIndex> {
        Arc::clone(&self.index)
    }

    /// Returns the records that it has for each transaction.
    pub fn detail(&self) -> TweakDetail {
        self.detail
    }

    /// Returns the height of the first block that can have rows: taproot's on this network.
    pub fn start(&self) -> Height {
        self.index.start()
    }

    /// Returns the height after the last block of a snapshot's chain that it covers. All from [`Self::start`] on are.
    pub fn len(&self, at: &Snapshot) -> u32 {
        self.index.len(at)
    }

    /// Returns true if it covers no block of a snapshot's chain.
    pub fn is_empty(&self, at: &Snapshot) -> bool {
        self.index.is_empty(at)
    }

    /// Returns the number of rows of some blocks; `None` as [`Self::read`].
    ///
    /// # Errors
    /// Failures of the store.
    pub fn rows(&self, at: &Snapshot, heights: Range<Height>) -> Result<Option<u64>> {
        self.index.count(at, TRANSACTIONS, heights)
    }

    /// Reads the rows of some blocks of a snapshot's chain; `None` if they are not all computed, or begin below
    /// [`Self::start`].
    ///
    /// # Errors
    /// Failures of the store, and damage of the rows.
    pub fn read(&self, at: &Snapshot, heights: Range<Height>) -> Result<Option<TweakRows>> {
        let outputs = match self.detail {
            TweakDetail::Scan => None,
            TweakDetail::Full => match self.index.read(at, OUTPUTS, heights.clone())? {
                None => return Ok(None),
                outputs => outputs,
            },
        };
        self.read_with(at, heights, outputs.as_deref())
    }

    /// Reads as [`Self::read`], without the outputs: all that a scan needs.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn read_prefixes(&self, at: &Snapshot, heights: Range<Height>) -> Result<Option<TweakRows>> {
        self.read_with(at, heights, None)
    }

    fn read_with(&self, at: &Snapshot, heights: Range<Height>, outputs: Option<&[u8]>) -> Result<Option<TweakRows>> {
        let ends = self.index.ends(at, TRANSACTIONS, heights.clone())?;
        let transactions = self.index.read(at, TRANSACTIONS, heights.clone())?;
        let prefixes = self.index.read(at, PREFIXES, heights.clone())?;
        let (Some(ends), Some(transactions), Some(prefixes)) = (ends, transactions, prefixes) else { return Ok(None) };
        TweakRows::new(heights.start, ends, &transactions, &prefixes, outputs).map(Some)
    }
}
