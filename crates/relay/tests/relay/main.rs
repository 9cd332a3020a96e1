//! The relay over real sockets, with raw messages and with real clients.
#![expect(clippy::unwrap_used, reason = "tests")]

mod abuse;
mod admission;
mod app;
mod attacks;
mod clients;
mod compression;
mod damaged;
mod deletion;
mod exactly_once;
mod filters;
mod fronts;
mod identity;
mod management;
mod members;
mod ndk;
mod nostr_bench;
mod nostr_fetch;
mod nostr_tools;
mod notices;
mod npm;
mod plugin;
mod policies;
mod private;
mod protocol;
mod replaced;
mod room;
mod search;
mod subscriptions;
mod sync;
mod transports;
mod whole;
mod wire;
