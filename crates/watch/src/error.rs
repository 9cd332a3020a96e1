//! The error of watches.

/// A failure of watches.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The watch file cannot be used.
    #[error("{0}")]
    File(String),
    /// The file of notices failed.
    #[error("failed to use {}: {error}", path.display())]
    State {
        /// The file.
        path: std::path::PathBuf,
        /// The failure.
        error: birdhouse_database::redb::Error,
    },
    /// A record of the file of notices cannot be read.
    #[error(
        "failed to read the notices: a record of {table} is damaged; move the file watch-<network>.redb away to begin anew"
    )]
    Damaged {
        /// The table.
        table: &'static str,
    },
    /// Work on the file of notices, or a look at the index, panicked.
    #[error("a thread of the watches panicked; report its message in the log")]
    Panicked,
    /// A test message did not reach the other side.
    #[error("the test message did not reach the channel \"{channel}\": {why}")]
    Undelivered {
        /// The channel.
        channel: String,
        /// The reason.
        why: String,
    },
    /// The index failed.
    #[error(transparent)]
    Chain(#[from] birdhouse_chain::Error),
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
