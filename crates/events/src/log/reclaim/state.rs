//! State of the upkeep between two steps. It is lost at the end of the process, and made anew.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::{Move, Share};
use crate::log::moved::MovedUnits;

/// State of the upkeep.
#[derive(Default)]
pub(crate) struct Upkeep {
    /// The unit that is being moved.
    pub(crate) moving: Option<Move>,
    /// Assessment of each unit of the log; `None` until it is assessed.
    pub(crate) units: Vec<Option<Assessed>>,
    /// Assessment of each segment, by the number of its first id.
    pub(crate) segments: HashMap<u64, AssessedSegment>,
    /// Number of tombstones and units when there was nothing to move.
    pub(crate) rested: Option<(u64, u64)>,
    /// Units that cannot be read.
    pub(crate) damaged: BTreeSet<u64>,
    /// Bytes of former versions, the oldest first.
    pub(crate) retired: VecDeque<Retired>,
}

/// Share of a unit that is gone, and the number of its gone events when it was computed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Assessed {
    pub(crate) events: u64,
    pub(crate) share: Share,
}

/// Share of a segment's postings that is gone.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AssessedSegment {
    /// Number of all tombstones when the segment's events were counted.
    pub(crate) tombstones: u64,
    /// Gone events of the segment when its postings were counted.
    pub(crate) events: u64,
    pub(crate) share: Share,
}

/// Bytes that readers of a former version may still read.
pub(crate) struct Retired {
    /// Units of the version. Nobody reads the bytes when this is the only handle, and older versions are gone.
    pub(crate) version: Arc<MovedUnits>,
    pub(crate) bytes: Freed,
}

impl Upkeep {
    /// Gives back what a move wrote that is not carried on. Nobody has read it.
    pub(crate) fn abandon(&mut self, moving: &Move) {
        self.retired.push_back(Retired { version: Arc::default(), bytes: Freed::Moved(moving.range()) });
    }
}

/// Bytes to give back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Freed {
    /// The heads of a unit, and these bytes of `body`.
    Unmoved(u64, Range<u64>),
    /// Bytes of `moved`.
    Moved(Range<u64>),
}
