//! Verification: computes records again from the blocks, and compares them with those that are stored.

use std::ops::Range;

use super::index::{DerivedIndex, PIECE_BLOCKS};
use crate::error::Result;
use crate::names::Height;
use crate::state::Snapshot;

/// Differences that a report describes; later ones are only counted.
const DESCRIBED_MAX: usize = 20;

/// Result of the verification of a derived index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DerivedReport {
    /// Blocks whose records were compared.
    pub blocks: u64,
    /// Blocks of which the records of an array differ.
    pub differences: u64,
    /// Descriptions of the first differences.
    pub described: Vec<String>,
}

impl DerivedIndex {
    /// Computes the records of the blocks at `heights` again, and compares those that are stored.
    ///
    /// # Errors
    /// Failures to read blocks or records. Differences are not errors: the report counts them.
    pub fn verify(&self, at: &Snapshot, heights: Range<Height>) -> Result<DerivedReport> {
        let mut report = DerivedReport::default();
        let end = heights.end.0.min(self.len(at));
        let mut next = heights.start.0.max(self.derived.start().0);
        while next < end {
            let piece = next..end.min(next.saturating_add(PIECE_BLOCKS));
            self.verify_piece(at, piece.clone(), &mut report)?;
            next = piece.end;
        }
        Ok(report)
    }

    fn verify_piece(&self, at: &Snapshot, heights: Range<u32>, report: &mut DerivedReport) -> Result<()> {
        let mut computed = self.compute(at, heights.clone())?;
        self.link(heights.start, &mut computed)?;
        report.blocks += computed.len() as u64;
        for (height, records) in heights.zip(&computed) {
            for array in 0..self.derived.arrays().len() {
                let stored = self.read(at, array, Height(height)..Height(height + 1))?;
                if stored.as_deref() != Some(records.of(array)) {
                    report.differs(|| format!("{}: block {height}: array {array} differs", self.name()));
                }
            }
        }
        Ok(())
    }
}

impl DerivedReport {
    fn differs(&mut self, describe: impl FnOnce() -> String) {
        self.differences += 1;
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(describe());
        }
    }
}
