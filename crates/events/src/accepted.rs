//! Outcomes of accepting an event.

use crate::seq::Seq;

/// Outcome for one event that was offered to [`Events::accept`](crate::Events::accept).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// The event is stored, and durable.
    Stored(Seq),
    /// The event was stored before.
    Duplicate,
    /// A newer version of a replaceable or addressable event is stored.
    Superseded,
    /// The author asked for its deletion (NIP-09) or vanished (NIP-62).
    Deleted,
}
