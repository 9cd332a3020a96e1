//! A Nostr relay over WebSocket: NIP-01 and what belongs to it, over the events of `birdhouse-events`.
//!
//! Suggested reading order: what is said (`message`), how it comes and goes (`socket`, `frames`, `outgoing`, `deflate`), one client (`connection`,
//! `identity`, `visitor`, `sync`), what the operator wants (`policy`, `plugin`), how its events are taken in (`ingest`), who hears of
//! them (`hub`), and the door (`http`, `info`).

// What is said, and how it comes and goes.
mod deflate;
mod frames;
mod limits;
mod message;
mod outgoing;
mod shown;
mod socket;
mod spare;

// One client.
mod connection;
mod identity;
mod place;
mod stored;
mod sync;
mod tally;
mod visitor;

// What the operator wants.
mod plugin;
mod policy;

// Events on their way in, and on their way to who waits for them.
mod hub;
mod indexing;
mod ingest;
mod tidy;
mod told;
mod worker;

// The door, and what is seen from outside.
mod counters;
mod http;
mod info;
mod relay;

pub use counters::Overview;
pub use frames::Compression;
pub use info::Description;
pub use limits::{Limits, LimitsGiven, PrivateMessages};
pub use plugin::{PluginSettings, WhenBroken};
pub use policy::{Kinds, KindsRate, Lists, Policy, RatedBy};
pub use relay::{Relay, Settings};

// For the fuzz target and tests like it. Not for use.
#[doc(hidden)]
pub mod fuzzing;
