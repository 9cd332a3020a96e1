//! The handle of the database, and the mapping of its errors to [`Error`].

use std::io;

use rust_rocksdb::{DBWithThreadMode, ErrorKind, MultiThreaded};

use crate::error::Error;

/// The database; column families can be created and dropped while it is open.
pub(super) type Db = DBWithThreadMode<MultiThreaded>;

/// Maps an error of the engine; `verb` and `what` (a table or a path) name the failed action.
pub(super) fn engine_error(verb: &str, what: &str, error: rust_rocksdb::Error) -> Error {
    let kind = error.kind();
    let reason = error.into_string();
    match kind {
        ErrorKind::Corruption => Error::Corrupt { table: what.to_owned(), reason },
        // The engine passes the error of the operating system on as text only.
        ErrorKind::IOError if reason.contains("No space left on device") => {
            Error::Io { action: format!("{verb} {what}"), cause: io::Error::new(io::ErrorKind::StorageFull, reason) }
        }
        ErrorKind::IOError => Error::Io { action: format!("{verb} {what}"), cause: io::Error::other(reason) },
        _ => Error::Engine(format!("failed to {verb} {what}: {reason}")),
    }
}
