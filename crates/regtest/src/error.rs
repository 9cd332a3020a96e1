//! Errors of this crate; each message says what to do about it where that is known.

use std::io;
use std::path::PathBuf;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of a program, of a call to the node, or of a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program is not installed on this machine.
    #[error("failed to find {program}: run `{script}` in the checkout (or `make test`), or set {variable} to its path")]
    Missing {
        /// The program's name.
        program: &'static str,
        /// The script that installs it.
        script: &'static str,
        /// The environment variable that names its path.
        variable: &'static str,
    },
    /// A program ended, or was not ready in time.
    #[error("failed to run {program}: it {what}; the end of its log:\n{log}")]
    Start {
        /// The program's name.
        program: String,
        /// The predicate of the message, for example "ended before it was ready".
        what: String,
        /// The end of its log.
        log: String,
    },
    /// The node answered a call with an error.
    #[error("failed to call {method}: {message} (code {code})")]
    Rpc {
        /// The method called.
        method: String,
        /// Core's error code.
        code: i64,
        /// Core's message.
        message: String,
    },
    /// The node did not answer a request, or its answer is not readable.
    #[error("failed to request {url}: {message}")]
    Http {
        /// The URL of the request.
        url: String,
        /// The cause.
        message: String,
    },
    /// The node refused a block that this crate made.
    #[error("failed to submit the block at height {height}: {reason}")]
    BlockRefused {
        /// The block's height.
        height: u32,
        /// The answer of `submitblock`.
        reason: String,
    },
    /// A file for `-loadblock` holds a record that is not a block.
    #[error("failed to parse a block of a -loadblock file: {0}")]
    Block(#[from] bitcoin::consensus::encode::Error),
    /// An operation on a file or folder failed.
    #[error("failed to use {path}: {source}")]
    File {
        /// The path of the file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// An operation on a socket or a child process failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Returns a closure that adds `path` to an error of the file system.
pub fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
    let path = path.into();
    move |source| Error::File { path, source }
}
