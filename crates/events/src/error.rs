//! Failures of storing and finding events.

use crate::event::Seq;

/// Failure of storing or finding events.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage engine failed.
    #[error(transparent)]
    Store(#[from] birdhouse_store::Error),
    /// The bytes of an event are not what a writer produces.
    #[error("failed to decode event {0}: its bytes are damaged; restore a backup")]
    CorruptEvent(Seq),
    /// An earlier write failed, so memory may differ from the disk.
    #[error("an earlier write of events failed; the relay tries again by itself")]
    Failed,
    /// Another process writes the events, and this one reads them.
    #[error("failed to change events: another process writes them")]
    Followed,
    /// Another process writes other events than those that were followed: open them anew.
    #[error("the events that are followed were replaced by others; restart to read these")]
    Replaced,
    /// The events cannot be opened again while segments are merged.
    #[error("failed to open the events again: segments are being merged; try again")]
    Busy,
    /// The caller ended a compaction, which changed nothing.
    #[error("compaction was ended before it was done")]
    Stopped,
    /// The full-text index failed; everything else works.
    #[error("the full-text index failed: {0}")]
    Search(Box<tantivy::TantivyError>),
    /// The manifest is not what a writer of this version produces.
    #[error(
        "failed to decode the manifest of the events: it is damaged, or of a newer version; install the newer version that wrote it, or restore a backup"
    )]
    CorruptManifest,
}

impl From<tantivy::TantivyError> for Error {
    fn from(error: tantivy::TantivyError) -> Self {
        Self::Search(Box::new(error))
    }
}

/// Result of storing or finding events.
pub type Result<T, E = Error> = std::result::Result<T, E>;
