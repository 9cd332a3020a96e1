//! Failures of an engine.
//!
//! Invariant: damage on disk is always an error, never a shorter answer.

use std::io;
use std::path::Path;

/// A failure of an engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes on disk that no writer produced.
    #[error("table {table} is damaged: {reason}")]
    Corrupt {
        /// The table, array or file.
        table: String,
        /// The damage found.
        reason: String,
    },
    /// A call to the operating system failed.
    #[error("failed to {action}: {cause}{}", advice(.cause))]
    Io {
        /// The failed action as a verb and its object: `write /data/db`.
        action: String,
        /// The error of the operating system. The message includes it, so it is no `source()`, which would print it
        /// twice.
        cause: io::Error,
    },
    /// A cluster did not do its part.
    #[error("failed to {action}: {cause}; check that most nodes of the cluster run and can be reached")]
    Cluster {
        /// The failed action as a verb and its object.
        action: String,
        /// The answer of the cluster, or of the connection to it.
        cause: String,
    },
    /// A cluster and this client do not accept each other.
    #[cfg(feature = "cql")]
    #[error("failed to {action}: {fault}: {cause}")]
    Access {
        /// The failed action as a verb and its object.
        action: String,
        /// The reason.
        fault: AccessFault,
        /// The answer of the cluster, or of the connection to it.
        cause: String,
    },
    /// Another process writes the store now. Nothing that this one writes becomes visible.
    #[error("failed to write {place}: another process took over its lease; start this one again as a spare")]
    Fenced {
        /// The name of the store.
        place: String,
    },
    /// The engine refused a request, or the caller broke a rule of the contract.
    #[error("{0}")]
    Engine(String),
}

/// The reason why a client and a cluster do not accept each other.
#[cfg(feature = "cql")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessFault {
    /// The cluster wants a login, and the client has none.
    NoLogin,
    /// The cluster does not know the role or its password.
    WrongLogin,
    /// The certificate of a node is not signed by an authority that the client trusts, or is not that of its address.
    WrongCertificate,
    /// The client encrypts the connection, and the node does not.
    NotEncrypted,
    /// The node closed a connection that is not encrypted, as one does that wants encrypted ones.
    Closed,
}

#[cfg(feature = "cql")]
impl std::fmt::Display for AccessFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoLogin => "the cluster wants a user and a password",
            Self::WrongLogin => "the cluster refused the user or the password",
            Self::WrongCertificate => "the certificate of the node is not to be trusted",
            Self::NotEncrypted => "the node does not encrypt connections on this port",
            Self::Closed => "the node closed the connection, which is not encrypted",
        })
    }
}

/// The result of a storage call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns the [`Error::Io`] of an action on `path`.
pub(crate) fn io_error(verb: &str, path: &Path, cause: io::Error) -> Error {
    Error::Io { action: format!("{verb} {}", path.display()), cause }
}

/// Returns the advice that follows a cause.
fn advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::StorageFull => "; the disk is full: free some space or move the data folder, then start again",
        _ => "",
    }
}

/// Returns the [`Error::Corrupt`] of a record number at or past the end of an array.
pub(crate) fn past_end(array: &str, number: u64, len: u64) -> Error {
    Error::Corrupt {
        table: array.to_owned(),
        reason: format!("record {number} is past the end: the array has {len} records"),
    }
}

/// Returns the [`Error::Engine`] of bytes that are not whole records.
pub(crate) fn not_whole_records(array: &str, bytes: usize, record_bytes: usize) -> Error {
    Error::Engine(format!("array {array}: {bytes} bytes are not whole records of {record_bytes}"))
}

/// Returns the [`Error::Engine`] of an array that is opened twice with different record sizes.
pub(crate) fn record_size_differs(array: &str, open: usize, asked: usize) -> Error {
    Error::Engine(format!("array {array} is open with records of {open} bytes, not {asked}"))
}

/// Returns the [`Error::Engine`] of a bulk run whose keys do not ascend.
pub(crate) fn keys_do_not_ascend(table: &str) -> Error {
    Error::Engine(format!("bulk run of table {table}: keys must ascend strictly"))
}

/// Returns the [`Error::Engine`] of a write to an array between a cut and its publish.
pub(crate) fn written_after_cut(array: &str) -> Error {
    Error::Engine(format!("array {array} was cut; publish the cut before records are written again"))
}
