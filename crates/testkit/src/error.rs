//! Why something of the test kit did not work, in words that say what to do about it.

use std::io;
use std::path::PathBuf;

/// The result of the test kit's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// What failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program that tests run is not on this machine.
    #[error("no {program} found: run `{script}` in the checkout (or `make test`), or set {variable} to its path")]
    Missing {
        /// What was looked for.
        program: &'static str,
        /// The script that gets it.
        script: &'static str,
        /// The environment variable that names it.
        variable: &'static str,
    },
    /// A program that nothing here can get is wanted.
    #[error("set {variable} to the path of {program}")]
    Unnamed {
        /// What is wanted, with its version.
        program: &'static str,
        /// The environment variable that names it.
        variable: &'static str,
    },
    /// A program ended, or did not become ready in time.
    #[error("{program} {what}; its last words:\n{log}")]
    Start {
        /// Which program.
        program: String,
        /// What it did instead of becoming ready.
        what: String,
        /// The end of its log.
        log: String,
    },
    /// The node answered a call with an error.
    #[error("rpc {method}: {message} (code {code})")]
    Rpc {
        /// The method called.
        method: String,
        /// Core's code.
        code: i64,
        /// Core's message.
        message: String,
    },
    /// The node could not be asked, or its answer not be read.
    #[error("http {url}: {message}")]
    Http {
        /// Where to.
        url: String,
        /// What went wrong.
        message: String,
    },
    /// A server of the Electrum protocol answered with an error object.
    #[error("electrum {method}: {error}")]
    Electrum {
        /// The method called.
        method: String,
        /// The error object, unchanged.
        error: serde_json::Value,
    },
    /// A line of the Electrum protocol was not what it should be.
    #[error("electrum protocol: {0}")]
    Protocol(String),
    /// A relay said what it should not, or nothing.
    #[error("relay: {0}")]
    Relay(String),
    /// The node refused a block that we made.
    #[error("node refused the block at height {height}: {reason}")]
    BlockRefused {
        /// Its height.
        height: u32,
        /// `submitblock`'s answer.
        reason: String,
    },
    /// A file or folder.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A socket or a child process.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Names the path in an error of the file system.
pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
    let path = path.into();
    move |source| Error::File { path, source }
}
