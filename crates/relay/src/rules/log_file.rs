//! The file of the audit log: read within a bound, extended durably, cut, and set aside when it cannot be read.
//!
//! The operator may delete or empty the file while the server runs: nothing here relies on its earlier length.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use tracing::warn;

use super::file::{OWNER_ONLY, replace};
use crate::limits::AUDIT_BYTES;

/// Bytes that are read; a larger file is not one of this log.
const READ_BYTES_MAX: usize = 4 * AUDIT_BYTES;
/// Extension of a file that was set aside.
const SET_ASIDE: &str = "damaged";

/// Reads all bytes; none without a file.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > READ_BYTES_MAX {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("it has more than {READ_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// Returns the file's bytes; 0 without a file.
pub(super) fn length(path: &Path) -> io::Result<u64> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        found => found.map(|found| found.len()),
    }
}

/// Adds bytes at the end, durably. Makes the file where there is none.
pub(super) fn extend(path: &Path, added: &[u8]) -> io::Result<()> {
    let open = || OpenOptions::new().append(true).mode(OWNER_ONLY).open(path);
    let mut file = match open() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // With the folder synced, the file outlasts a power cut.
            replace(path, &[])?;
            open()?
        }
        opened => opened?,
    };
    file.write_all(added)?;
    file.sync_data()
}

/// Cuts what is behind these bytes. A shorter file stays as it is.
pub(super) fn cut(path: &Path, bytes: usize) -> io::Result<()> {
    if length(path)? <= bytes as u64 {
        return Ok(());
    }
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(bytes as u64)?;
    file.sync_all()
}

/// Moves a file away that cannot be read, so that a new one can begin.
pub(super) fn set_aside(path: &Path, error: &io::Error) {
    let aside = path.with_extension(SET_ASIDE);
    match fs::rename(path, &aside) {
        Ok(()) => warn!(%error, aside = %aside.display(), "set the audit log aside, which cannot be read"),
        Err(why) => warn!(%error, %why, path = %path.display(), "the audit log can neither be read nor set aside"),
    }
}
