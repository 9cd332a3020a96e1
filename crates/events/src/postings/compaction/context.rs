//! Inputs of flushes and compactions.

use crate::log::{LogReader, Tombstones};
use crate::postings::posting::PostingIndex;
use crate::postings::segment::SegmentArrays;

/// Everything that writing a segment reads, and the arrays that it writes to.
#[derive(Clone, Copy)]
pub(crate) struct CompactionContext<'a> {
    pub(crate) log: LogReader<'a>,
    pub(crate) index: &'a PostingIndex,
    pub(crate) arrays: &'a SegmentArrays,
    pub(crate) tombstones: &'a Tombstones,
}
