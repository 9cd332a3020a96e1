//! Inputs of flushes and compactions.

use crate::log::LogReader;
use crate::posting::PostingIndex;
use crate::segment::SegmentArrays;
use crate::tombstones::Tombstones;

/// Everything that writing a segment reads, and the arrays that it writes to.
#[derive(Clone, Copy)]
pub(crate) struct CompactionContext<'a> {
    pub(crate) log: LogReader<'a>,
    pub(crate) index: &'a PostingIndex,
    pub(crate) arrays: &'a SegmentArrays,
    pub(crate) tombstones: &'a Tombstones,
}
