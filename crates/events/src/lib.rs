//! Nostr: event -> postings -> answers to a filter -> live matches.
//!
//! Events are a log, numbered by acceptance ([`Seq`]); postings lead from an author, a kind or a tag to events, ordered by
//! time. Suggested reading order: what an event and a filter are (`event`, `kind`, `filter`), then how they are kept.

// What they are.
mod event;
mod filter;
mod kind;
mod tag;

pub use event::{Event, EventId, Pubkey, Signature, Timestamp};
pub use filter::Filter;
pub use kind::{Kind, KindClass};
pub use tag::{Letter, Tag};
