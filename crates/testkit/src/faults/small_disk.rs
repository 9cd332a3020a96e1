//! A disk that becomes full: a small private file system in memory, which one server sees alone.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::statvfs::statvfs;

use crate::error::{Result, at};

/// Bytes that are written together.
const PIECE_BYTES: u64 = 64 << 10;

/// The disk of a running server. It lasts for as long as this value, beyond the end of the server.
#[derive(Debug)]
pub struct SmallDisk {
    root: File,
}

/// Returns true if a private file system can be mounted here; says so where it cannot.
pub fn can_mount() -> bool {
    let probe = Command::new("unshare").args(["-Urm", "mount", "-t", "tmpfs", "probe", "/mnt"]).output();
    let can = probe.is_ok_and(|output| output.status.success());
    if !can {
        println!("skipped: no file system can be mounted here");
    }
    can
}

/// Returns a line of shell that runs the command in `"$0" "$@"` with a disk of some mebibytes at `folder`, which
/// exists. The process keeps its id.
pub fn command_on(folder: &Path, mebibytes: u64) -> String {
    let mount = format!("mount -t tmpfs -o size={mebibytes}m,mode=700 birdhouse-test {}", folder.display());
    format!("exec unshare -Urm sh -ec '{mount} && exec \"$0\" \"$@\"' \"$0\" \"$@\"")
}

impl SmallDisk {
    /// Returns the disk that a process has at `folder`.
    ///
    /// # Errors
    /// The process has ended.
    pub fn of(pid: u32, folder: &Path) -> Result<Self> {
        // The mount is seen from the side of the process alone.
        let path = PathBuf::from(format!("/proc/{pid}/root{}", folder.display()));
        Ok(Self { root: File::open(&path).map_err(at(&path))? })
    }

    /// Returns a path of its root that this process may use.
    pub fn folder(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.root.as_raw_fd()).into()
    }

    /// Fills the disk up to this many free bytes.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub fn fill_up_to(&self, free_bytes: u64) -> Result<()> {
        let space = statvfs(&self.folder()).map_err(std::io::Error::from)?;
        let mut left = (space.blocks_available() * space.fragment_size()).saturating_sub(free_bytes);
        let mut file = File::options().create(true).append(true).open(self.filler())?;
        while left > 0 {
            let some = left.min(PIECE_BYTES);
            // The last writes of a full disk fail.
            let _ = file.write_all(&vec![1; usize::try_from(some).expect("a piece fits in memory")]);
            left -= some;
        }
        Ok(())
    }

    /// Removes what fills the disk.
    ///
    /// # Errors
    /// The disk is not filled.
    pub fn make_room(&self) -> Result<()> {
        Ok(fs::remove_file(self.filler())?)
    }

    fn filler(&self) -> PathBuf {
        self.folder().join("filler")
    }
}
