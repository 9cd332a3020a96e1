//! How failures become [`SourceError`]s: a message that says what to do, and whether waiting can help.

use std::io;
use std::path::Path;

use birdhouse_chain::source::{SourceError, SourceErrorKind};

/// Waiting can help.
pub(crate) fn transient(message: impl Into<String>) -> SourceError {
    SourceError { message: message.into(), kind: SourceErrorKind::Transient }
}

/// What was asked for does not exist.
pub(crate) fn not_found(message: impl Into<String>) -> SourceError {
    SourceError { message: message.into(), kind: SourceErrorKind::NotFound }
}

/// A person must act.
pub(crate) fn permanent(message: impl Into<String>) -> SourceError {
    SourceError { message: message.into(), kind: SourceErrorKind::Permanent }
}

/// A file or folder of the node could not be read.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> SourceError {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::PermissionDenied => permanent(format!(
            "no permission to read {path}: Bitcoin Core makes its files readable for its own user only (umask 077). \
             Run birdhouse as that user, give it access (for example `setfacl -R -m u:USER:rX` on the folder and its \
             parents), or start bitcoind with rest=1 and let birdhouse read blocks over REST"
        )),
        io::ErrorKind::NotFound => permanent(format!(
            "{path} does not exist: give the folder of the running node (--node-dir), or its blocks folder (--blocks-dir). \
             If it was there before, the node is pruned (set prune=0 and download again) or its disk is not mounted"
        )),
        _ => transient(format!("cannot read {path}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_permission_names_the_three_ways_out() {
        let error = unreadable(Path::new("/n/blocks"), &io::ErrorKind::PermissionDenied.into());
        assert_eq!(error.kind, SourceErrorKind::Permanent);
        for way in ["/n/blocks", "as that user", "setfacl", "rest=1"] {
            assert!(error.message.contains(way), "{error}");
        }
    }

    #[test]
    fn disk_error_is_tried_again() {
        let error = unreadable(Path::new("/n/blocks"), &io::ErrorKind::TimedOut.into());
        assert_eq!(error.kind, SourceErrorKind::Transient);
    }
}
