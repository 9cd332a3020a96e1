//! Positions in the order of NIP-01: newest event first; of equal times, lowest id first.

use crate::event::EventId;

/// Position in NIP-01's order, usually of an event. A page ends with one, and the next page starts after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Seconds since 1970.
    pub(crate) created_at: u32,
    pub(crate) id: EventId,
}

// === impl Position ===

impl Position {
    /// Returns the position behind all events of a second.
    pub(crate) fn end_of(created_at: u32) -> Self {
        Self { created_at, id: EventId([0xff; 32]) }
    }

    /// Returns true if this position comes later in the order, so has an older event or a higher id.
    pub fn is_after(self, other: Self) -> bool {
        self.created_at < other.created_at || self.created_at == other.created_at && self.id > other.id
    }
}
