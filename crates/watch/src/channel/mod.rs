//! Ways to a person or a program. A channel sends one message at a time and says what became of it.
//!
//! May use `limits` and `file`. Every connection goes through the guard of `birdhouse-dial`. Secrets are neither
//! printed nor logged, and no argument of a process holds one.

mod clock;
mod http;
mod message;
mod secret;

mod command;
mod mail;
mod nostr;
mod ntfy;
mod webhook;

mod open;

#[cfg(test)]
mod tests;

pub use birdhouse_dial::{AskNode, Refused, RefusedAddress, Resolver, SystemResolver};
pub use clock::Clock;
pub use message::{Channel, Message, Outcome, Priority};
pub use nostr::OwnRelay;
pub use open::{Channels, OpenChannel, Surroundings};
