//! What can go wrong in an engine.
//!
//! Invariant: damage on disk is always an error, never a shorter answer.

use std::path::Path;

/// What can go wrong in an engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes on disk that no writer produced.
    #[error("table {table} is damaged: {reason}")]
    Corrupt {
        /// The table, array or file.
        table: String,
        /// What was found.
        reason: String,
    },
    /// The operating system refused.
    #[error("{action}: {source}")]
    Io {
        /// What was tried, with the path.
        action: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The engine refused.
    #[error("storage engine: {0}")]
    Engine(String),
}

/// The result of a storage call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An [`Error::Io`] about `path`; a full disk also says what to do.
pub(crate) fn io_error(verb: &str, path: &Path, source: std::io::Error) -> Error {
    let mut action = format!("{verb} {}", path.display());
    if source.kind() == std::io::ErrorKind::StorageFull {
        action.push_str(DISK_FULL);
    }
    Error::Io { action, source }
}

/// What a person can do about a full disk.
pub(crate) const DISK_FULL: &str = " (the disk is full: free some space or move the data folder, then start again)";

/// The [`Error::Corrupt`] of record numbers at or past the end of an array.
pub(crate) fn past_end(array: &str, number: u64, len: u64) -> Error {
    Error::Corrupt { table: array.to_owned(), reason: format!("record {number} was asked for, but there are {len}") }
}

/// The [`Error::Engine`] of bytes that are not whole records.
pub(crate) fn not_whole_records(array: &str, bytes: usize, record_bytes: usize) -> Error {
    Error::Engine(format!("array {array}: {bytes} bytes are not whole records of {record_bytes}"))
}

/// The [`Error::Engine`] of an array opened twice with different record sizes.
pub(crate) fn record_size_differs(array: &str, open: usize, asked: usize) -> Error {
    Error::Engine(format!("array {array} is open with records of {open} bytes, not {asked}"))
}

/// The [`Error::Engine`] of a bulk run whose keys do not ascend.
pub(crate) fn keys_do_not_ascend(table: &str) -> Error {
    Error::Engine(format!("bulk run of table {table}: keys must ascend strictly"))
}
