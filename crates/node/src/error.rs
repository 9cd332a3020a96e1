//! Constructors of [`SourceError`]s: each has a message with advice, and says by its kind whether waiting can help.

use std::io;
use std::path::Path;

use birdhouse_chain::source::{SourceError, SourceErrorKind};

/// Returns an error that waiting may resolve.
pub(crate) fn transient(message: impl Into<String>) -> SourceError {
    SourceError { message: message.into(), kind: SourceErrorKind::Transient }
}

/// Returns the error of a missing object.
pub(crate) fn not_found(message: impl Into<String>) -> SourceError {
    SourceError { message: message.into(), kind: SourceErrorKind::NotFound }
}

/// Returns an error that only a person can resolve.
pub(crate) fn permanent(message: impl Into<String>) -> SourceError {
    SourceError { message: message.into(), kind: SourceErrorKind::Permanent }
}

/// Returns the error of a file or folder of the node that could not be read.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> SourceError {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::PermissionDenied => permanent(format!(
            "failed to read {path}: permission denied, because Bitcoin Core creates its files for its own user only \
             (umask 077); run birdhouse as that user, give it access (`setfacl -R -m u:USER:rX,d:u:USER:rX` on the \
             folder and its parents), or start bitcoind with rest=1 so that birdhouse reads blocks over REST"
        )),
        io::ErrorKind::NotFound => permanent(format!(
            "failed to read {path}: it does not exist; give the folder of the running node (--node-dir) or its blocks \
             folder (--blocks-dir). If it existed before, its disk is not mounted"
        )),
        _ => transient(format!("failed to read {path}: {error}")),
    }
}

/// Returns the error of a block or undo file that could not be read. A pruned node deletes such files.
pub(crate) fn unreadable_blocks(path: &Path, error: &io::Error) -> SourceError {
    if error.kind() != io::ErrorKind::NotFound {
        return unreadable(path, error);
    }
    not_found(format!(
        "failed to read {}: the file is gone; the node is pruned and has deleted it, or its disk is not mounted",
        path.display()
    ))
}

/// Returns the error of a `bitcoin.conf` that could not be read.
pub(crate) fn unreadable_conf(path: &Path, error: &io::Error) -> SourceError {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return unreadable(path, error);
    }
    permanent(format!(
        "failed to read {}: permission denied, because the node's folder or this file is for the node's user only; run \
         birdhouse as that user, give it access (`setfacl -m u:USER:x` on the folder, `setfacl -m u:USER:r` on the \
         file), or leave --node-dir out and set --network, --rpc-addr, --rpc-user and --rpc-password-file",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_for_a_configuration_is_none_that_stands_in_it() {
        let error = unreadable_conf(Path::new("/n/bitcoin.conf"), &io::ErrorKind::PermissionDenied.into());
        for way in ["/n/bitcoin.conf", "as that user", "u:USER:x", "--rpc-password-file"] {
            assert!(error.message.contains(way), "{error}");
        }
        assert!(!error.message.contains("rest=1"), "{error}");
    }

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
