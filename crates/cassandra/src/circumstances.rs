//! The disk and the clock of a node, where they differ from those of the machine.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A node's own disk and clock.
#[derive(Debug, Clone, Default)]
pub(crate) struct Circumstances {
    /// A file with the file system that has the node's data.
    pub(crate) disk: Option<PathBuf>,
    /// The library of a clock that is wrong.
    pub(crate) clock: Option<PathBuf>,
    /// A certificate with its key. With them, clients must encrypt connections, and log in.
    pub(crate) pem: Option<PathBuf>,
}

impl Circumstances {
    /// The environment of `scripts/cassandra`.
    pub(crate) fn envs(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let all = [("CASSANDRA_DISK", &self.disk), ("CASSANDRA_CLOCK", &self.clock), ("CASSANDRA_PEM", &self.pem)];
        all.into_iter().filter_map(|(name, path)| Some((name, path.as_deref()?)))
    }
}

/// Makes a file system with a copy of `data` in a file of `folder`; `None` if this process may not mount it.
pub(crate) fn small_disk(folder: &Path, data: &Path, mebibytes: u64) -> io::Result<Option<PathBuf>> {
    let disk = folder.join("disk");
    File::create(&disk)?.set_len(mebibytes << 20)?;
    let made = Command::new("mkfs.ext4").args(["-q", "-m", "0", "-d"]).args([data, &disk]).status();
    let mounts = || Command::new("unshare").args(["-m", "mount", "-o", "loop"]).args([&disk, data]).output();
    let can = made.is_ok_and(|status| status.success()) && mounts().is_ok_and(|output| output.status.success());
    Ok(can.then_some(disk))
}
