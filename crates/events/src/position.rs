//! Positions in the order of NIP-01: newest event first; of equal times, lowest id first.

use crate::event::EventId;

/// Position of an event in NIP-01's order. A page ends with one, and the next page starts after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Seconds since 1970.
    pub(crate) created_at: u32,
    pub(crate) id: EventId,
}

// === impl Position ===

impl Position {
    /// Returns true if this position comes later in the order, so has an older event or a higher id.
    pub fn is_after(self, other: Self) -> bool {
        self.created_at < other.created_at || self.created_at == other.created_at && self.id > other.id
    }
}
