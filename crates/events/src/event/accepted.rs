//! Outcomes of accepting an event.

use crate::event::seq::Seq;

/// Outcome for one event that was offered to [`Events::accept`](crate::Events::accept).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// The event is stored, and durable.
    Stored(Seq),
    /// The event was stored before.
    Duplicate,
    /// A newer version of a replaceable or addressable event is stored.
    Superseded,
    /// Its author, or the recipient of a gift wrap, asked for its deletion (NIP-09) or vanished (NIP-62).
    Deleted(DeletedBy),
}

/// Person who had an event deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletedBy {
    /// Its author.
    Author,
    /// The recipient of a gift wrap (NIP-59).
    Recipient,
}
