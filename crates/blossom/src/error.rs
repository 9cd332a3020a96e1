//! Failures of the store.

use std::path::{Path, PathBuf};

use birdhouse_database::redb;

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("failed to {action} {}: {source}", path.display())]
    File {
        /// The action, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// There are files, and no index that says who owns them.
    #[error(
        "{} is missing or empty, and there are files beside it; restore it from a backup, or move the folder away", .0.display()
    )]
    NoIndex(PathBuf),
    /// The index of blobs could not be read or written.
    #[error("failed to use the index of blobs {}: {source}", path.display())]
    Index {
        /// The file of the index.
        path: PathBuf,
        /// The error of the database.
        source: Box<redb::Error>,
    },
}

/// Result of an action of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns a function that names the file of an error.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }

    /// Returns true if the disk has no room.
    pub(crate) fn is_full_disk(&self) -> bool {
        let is_full = |error: &std::io::Error| {
            matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
        };
        match self {
            Self::File { source, .. } => is_full(source),
            Self::Index { source, .. } => matches!(&**source, redb::Error::Io(error) if is_full(error)),
            Self::NoIndex(_) => false,
        }
    }
}
