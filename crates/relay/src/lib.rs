//! A Nostr relay over WebSocket: NIP-01 and what belongs to it, over the events of `birdhouse-events` and the sockets
//! of `birdhouse-net`.
//!
//! # Folders
//!
//! Each may use those above it, and the files beside them.
//!
//! | folder | what lives there |
//! |---|---|
//! | `rules`, `policy` | the operator's decisions: bans that change while the relay runs, lists and rates, NIP-42 |
//! | `live` | new events on their way to the subscriptions that match them |
//! | `stored` | the stored events of a subscription, page by page, and counts |
//! | `message` | messages as values (NIP-01, 42, 45, 67, 77), and the outcome of an event |
//! | `fronts` | relays whose events another process stores |
//! | `writing` | events on their way in, and the upkeep of what is stored |
//! | `plugin` | the operator's own program that judges events |
//! | `members` | members: requests to join and leave, invites, the relay's list (NIP-43) |
//! | `entrance` | HTTP: the way to a WebSocket, NIP-11, NIP-86 |
//! | `connection` | one client: its messages, its stored and live events, negentropy |
//!
//! [`Relay`] is what all connections share.
#![forbid(unsafe_code)]

mod clock;
mod counters;
mod free_disk;
mod limits;
mod worker;

mod policy;
mod rules;
mod settings;

mod live;
mod message;
mod stored;

mod fronts;
mod plugin;
mod writing;

mod members;

mod connection;
mod entrance;
mod exchange;
mod membership;
mod newest;
mod own;
mod published;
mod relay;
mod reports;
mod server;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod simulation;

// For the fuzz target and tests like it. Not for use.
#[doc(hidden)]
pub mod fuzzing;

pub use birdhouse_net::Compression;
pub use counters::Overview;
pub use exchange::{DatedId, Exchange, Taken};
pub use free_disk::FreeDisk;
pub use fronts::{FeedOffset, RelayWriter};
pub use limits::{Limits, LimitsGiven, PrivateMessages};
pub use plugin::Plugin;
pub use policy::{Kinds, KindsRate, Lists, Members, MembersAlone, Policy, RatedBy};
pub use published::{Published, PublishedPage};
pub use relay::Relay;
pub use reports::Reported;
pub use rules::{
    AUDIT_FILE, Actor, Audited, Change, Changed, Deed, Ending, Entry, Invite, Member, Role, RoleChange, RoleError,
    Rule, RuleBook, Rules, RulesError, Subject, Text, Verdict, replace_file,
};
pub use server::Listener;
pub use settings::{Description, EoseHints, PluginSettings, Settings, WhenBroken};
pub use writing::{Health, Storing};
