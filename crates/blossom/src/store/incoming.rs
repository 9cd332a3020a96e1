//! An upload under way: a file in `incoming`, and the hash of what was written.
//!
//! Dropping it removes the file.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

use crate::error::{Error, Result};
use crate::hash::BlobHash;

/// An upload under way.
pub(crate) struct Incoming {
    path: PathBuf,
    /// `None` once it is dropped.
    file: Option<File>,
    hasher: Sha256,
    size: u64,
}

impl Incoming {
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(Error::file("make", &path))?;
        Ok(Self { path, file: Some(file), hasher: Sha256::new(), size: 0 })
    }

    /// Appends bytes. Waits for the disk.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut file = self.file.as_ref().expect("it is dropped last");
        file.write_all(bytes).map_err(Error::file("write", &self.path))?;
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Returns the number of bytes that were written.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the hash of what was written.
    pub(crate) fn hash(&self) -> BlobHash {
        BlobHash(self.hasher.clone().finalize().into())
    }

    /// Makes the content durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.as_ref().expect("it is dropped last").sync_all().map_err(Error::file("sync", &self.path))
    }

    /// Gives the file its name among the blobs.
    pub(super) fn rename(&self, path: &Path) -> Result<()> {
        fs::rename(&self.path, path).map_err(Error::file("rename", &self.path))
    }
}

/// On a thread that may wait, for a large file is removed as its last handle is closed. A future that is dropped has no
/// other way.
impl Drop for Incoming {
    fn drop(&mut self) {
        let (path, file) = (std::mem::take(&mut self.path), self.file.take());
        let remove = move || {
            // One that was renamed is not there.
            let _ = fs::remove_file(path);
            drop(file);
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}
