//! Location of the full-text index, and how far a search has covered the events.

use std::path::PathBuf;

/// Storage of the full-text index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchStorage {
    /// No index: filters with a search find nothing.
    Off,
    /// In memory. It is rebuilt from the log after each start.
    Memory,
    /// In a folder of its own.
    Folder(PathBuf),
}

/// Part of the events that a search has covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchCoverage {
    /// All events: the result is complete.
    Complete,
    /// Some events: there may be more results.
    Partial,
    /// None: the index holds this percentage of the events, and too many remain to scan them.
    Building(u8),
}
