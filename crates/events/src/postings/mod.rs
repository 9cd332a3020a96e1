//! Postings: the lists of events by author, tag and kind, in memory and in segments.
//!
//! A new event's postings are in the memtable, which is flushed into a segment; compaction merges segments. May use
//! `event` and `log`.
//!
//! Lists are split by kind, and a posting has the author, so both are ruled out before an event is read. Each candidate
//! that remains is tested in its packed form, and sent from it.

pub(crate) mod compaction;
mod memtable;
mod posting;
mod segment;

pub(crate) use self::memtable::Memtable;
pub(crate) use self::posting::{AuthorHash, ListKey, ListName, ListRange, ListSubject, Posting, PostingIndex};
pub(crate) use self::segment::{OpenSegment, Segment, SegmentArrays, SegmentOffsets, at_most};
