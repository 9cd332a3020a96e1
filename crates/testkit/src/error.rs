//! Errors of the test kit.

use std::io;

pub(crate) use birdhouse_regtest::error::at;

/// The result of the test kit's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of a program, a server or a client that a test uses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program is not installed or did not run, or the node failed.
    #[error(transparent)]
    Regtest(#[from] birdhouse_regtest::Error),
    /// A program that no script of the project installs is needed.
    #[error("failed to find {program}: set {variable} to its path")]
    Unnamed {
        /// The program's name, with its version.
        program: &'static str,
        /// The environment variable that names its path.
        variable: &'static str,
    },
    /// A server of the Electrum protocol answered with an error object.
    #[error("failed to call {method}: {error}")]
    Electrum {
        /// The method called.
        method: String,
        /// The error object, unchanged.
        error: serde_json::Value,
    },
    /// A message broke the rules of its protocol, or did not come.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// A relay sent a wrong message, or none.
    #[error("relay error: {0}")]
    Relay(String),
    /// An operation on a socket or a child process failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// Returns true when a program is not installed; tests that compare with it leave it out.
    pub fn is_missing_program(&self) -> bool {
        matches!(self, Self::Unnamed { .. } | Self::Regtest(birdhouse_regtest::Error::Missing { .. }))
    }
}
