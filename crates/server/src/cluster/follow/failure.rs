//! Why a replica does not get on: whether a person must act, or time may help.

use std::path::Path;

/// The reason why a replica does not get on.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A person must act.
    Permanent(String),
    /// It may pass.
    Transient(String),
}

// === impl Failure ===

impl Failure {
    /// Returns the failure of an action on `path`.
    pub(super) fn io(verb: &str, path: &Path, error: &std::io::Error) -> Self {
        let advice = match error.kind() {
            std::io::ErrorKind::StorageFull => "; the disk is full: free some space",
            _ => "",
        };
        Self::Transient(format!("failed to {verb} {}: {error}{advice}", path.display()))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Permanent(reason) | Self::Transient(reason)) = self;
        formatter.write_str(reason)
    }
}

impl std::error::Error for Failure {}

impl From<birdhouse_store::Error> for Failure {
    fn from(error: birdhouse_store::Error) -> Self {
        Self::Transient(error.to_string())
    }
}
