//! Names of the build's temporary files, and their removal.
//!
//! `KIND-GGGGG.run` holds the blocks of generation G, `KIND-GGGGG-PPP.run` a sorted run of its partition P. Generations
//! count from 1; `txhashes-00000.run` and `tiphashes-00000.run` belong to all. Files with the extension `tmp` belong to
//! the current generation and are worth nothing without it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The file of a generation's blocks.
pub(super) fn block_file(dir: &Path, kind: &str, generation: u32) -> PathBuf {
    dir.join(format!("{kind}-{generation:05}.run"))
}

/// The run of one partition of a generation.
pub(super) fn run_file(dir: &Path, kind: &str, generation: u32, partition: usize) -> PathBuf {
    dir.join(format!("{kind}-{generation:05}-{partition:03}.run"))
}

/// Attempts to create a file where other processes create files of the same name.
const ATTEMPTS: usize = 16;

/// Creates an empty file for reading and writing, and removes its name at once: it is gone when it is closed, also
/// where the process is killed, and no other process opens it.
pub(crate) fn unnamed_file(path: &Path) -> Result<fs::File> {
    let mut attempt = 1;
    loop {
        remove(path)?;
        match fs::File::options().read(true).write(true).create_new(true).open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && attempt < ATTEMPTS => attempt += 1,
            created => {
                let file = created.map_err(Error::io("create", path))?;
                remove(path)?;
                return Ok(file);
            }
        }
    }
}

/// Writes `bytes` to a new file at `path`, durably.
pub(super) fn write_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = fs::File::create(path).map_err(Error::io("create", path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(Error::io("write", path))
}

/// Makes the names of the files in a folder as durable as the files.
pub(super) fn sync_names(dir: &Path) -> Result<()> {
    fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io("sync", dir))
}

/// Removes the temporary files of a build, except those of generations up to `finished`. `u32::MAX` removes all.
pub(crate) fn remove_leftovers(dir: &Path, finished: u32) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(Error::io("read", dir))? {
        let path = entry.map_err(Error::io("read", dir))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if is_leftover(name, finished) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes a file that may be gone already.
pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Kind of a file that only builds of earlier versions have.
const FORMER_HASHES: &str = "hashes-";

/// True for a file of a build that is not of a finished generation.
fn is_leftover(name: &str, finished: u32) -> bool {
    let Some(run) = name.strip_suffix(".run") else { return name.strip_suffix(".tmp").is_some() };
    if run.starts_with(FORMER_HASHES) {
        return true;
    }
    let generation: u32 = run.split('-').nth(1).and_then(|number| number.parse().ok()).unwrap_or(u32::MAX);
    finished == u32::MAX || generation > finished
}
