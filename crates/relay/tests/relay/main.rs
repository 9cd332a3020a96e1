//! The relay over real sockets, with raw messages and with real clients.
#![expect(clippy::unwrap_used, reason = "tests")]

mod admission;
mod clients;
mod exactly_once;
mod house;
mod identity;
mod nostr_tools;
mod private;
mod protocol;
mod sync;
