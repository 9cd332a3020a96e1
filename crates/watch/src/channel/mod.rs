//! Ways to a person or a program. A channel sends one message at a time and says what became of it.
//!
//! May use `limits` and `file`. Every connection goes through `guard`. Secrets are neither printed nor logged, and no
//! argument of a process holds one.

mod clock;
mod guard;
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

pub use clock::Clock;
pub use guard::{AskNode, Refused, RefusedAddress, Resolver, SystemResolver};
pub use message::{Channel, Message, Outcome, Priority};
pub use nostr::OwnRelay;
pub use open::{Channels, Surroundings};
