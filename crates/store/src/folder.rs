//! The folder of a store: its lock and its format version.
//!
//! Invariant: nothing in the folder is read or changed before the lock is held.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;

use crate::error::{Error, Result, io_error};
use crate::sync::sync_folder;

/// Time to wait for the lock. A process that ends releases it soon. So does a process that was just forked: until it
/// executes another program it holds every file that was open.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_POLL: Duration = Duration::from_millis(10);

/// A locked folder.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    layout: Layout,
    /// Held while the store is open; the kernel releases it when the process dies.
    _lock: File,
}

/// The layout of an engine's folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Its version. The meaning of rows has a version of its own, in the caller's manifest.
    pub(crate) format: &'static str,
    /// Folders that the engine needs beside `arrays` and `bulk`. Its data lies in the first.
    pub(crate) parts: &'static [&'static str],
}

/// Returns the bytes that this user may still write to the disk of a folder; `None` where this is unknown.
pub fn disk_free_bytes(folder: &Path) -> Option<u64> {
    let disk = statvfs(folder).ok()?;
    Some(disk.blocks_available() * disk.fragment_size())
}

// === impl Folder ===

impl Folder {
    /// Creates the folder where it is missing, locks it and checks its version; removes bulk runs that a crash left.
    pub(crate) fn open(path: &Path, layout: Layout) -> Result<Self> {
        create(path)?;
        let folder = Self { path: path.to_owned(), layout, _lock: lock(path)? };
        folder.check_version()?;
        if folder.bulk().exists() {
            std::fs::remove_dir_all(folder.bulk()).map_err(|source| io_error("remove", &folder.bulk(), source))?;
        }
        for part in layout.parts.iter().chain(&["arrays", "bulk"]) {
            create(&folder.join(part))?;
        }
        sync_folder(path)?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn join(&self, part: &str) -> PathBuf {
        self.path.join(part)
    }

    pub(crate) fn arrays(&self) -> PathBuf {
        self.join("arrays")
    }

    pub(crate) fn bulk(&self) -> PathBuf {
        self.join("bulk")
    }

    fn check_version(&self) -> Result<()> {
        let path = self.join("VERSION");
        let expected = self.layout.format;
        match std::fs::read_to_string(&path) {
            Ok(format) if format.trim() == expected => Ok(()),
            Ok(format) => Err(self.other_format(format.trim())),
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => self.write_version(&path),
            Err(source) => Err(io_error("read", &path, source)),
        }
    }

    fn other_format(&self, found: &str) -> Error {
        let known = self.layout.format;
        let is_newer = matches!((found.parse::<u32>(), known.parse::<u32>()), (Ok(found), Ok(known)) if found > known);
        let remedy = if is_newer {
            "it is good: install the newer version that wrote it"
        } else {
            "use the version that wrote it. An index: build it anew in an empty folder. A relay: export its events with \
             the version that wrote them, and import them into an empty folder"
        };
        let path = self.path.display();
        Error::Engine(format!(
            "failed to open {path}: its format is {found:?}, and this version reads format {known}; {remedy}"
        ))
    }

    /// Writes the version into a folder that holds no store yet.
    fn write_version(&self, version: &Path) -> Result<()> {
        if self.layout.parts.iter().any(|part| self.join(part).exists()) {
            return Err(Error::Engine(format!(
                "failed to open {}: it holds a store without a VERSION file, as an unfinished copy does; copy the whole \
                 folder again, or restore a backup. An index can be built anew in an empty folder",
                self.path.display(),
            )));
        }
        let draft = self.path.join("VERSION.new");
        File::create(&draft)
            .and_then(|mut file| {
                file.write_all(format!("{}\n", self.layout.format).as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| std::fs::rename(&draft, version))
            .map_err(|source| io_error("write", version, source))?;
        sync_folder(&self.path)
    }
}

fn create(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|source| io_error("create", path, source))
}

fn lock(path: &Path) -> Result<File> {
    let path = path.join("lock");
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|source| io_error("open", &path, source))?;
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(source)) => return Err(io_error("lock", &path, source)),
            Err(TryLockError::WouldBlock) if since.elapsed() < LOCK_PATIENCE => thread::sleep(LOCK_POLL),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Io {
                    action: format!("lock {}", path.display()),
                    cause: std::io::Error::new(
                        std::io::ErrorKind::WouldBlock,
                        "another birdhouse uses this folder; stop it or choose another data folder",
                    ),
                });
            }
        }
    }
}
