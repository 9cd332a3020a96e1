//! Folders of measured servers.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

/// Bytes of a block of `stat`.
const STAT_BLOCK_BYTES: u64 = 512;

/// Removes a folder if it exists.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("failed to remove {}", folder.display()))?;
    }
    Ok(())
}

/// Returns the bytes on disk of a folder and all below it. What vanishes below it meanwhile counts for nothing.
pub(crate) fn disk_bytes(folder: &Path) -> Result<u64> {
    allocated(folder).with_context(|| format!("failed to read the sizes in {}", folder.display()))
}

fn allocated(path: &Path) -> io::Result<u64> {
    let found = fs::symlink_metadata(path)?;
    let mut bytes = found.blocks() * STAT_BLOCK_BYTES;
    if found.is_dir() {
        for entry in fs::read_dir(path)? {
            bytes += match allocated(&entry?.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                below => below?,
            };
        }
    }
    Ok(bytes)
}

/// Drops the files of a folder and all below it from the file cache, as after a start of the machine.
pub(crate) fn forget(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path)?;
        } else {
            let file = fs::File::open(&path)?;
            file.sync_all()?;
            posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
        }
    }
    Ok(())
}

/// Reads every file of a folder once into the file cache.
pub(crate) fn warm(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            std::io::copy(&mut fs::File::open(path)?, &mut std::io::sink())?;
        }
    }
    Ok(())
}
