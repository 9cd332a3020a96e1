//! Requests of a replica, or of a front end of a relay, to the process that writes, over HTTP, and the bytes of both
//! sides.
//!
//! | request | answer |
//! |---|---|
//! | `POST /v1/place`, body: a manifest | 200 `RUN/NUMBER`, the first change after it; 404: copy the index anew |
//! | `GET /v1/changes/RUN/NUMBER` | 200 the change; 204 none yet; 410 copy the index anew |
//! | `GET /v1/runs/RUN/NUMBER/FROM/BYTES` | 200 bytes of a file of a change |
//! | `POST /v1/copy` | 200 a [`Listing`]; 202 it is being made; 503 not now |
//! | `GET /v1/copy/ID/FROM/BYTES/PATH` | 200 bytes of a file of the copy; 410 the copy is gone |
//! | `POST /v1/events`, body: events of a front end of the relay | 200 their outcomes; 400 the reason why not |
//! | `GET /v1/feed/RUN/END/EPHEMERAL` | 200 what the front end must learn; 204 nothing yet |
//!
//! Every answer has the header [`FORMAT`]. A request shows the secret as `Authorization: Bearer SECRET`.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use bitcoin::hashes::{Hash as _, HashEngine as _, sha256};
use serde::{Deserialize, Serialize};

/// Header with the version of this protocol.
pub(crate) const FORMAT: &str = "birdhouse-replica";
/// Its value.
pub(crate) const VERSION: &str = "1";
/// Bytes of a file in one answer.
pub(crate) const PIECE_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a manifest.
pub(super) const MANIFEST_BYTES_MAX: usize = 16 << 20;
/// Bytes of the events of a front end in one message: a mebibyte, and one event beyond.
pub(super) const EVENTS_BYTES_MAX: usize = 16 << 20;
/// Bytes that are hashed together.
const HASHED_BYTES: usize = 1 << 20;

/// The files of a copy, `VERSION` last, and a manifest of its index.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listing {
    pub(crate) id: u64,
    pub(crate) manifest: Vec<u8>,
    pub(crate) files: Vec<ListedFile>,
}

/// A file of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListedFile {
    /// Path in the folder of the store.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

impl ListedFile {
    /// Returns true if its path stays in the folder of the store.
    pub(crate) fn is_inside(&self) -> bool {
        let is_name = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', '\0']);
        self.path.split('/').all(is_name)
    }
}

/// Returns the SHA-256 of a file in hexadecimal.
pub(crate) fn sha256_of(path: &Path) -> std::io::Result<String> {
    let (mut file, mut engine) = (File::open(path)?, sha256::Hash::engine());
    let mut buffer = vec![0; HASHED_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(sha256::Hash::from_engine(engine).to_string()),
            bytes => engine.input(&buffer[..bytes]),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn paths_outside_of_the_folder_are_told_from_others() {
        let is_inside = |path: &str| ListedFile { path: path.into(), bytes: 0, sha256: String::new() }.is_inside();
        for path in ["VERSION", "segments/00000001.seg", "arrays/txid.crc"] {
            assert!(is_inside(path), "{path}");
        }
        for path in ["", "/etc/passwd", "../lock", "arrays/../../lock", "arrays//txid", "."] {
            assert!(!is_inside(path), "{path}");
        }
    }

    #[test]
    fn the_hash_of_a_file_is_that_of_its_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes = vec![7; HASHED_BYTES + 5];
        std::fs::write(file.path(), &bytes).unwrap();
        assert_eq!(sha256_of(file.path()).unwrap(), sha256::Hash::hash(&bytes).to_string());
    }
}
