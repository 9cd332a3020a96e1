//! Nostr: event -> postings -> answers to a filter -> live matches.
//!
//! Events are a log, numbered by acceptance ([`Seq`]). Posting lists lead from an author, a kind or a tag to events,
//! newest first. The storage is a log-structured merge tree: a memtable of new postings, immutable segments,
//! tombstones, and a manifest that names what counts.
//!
//! Suggested reading order:
//! 1. `event`, `kind`, `filter`: events and filters as values.
//! 2. `event_limits`, `deletion`: events that a relay takes, and what they delete.
//! 3. `log`, `posting`, `segment`, `manifest`: the layout on disk.
//! 4. `admission`, `memtable`, `compaction`: the way in.
//! 5. `plan`, `merge`, `scan`: the way out; `search` for words.
//!
//! Modules form layers: a file imports only files above it in the list below.
//!
//! # Example
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//!
//! use birdhouse_events::{
//!     Accepted, Events, EventsOptions, Filter, FilterLimits, Keys, Kind, Query, Seq, Timestamp, UnsignedEvent,
//! };
//! use birdhouse_store::MemoryStore;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let secret_of_the_index = [7; 16]; // random in a real relay
//! let events = Events::open(Arc::new(MemoryStore::new()), secret_of_the_index, EventsOptions::default())?;
//!
//! let keys = Keys::from_secret([1; 32]).expect("a valid secret key");
//! let (created_at, content) = (Timestamp(1_700_000_000), "hello".to_owned());
//! let note = UnsignedEvent { created_at, kind: Kind(1), tags: Vec::new(), content }.sign(&keys);
//! assert_eq!(events.accept(&[&note])?, [Accepted::Stored(Seq(0))]);
//!
//! let filter = Filter::from_json(r#"{"kinds":[1],"limit":10}"#, &FilterLimits::default())?;
//! let mut contents = Vec::new();
//! events.page(Query::of(&filter), None, 10, &mut |_, packed| {
//!     contents.extend(packed.to_event().map(|event| event.content));
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(contents, ["hello"]);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

// Values: events, filters, and their parts.
pub mod hex;
mod kind;
mod rejection;
mod relay_url;
mod tag;

mod event;
mod position;
mod seq;

mod tokens;
mod words;

mod search_words;

mod filter;
mod packed;

#[cfg(test)]
mod samples;

// Which events a relay takes, what they delete, and who may read them.
mod address;
mod audience;
mod deletion;
mod event_limits;
mod hll;
mod retention;

// Live subscriptions.
mod matcher;

// Layout on disk.
mod error;
mod expiry;
mod log;
mod posting;
mod sorted;
mod tombstones;

mod segment;

mod manifest;
mod memtable;

// Queries.
mod accepted;
mod plan;
mod query;
mod reader;

mod explain;
mod lookup;
mod merge;
mod version;

mod scan;

// Writes, and upkeep.
mod admission;
mod compaction;
mod reclaim;
mod search;

// The whole.
mod options;

mod events;

// Properties for fuzz targets and tests like them; not a stable interface.
#[doc(hidden)]
pub mod fuzzing;

/// The tables of the events: the store must be opened with them.
pub const TABLES: &[birdhouse_store::Table] = &[expiry::EXPIRY];

pub use accepted::{Accepted, DeletedBy};
pub use address::Address;
pub use audience::{Audience, Hide};
pub use deletion::{Deletion, Vanish};
pub use error::{Error, Result};
pub use event::json::Malformed;
pub use event::sign::{Keys, UnsignedEvent};
pub use event::verified::VerifiedEvent;
pub use event::{Event, EventId, Pubkey, Signature, Timestamp};
pub use event_limits::{Admitted, EventLimits};
pub use events::Events;
pub use explain::{Cost, Explanation, Shape};
pub use filter::Filter;
pub use filter::limits::{FilterLimits, UnknownKeys};
pub use hll::Hll;
pub use kind::{Kind, KindClass};
pub use matcher::Matcher;
pub use options::EventsOptions;
pub use packed::Packed;
pub use packed::filter::PackedFilter;
pub use position::Position;
pub use query::{EVENT_WORK, Pace, Query, TagsBy};
pub use rejection::{Reason, Rejection};
pub use relay_url::RelayUrl;
pub use retention::{Retention, RetentionRule, Sweep};
pub use search::run::SearchProgress;
pub use search::storage::{SearchCoverage, SearchStorage};
pub use search_words::Search;
pub use seq::Seq;
pub use tag::{Letter, Letters, Tag};
