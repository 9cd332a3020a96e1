//! A copy of the store for a backup, while it is used.
//!
//! The index is copied first, as one state. Then the files of its blobs follow, one by one: a hard link where the disk
//! is the same, for a file never changes. A blob that is deleted meanwhile is taken out of the copied index.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::blob::Usage;
use super::disk_store::{INDEX, Store, sync_folder};
use super::rows;
use crate::error::{Error, Result};
use crate::hash::BlobHash;
use crate::limits::PIECE_BYTES;

/// Damaged files that are named.
const NAMED_MAX: usize = 100;
/// Blobs whose hashes are read from the index together.
const PAGE: usize = 1000;

/// A copy of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes and files in it.
    pub usage: Usage,
    /// Files that are missing in the store, although it has their rows. The copy has neither.
    pub missing: u64,
    /// Files of the copy whose bytes have not the hash of their name, as those of the store; the first hundred.
    pub damaged: Vec<PathBuf>,
}

/// The outcome of copying a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopiedFile {
    There,
    /// It was deleted since the index was copied.
    Deleted,
    Missing,
}

impl Store {
    /// Writes a copy of the store into a folder, and proves the hash of every file. Returns what is in it. `rest` is
    /// called after each piece of work. Waits for the disk.
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn back_up(&self, folder: &Path, rest: &mut dyn FnMut()) -> Result<Copied> {
        fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
        let to = folder.join(INDEX);
        self.held(|from| fs::copy(from, &to).map_err(Error::file("copy", from)))??;
        let copy = Self::open(folder)?;
        let (mut last, mut done) = (None, Copied::default());
        loop {
            let hashes = copy.read(|transaction| rows::after(transaction, last, PAGE))?;
            for hash in &hashes {
                match self.copy_file(*hash, &copy)? {
                    CopiedFile::Deleted => {}
                    CopiedFile::Missing => done.missing += 1,
                    CopiedFile::There => {
                        let damaged = copy.damaged(*hash, rest)?;
                        done.damaged.extend(damaged.filter(|_| done.damaged.len() < NAMED_MAX));
                    }
                }
                rest();
            }
            last = hashes.last().copied();
            if hashes.len() < PAGE {
                break;
            }
        }
        for part in fs::read_dir(copy.files()).map_err(Error::file("list", folder))? {
            sync_folder(&part.map_err(Error::file("list", folder))?.path())?;
        }
        done.usage = copy.total()?;
        Ok(done)
    }

    /// Copies a file. One that is not there leaves the copied index.
    fn copy_file(&self, hash: BlobHash, copy: &Self) -> Result<CopiedFile> {
        let (from, to) = (self.path(hash), copy.path(hash));
        if fs::hard_link(&from, &to).is_ok() {
            return Ok(CopiedFile::There);
        }
        let Err(error) = fs::copy(&from, &to).and_then(|_| File::open(&to)?.sync_all()) else {
            return Ok(CopiedFile::There);
        };
        if from.exists() {
            return Err(Error::file("copy", &from)(error));
        }
        copy.write(|transaction| rows::forget(transaction, hash))?;
        // A deletion removes the row before the file.
        if self.blob(hash)?.is_none() {
            return Ok(CopiedFile::Deleted);
        }
        tracing::error!(path = %from.display(), "a file of the media store is missing; the backup is without it");
        Ok(CopiedFile::Missing)
    }

    /// Returns the path of a file whose bytes have not its hash; `None` for a sound one.
    fn damaged(&self, hash: BlobHash, rest: &mut dyn FnMut()) -> Result<Option<PathBuf>> {
        let path = self.path(hash);
        let mut file = File::open(&path).map_err(Error::file("open", &path))?;
        let (mut hasher, mut piece) = (Sha256::new(), vec![0; PIECE_BYTES]);
        loop {
            let bytes = file.read(&mut piece).map_err(Error::file("read", &path))?;
            if bytes == 0 {
                break;
            }
            hasher.update(&piece[..bytes]);
            rest();
        }
        Ok((hasher.finalize()[..] != hash.0).then_some(path))
    }
}
