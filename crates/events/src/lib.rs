//! Nostr: event -> postings -> answers to a filter -> live matches.
//!
//! Events are a log, numbered by acceptance ([`Seq`]). Posting lists lead from an author, a kind or a tag to events,
//! newest first. The storage is a log-structured merge tree: a memtable of new postings, immutable segments,
//! tombstones, and a manifest that names what counts.
//!
//! # Folders
//!
//! Each may use those above it.
//!
//! | folder | what lives there |
//! |---|---|
//! | `event` | events as values: parts, ids, signatures, limits; what they replace and delete |
//! | `text` | words of events and of searches |
//! | `filter` | filters as values |
//! | `log` | events by number, as packed bytes; tombstones, expiry, space that is given back |
//! | `postings` | lists of events by author, tag and kind: memtable, segments, compaction |
//! | `state` | the manifest, and the version that readers share |
//! | `query` | filter -> plan -> pages |
//! | `search` | full-text search |
//! | `events` | [`Events`]: the way in, upkeep, and the whole |
//!
//! `matcher` finds the live subscriptions of a new event.
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

mod error;

mod event;
mod filter;
mod log;
mod postings;
mod text;

mod query;
mod state;

mod events;
mod matcher;
mod options;
mod search;

// Properties for fuzz targets and tests like them; not a stable interface.
#[doc(hidden)]
pub mod fuzzing;

/// The tables of the events: the store must be opened with them.
pub const TABLES: &[birdhouse_store::Table] = &[log::expiry::EXPIRY];

pub use error::{Error, Result};
pub use event::{
    Accepted, Address, Admitted, Amount, DeletedBy, Deletion, Event, EventId, EventLimits, Judged, Keys, Kind,
    KindClass, Letter, Letters, Malformed, Position, Pubkey, Reason, Rejection, RelayUrl, Retention, RetentionRule,
    Seq, Signature, Sweep, Tag, Timestamp, UnsignedEvent, Vanish, VerifiedEvent, hex,
};
pub use events::Events;
pub use filter::{Filter, FilterLimits, Hll, UnknownKeys};
pub use log::{Packed, packed::filter::PackedFilter};
pub use matcher::Matcher;
pub use options::EventsOptions;
pub use query::{Audience, Cost, EVENT_WORK, Explanation, Hide, Pace, Query, Shape, TagsBy};
pub use search::{SearchCoverage, SearchProgress, SearchStorage};
pub use text::Search;
