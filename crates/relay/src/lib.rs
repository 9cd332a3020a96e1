//! A Nostr relay over WebSocket: NIP-01 and what belongs to it, over the events of `birdhouse-events` and the sockets
//! of `birdhouse-net`.
//!
//! Suggested reading order: the messages (`message`), one client (`connection`, `identity`, `stored`, `sync`), the
//! operator's decisions (`policy`, `rules`, `management`, `plugin`), events on their way in (`ingest`) and to
//! subscriptions (`hub`, `live_queue`), relays that share their events (`front`, `forwarding`, `feed`), and the
//! entrance (`http`, `info`).
#![forbid(unsafe_code)]

// The messages.
mod limits;
mod message;
mod outcome;
mod settings;
mod shown;

// One client.
mod connection;
mod identity;
mod stored;
mod sync;
mod sync_form;
mod tally;

// The operator's decisions.
mod management;
mod plugin;
mod policy;
mod rules;

// Events on their way in, and on their way to subscriptions.
mod compaction;
mod feed;
mod forwarding;
mod free_disk;
mod front;
mod gathering;
mod health;
mod hub;
mod indexing;
mod ingest;
mod live_queue;
mod recovery;
mod retaining;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod simulation;
mod worker;

// The entrance, and the view from outside.
mod clock;
mod counters;
mod http;
mod info;
mod relay;
mod server;

pub use birdhouse_net::Compression;
pub use counters::Overview;
pub use feed::FeedOffset;
pub use free_disk::FreeDisk;
pub use front::RelayWriter;
pub use health::{Health, Storing};
pub use limits::{Limits, LimitsGiven, PrivateMessages};
pub use policy::{Kinds, KindsRate, Lists, Policy, RatedBy};
pub use relay::{Changed, Relay};
pub use rules::book::RuleBook;
pub use rules::{Change, Rule, Rules, RulesError, Subject, Text, Verdict};
pub use server::Listener;
pub use settings::{Description, PluginSettings, Settings, WhenBroken};

// For the fuzz target and tests like it. Not for use.
#[doc(hidden)]
pub mod fuzzing;
