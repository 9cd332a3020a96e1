//! Nostr: event -> postings -> answers to a filter -> live matches.
//!
//! Events are a log, numbered by acceptance ([`Seq`]); postings lead from an author, a kind or a tag to events, ordered by
//! time. Suggested reading order: what an event and a filter are (`event`, `kind`, `filter`), which events are taken (`admit`,
//! `deletion`), how they lie on the disk (`log`, `posting`, `segment`, `mark`), how they come in (`judge`, `tail`, `seal`) and
//! how they are found (`plan`, `merge`, `scan`; by words: `search`).

// What they are.
mod address;
mod event;
mod filter;
pub mod hex;
mod kind;
mod relay_url;
#[cfg(test)]
mod samples;
mod tag;

// Which are taken, and what they ask.
mod admit;
mod deletion;
mod rejection;

// How they lie on the disk.
mod dead;
mod log;
mod mark;
mod packed;
mod posting;
mod segment;
mod sorted;

// How they come in.
mod judge;
mod seal;
mod tail;

// How they are found, and who may read them.
mod audience;
mod explain;
mod merge;
mod plan;
mod scan;

// By their words, and their authors by their number.
mod hll;
mod search;

// Who hears of new ones.
mod matcher;

// The whole.
mod error;
mod events;

// For the fuzz targets and tests like them. Not for use.
#[doc(hidden)]
pub mod fuzzing;

pub use address::Address;
pub use admit::{Admission, Admitted};
pub use audience::Audience;
pub use deletion::{Deletion, Vanish};
pub use error::{Error, Result};
pub use event::{Event, EventId, Keys, Malformed, Pubkey, Signature, Timestamp, UnsignedEvent, VerifiedEvent};
pub use events::{Accepted, Events, EventsOptions, Query, TagsBy};
pub use explain::{Cost, Explanation, Shape};
pub use filter::{Filter, FilterLimits, UnknownKeys};
pub use hll::Hll;
pub use kind::{Kind, KindClass};
pub use log::Seq;
pub use matcher::Matcher;
pub use packed::{Packed, PackedFilter};
pub use rejection::{Reason, Rejection};
pub use relay_url::RelayUrl;
pub use scan::Position;
pub use search::{Search, SearchPlace, Searched};
pub use tag::{Letter, Letters, Tag};
