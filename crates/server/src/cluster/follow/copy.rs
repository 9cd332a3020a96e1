//! Copying the index of the primary: only what an older copy lacks, resumed after an interruption, and proved.
//!
//! A copy is a folder with a number, `replica/1` and so on, in the folder of the index. Invariant: its `VERSION` is
//! written last, after every file has the hash that the primary gave. So a folder without it is an unfinished copy, of
//! which every file that is right is kept.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::failure::Failure;
use super::primary::Primary;
use crate::cluster::replicas::wire::{ListedFile, Listing, sha256_of};

/// Folder of copies in the folder of the index.
const FOLDER: &str = "replica";
/// File of a store without which it is none.
const VERSION: &str = "VERSION";
/// Pause between two looks at whether the primary has made its copy.
const LOOK: Duration = Duration::from_millis(500);
/// Attempts at one file.
const ATTEMPTS: usize = 2;

/// Numbered copies in the folder of the index.
#[derive(Debug)]
pub(super) struct Copies {
    folder: PathBuf,
}

// === impl Copies ===

impl Copies {
    pub(super) fn of(index_dir: &Path) -> Result<Self, Failure> {
        if index_dir.join(VERSION).exists() {
            return Err(Failure::Permanent(format!(
                "failed to follow: {} has an index of its own; choose another --data-dir for the replica",
                index_dir.display()
            )));
        }
        let copies = Self::in_folder(index_dir);
        fs::create_dir_all(&copies.folder).map_err(|error| Failure::io("create", &copies.folder, &error))?;
        Ok(copies)
    }

    /// Returns the copies in the folder of an index, which need not exist.
    pub(super) fn in_folder(index_dir: &Path) -> Self {
        Self { folder: index_dir.join(FOLDER) }
    }

    /// Returns the newest finished copy.
    pub(super) fn newest(&self) -> Result<Option<PathBuf>, Failure> {
        let finished = self.numbers()?.into_iter().rev().map(|number| self.path(number));
        Ok(finished.into_iter().find(|folder| folder.join(VERSION).exists()))
    }

    /// Removes the copies before the newest finished one. Nobody may use them.
    pub(super) fn remove_older(&self) -> Result<(), Failure> {
        let Some(newest) = self.newest()? else { return Ok(()) };
        for folder in self.numbers()?.into_iter().map(|number| self.path(number)).take_while(|folder| *folder != newest)
        {
            fs::remove_dir_all(&folder).map_err(|error| Failure::io("remove", &folder, &error))?;
        }
        Ok(())
    }

    /// Copies the index of the primary into the folder after the newest finished one, and returns it. `check` may
    /// refuse the manifest of the primary before anything is copied.
    pub(super) fn copy(
        &self,
        primary: &Primary,
        check: impl Fn(&[u8]) -> Result<(), Failure>,
    ) -> Result<PathBuf, Failure> {
        let before = self.newest()?;
        let last = before.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()?.parse::<u64>().ok());
        let target = self.path(last.unwrap_or(0) + 1);
        let listing = listing(primary)?;
        check(&listing.manifest)?;
        let began = Instant::now();
        let mut copied_bytes = 0;
        prepare(&target, &listing)?;
        for file in &listing.files {
            copied_bytes +=
                Transfer { primary, id: listing.id, target: &target, before: before.as_deref() }.file(file)?;
        }
        sync(&target)?;
        let bytes: u64 = listing.files.iter().map(|file| file.bytes).sum();
        let elapsed_ms = began.elapsed().as_millis();
        tracing::info!(files = listing.files.len(), bytes, copied_bytes, elapsed_ms, "copied the index of the primary");
        Ok(target)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(number.to_string())
    }

    /// Ascending.
    fn numbers(&self) -> Result<BTreeSet<u64>, Failure> {
        let failed = |error: std::io::Error| Failure::io("list", &self.folder, &error);
        let mut numbers = BTreeSet::new();
        for entry in self.folder.read_dir().map_err(failed)? {
            numbers.extend(entry.map_err(failed)?.file_name().to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        Ok(numbers)
    }
}

/// Waits until the primary has made a copy.
fn listing(primary: &Primary) -> Result<Listing, Failure> {
    loop {
        if let Some(listing) = primary.copy()? {
            return Ok(listing);
        }
        std::thread::sleep(LOOK);
    }
}

/// Creates the folders of a copy, and removes files of an unfinished one that it lacks.
fn prepare(target: &Path, listing: &Listing) -> Result<(), Failure> {
    for part in ["segments", "log", "arrays"] {
        let folder = target.join(part);
        fs::create_dir_all(&folder).map_err(|error| Failure::io("create", &folder, &error))?;
        let failed = |error: std::io::Error| Failure::io("clean", &folder, &error);
        for entry in folder.read_dir().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = format!("{part}/{}", entry.file_name().to_string_lossy());
            if !listing.files.iter().any(|file| file.path == path) {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
    }
    Ok(())
}

fn sync(target: &Path) -> Result<(), Failure> {
    for folder in ["segments", "log", "arrays", ""].map(|part| target.join(part)) {
        let synced = File::open(&folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| Failure::io("sync", &folder, &error))?;
    }
    Ok(())
}

/// The transfer of one copy.
struct Transfer<'a> {
    primary: &'a Primary,
    id: u64,
    target: &'a Path,
    /// An older copy.
    before: Option<&'a Path>,
}

impl Transfer<'_> {
    /// Brings a file to the target; returns the bytes that crossed the network.
    fn file(&self, file: &ListedFile) -> Result<u64, Failure> {
        let target = self.target.join(&file.path);
        let failed = |error: std::io::Error| Failure::io("write", &target, &error);
        if !target.exists() {
            self.reuse(file, &target).map_err(failed)?;
        }
        let mut copied = 0;
        for _ in 0..ATTEMPTS {
            copied += self.rest(file, &target)?;
            if sha256_of(&target).map_err(failed)? == file.sha256 {
                return Ok(copied);
            }
            // What was there is of another file.
            fs::remove_file(&target).map_err(failed)?;
        }
        Err(Failure::Transient(format!(
            "failed to copy {} of {}: its bytes have another hash than the primary says",
            file.path,
            self.primary.url()
        )))
    }

    /// Takes what an older copy has: a segment with the same bytes, under whatever name, or the beginning of an array.
    fn reuse(&self, file: &ListedFile, target: &Path) -> std::io::Result<()> {
        let Some(before) = self.before else { return Ok(()) };
        if file.path.starts_with("arrays/") && before.join(&file.path).exists() {
            return fs::copy(before.join(&file.path), target).map(drop);
        }
        if !file.path.starts_with("segments/") {
            return Ok(());
        }
        for entry in before.join("segments").read_dir()? {
            let entry = entry?;
            if entry.metadata()?.len() == file.bytes && sha256_of(&entry.path())? == file.sha256 {
                return fs::hard_link(entry.path(), target);
            }
        }
        Ok(())
    }

    /// Fetches what a file lacks at its end; returns the bytes.
    fn rest(&self, file: &ListedFile, target: &Path) -> Result<u64, Failure> {
        let failed = |error: std::io::Error| Failure::io("write", target, &error);
        let has = target.metadata().map_or(0, |metadata| metadata.len());
        if has == file.bytes && target.exists() {
            return Ok(0);
        }
        let mut out = File::options().create(true).write(true).truncate(false).open(target).map_err(failed)?;
        let first = has.min(file.bytes);
        out.set_len(first).map_err(failed)?;
        out.seek(SeekFrom::Start(first)).map_err(failed)?;
        write_pieces(&mut out, target, first..file.bytes, |at| self.primary.piece_of_copy(self.id, file, at))?;
        out.sync_all().map_err(failed)?;
        Ok(file.bytes - first)
    }
}

/// Writes a range of a file of the primary, piece by piece, to `out` at `path`. `piece` fetches what begins at a place.
pub(super) fn write_pieces(
    out: &mut File,
    path: &Path,
    range: Range<u64>,
    piece: impl Fn(u64) -> Result<Vec<u8>, Failure>,
) -> Result<(), Failure> {
    let mut at = range.start;
    while at < range.end {
        let piece = piece(at)?;
        out.write_all(&piece).map_err(|error| Failure::io("write", path, &error))?;
        at += piece.len() as u64;
    }
    Ok(())
}
