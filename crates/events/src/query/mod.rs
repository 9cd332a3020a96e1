//! Queries: a filter, and the moment and audience that its answer is for.

mod audience;
mod explain;
pub(crate) mod lookup;
mod merge;
mod plan;
pub(crate) mod scan;

pub(crate) use self::audience::shows;
pub use self::audience::{Audience, Hide};
pub use self::explain::{Cost, Explanation, Shape};
pub(crate) use self::lookup::{find, find_many};
pub(crate) use self::merge::Merged;
pub(crate) use self::plan::Spans;

use crate::event::Seq;
use crate::filter::Filter;

/// Request for the events of a filter as of one moment.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Conditions on events. The caller applies `limit`.
    pub filter: &'a Filter,
    /// Excludes events from this number on.
    pub end: Seq,
    /// Excludes events that have expired by then (NIP-40), seconds since 1970.
    pub now: u32,
    /// Excludes events that these readers may not see.
    pub audience: Audience<'a>,
    /// Excludes stored events that the operator hides.
    pub hidden: Option<&'a dyn Hide>,
    /// Source that decides whether an event has a requested tag.
    pub tags: TagsBy,
    /// Work after which a page ends, whatever it has found: one for each posting, [`EVENT_WORK`] for each event that is
    /// read, more for a large one. A page may do more for its last second, and at least one unit for each of its lists.
    pub work_max: u64,
    /// Ends a page as soon as others wait. Every page reads an event, if there is one.
    pub pace: Option<&'a dyn Pace>,
}

/// Time that a piece of work has.
pub trait Pace: std::fmt::Debug + Sync {
    /// Returns true when others wait and the work has taken long enough.
    fn is_over(&self) -> bool;
}

/// Least work of reading an event and testing its tags, in postings.
pub const EVENT_WORK: u64 = 8;
/// Bytes of a large event that cost as much as a posting.
const BYTES_PER_WORK: u64 = 64;

/// Returns the work of reading an event of this many bytes and testing its tags, in postings.
pub(crate) fn read_work(bytes: u64) -> u64 {
    EVENT_WORK.max(bytes / BYTES_PER_WORK)
}

/// Source that decides whether an event has a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagsBy {
    /// The event itself.
    Event,
    /// The tag's posting list, for COUNT, which reads no tags: a follow list has thousands of them. Lists are named by
    /// 48 bits of a keyed hash, so an event without the tag is counted with a probability of 2^-48 for each list of the
    /// index.
    List,
}

// === impl Query ===

impl<'a> Query<'a> {
    /// Returns a query for all events of a filter that the operator can see, including expired ones.
    pub fn of(filter: &'a Filter) -> Self {
        Self {
            filter,
            end: Seq(u64::MAX),
            now: 0,
            audience: Audience::Operator,
            hidden: None,
            tags: TagsBy::Event,
            work_max: u64::MAX,
            pace: None,
        }
    }
}
