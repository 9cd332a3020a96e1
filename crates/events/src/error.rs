//! What can go wrong in keeping and finding events.

use crate::log::Seq;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage engine failed.
    #[error(transparent)]
    Store(#[from] birdhouse_store::Error),
    /// Bytes of an event that no writer produced.
    #[error("event {0} is damaged on disk")]
    CorruptEvent(Seq),
    /// An earlier write failed: what is in memory may not be what is on the disk.
    #[error("an earlier write of events failed: start again")]
    Failed,
    /// The index of words failed; nothing else did.
    #[error("the index of words failed: {0}")]
    Search(Box<tantivy::TantivyError>),
    /// A mark that no writer produced.
    #[error("the mark of the events is damaged, or of a newer version")]
    CorruptMark,
}

impl From<tantivy::TantivyError> for Error {
    fn from(error: tantivy::TantivyError) -> Self {
        Self::Search(Box::new(error))
    }
}

/// The result of keeping or finding events.
pub type Result<T, E = Error> = std::result::Result<T, E>;
