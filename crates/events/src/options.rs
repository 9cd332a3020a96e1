//! Settings of an event store.

use crate::event::{Letter, Letters, RelayUrl};
use crate::search::SearchStorage;

/// Settings that an operator chooses.
#[derive(Debug, Clone)]
pub struct EventsOptions {
    /// Events in the memtable before a flush.
    pub memtable_events: usize,
    /// Approximate memory of the memtable before a flush, in bytes. An event with thousands of tags takes a thousand
    /// times the memory of a note.
    pub memtable_bytes: usize,
    /// Binary logarithm of the events of a unit of the log, from 6 to 20. The space of events that are gone is given
    /// back unit by unit. The first manifest keeps it.
    pub unit_bits: u32,
    /// Public URLs of the relay, checked in AUTH (NIP-42) and vanish requests (NIP-62).
    pub urls: Vec<RelayUrl>,
    /// Tags with posting lists. A filter on another tag reads every event that its remaining conditions leave. `a`, `e`
    /// and `p` are always included, because deletions need them. [`Events::compact`](crate::Events::compact) adds lists
    /// that an existing index lacks.
    pub letters: Letters,
    /// Storage of the full-text index (NIP-50).
    pub search: SearchStorage,
    /// Events that the full-text index lacks and a search still reads one by one. While there are more, because the
    /// index is built, searches find nothing.
    pub unindexed_events_max: u64,
}

/// Tags by which deletions are found.
const LETTERS_NEEDED: [&str; 3] = ["a", "e", "p"];

// === impl EventsOptions ===

impl EventsOptions {
    /// Tags that get posting lists.
    pub(crate) fn indexed_letters(&self) -> Letters {
        self.letters.union(LETTERS_NEEDED.iter().filter_map(|name| Letter::parse(name)).collect())
    }
}

impl Default for EventsOptions {
    fn default() -> Self {
        Self {
            memtable_events: 1 << 15,
            memtable_bytes: 32 << 20,
            unit_bits: 16,
            urls: Vec::new(),
            letters: Letters::ALL,
            search: SearchStorage::Off,
            unindexed_events_max: 100_000,
        }
    }
}
