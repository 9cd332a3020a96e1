//! The folder of a store: who may use it, and which format it has.
//!
//! Invariant: nothing in the folder is read or changed before the lock is held.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::array::sync_folder;
use crate::error::io_error;
use crate::{Error, Result};

/// Number of the layout of this folder. What rows mean has a version of its own, in the caller's mark.
const FORMAT: &str = "1";

/// Who is ending lets the folder go soon. So does a process that was begun just now: until it runs another program it holds every
/// file that was open.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_POLL: Duration = Duration::from_millis(10);

/// The locked folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Held while the store is open; the kernel lets it go when the process dies.
    _lock: File,
}

// === impl Folder ===

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self> {
        create(path)?;
        let folder = Self { path: path.to_owned(), _lock: lock(path)? };
        folder.check_version()?;
        if folder.bulk().exists() {
            std::fs::remove_dir_all(folder.bulk()).map_err(|source| io_error("removing", &folder.bulk(), source))?;
        }
        for part in [folder.db(), folder.arrays(), folder.bulk()] {
            create(&part)?;
        }
        sync_folder(path)?;
        Ok(folder)
    }

    pub(super) fn db(&self) -> PathBuf {
        self.path.join("db")
    }

    pub(super) fn arrays(&self) -> PathBuf {
        self.path.join("arrays")
    }

    pub(super) fn bulk(&self) -> PathBuf {
        self.path.join("bulk")
    }

    fn check_version(&self) -> Result<()> {
        let path = self.path.join("VERSION");
        match std::fs::read_to_string(&path) {
            Ok(format) if format.trim() == FORMAT => Ok(()),
            Ok(format) => Err(Error::Engine(format!(
                "{} has format {:?}, this birdhouse reads format {FORMAT}: use the birdhouse that \
                 wrote it, or remove the folder to build it anew",
                self.path.display(),
                format.trim(),
            ))),
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => self.found(&path),
            Err(source) => Err(io_error("reading", &path, source)),
        }
    }

    /// Writes the version into a folder that holds no store yet.
    fn found(&self, version: &Path) -> Result<()> {
        if self.db().exists() {
            return Err(Error::Engine(format!(
                "{} holds a store without a VERSION file: remove the folder to build it anew",
                self.path.display(),
            )));
        }
        let draft = self.path.join("VERSION.new");
        File::create(&draft)
            .and_then(|mut file| {
                file.write_all(format!("{FORMAT}\n").as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| std::fs::rename(&draft, version))
            .map_err(|source| io_error("writing", version, source))?;
        sync_folder(&self.path)
    }
}

fn create(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|source| io_error("creating", path, source))
}

fn lock(path: &Path) -> Result<File> {
    let path = path.join("lock");
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|source| io_error("opening", &path, source))?;
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(source)) => return Err(io_error("locking", &path, source)),
            Err(TryLockError::WouldBlock) if since.elapsed() < LOCK_PATIENCE => thread::sleep(LOCK_POLL),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Io {
                    action: format!("locking {}", path.display()),
                    source: std::io::Error::new(
                        std::io::ErrorKind::WouldBlock,
                        "another birdhouse uses this folder: stop it, or choose another data folder",
                    ),
                });
            }
        }
    }
}
