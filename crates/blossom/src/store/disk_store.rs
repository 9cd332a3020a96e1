//! The store of a folder: uploads, deletions, and the removal of what a killed process has left.
//!
//! `settling` is held from the rename of a file to the commit of its row, and from the commit of a deletion to the
//! removal of its file; so nobody removes a file whose row is about to come.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use birdhouse_database::Database;
use birdhouse_database::redb::{self, ReadTransaction, WriteTransaction};
use birdhouse_events::Pubkey;
use parking_lot::Mutex;

use super::blob::{Blob, ListPage, Removed, Stored, Swept, Usage};
use super::incoming::Incoming;
use super::reserved::{Quotas, Reservation, Reserved, Stock, Unreserved, Wanted};
use super::rows::{self, Upload};
use crate::error::{Error, Result};
use crate::hash::BlobHash;
use crate::limits::Limits;

/// Name of the index in the folder.
pub(super) const INDEX: &str = "blobs.redb";
/// Folder of the files.
const FILES: &str = "files";
/// Folder of the uploads under way.
const INCOMING: &str = "incoming";
/// Folders in the folder of files: one for each first byte of a hash.
const PARTS: u16 = 256;

/// An upload whose bytes are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settling<'a> {
    pub(crate) owner: Pubkey,
    pub(crate) media_type: &'a str,
    /// Seconds since 1970.
    pub(crate) now: u64,
    /// Its part in the quotas of its key, as it was reserved.
    pub(crate) quotas: Quotas,
}

/// Blobs in a folder.
pub struct Store {
    pub(super) folder: PathBuf,
    database: Database,
    settling: Mutex<()>,
    reserved: Arc<Reserved>,
    /// Number of the next upload.
    next: AtomicU64,
    /// Usage by all, as of the last change.
    bytes: AtomicU64,
    files: AtomicU64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Store").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a folder, or makes it. Uploads that were under way when its process ended are removed.
    ///
    /// # Errors
    /// Another process has it open, the index is damaged, or missing beside files, or the disk fails.
    pub fn open(folder: &Path) -> Result<Self> {
        let store = Self {
            folder: folder.to_owned(),
            database: Database::new(&folder.join(INDEX)),
            settling: Mutex::default(),
            reserved: Arc::default(),
            next: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            files: AtomicU64::new(0),
        };
        for part in [folder, &folder.join(FILES), &folder.join(INCOMING)] {
            fs::create_dir_all(part).map_err(Error::file("make", part))?;
        }
        for part in 0..PARTS {
            let part = store.files().join(format!("{part:02x}"));
            fs::create_dir_all(&part).map_err(Error::file("make", &part))?;
        }
        store.check_index()?;
        // Locks the folder against other processes: nothing is removed before.
        store.write(rows::create)?;
        store.count()?;
        remove_all(&folder.join(INCOMING))?;
        for synced in [folder, &store.files()] {
            sync_folder(synced)?;
        }
        Ok(store)
    }

    /// Checks that files without an index are not taken for files that nobody owns: the library makes a new index where
    /// there is none, and where there is an empty file.
    fn check_index(&self) -> Result<()> {
        let index = self.folder.join(INDEX);
        if fs::metadata(&index).is_ok_and(|file| file.len() > 0) {
            return Ok(());
        }
        for part in fs::read_dir(self.files()).map_err(Error::file("list", &self.files()))? {
            let part = part.map_err(Error::file("list", &self.files()))?.path();
            if fs::read_dir(&part).map_err(Error::file("list", &part))?.next().is_some() {
                return Err(Error::NoIndex(index));
            }
        }
        Ok(())
    }

    /// Returns true if a folder has a store.
    pub fn is_at(folder: &Path) -> bool {
        folder.join(INDEX).exists()
    }

    pub(super) fn files(&self) -> PathBuf {
        self.folder.join(FILES)
    }

    /// Returns the path of a blob's file.
    pub(crate) fn path(&self, hash: BlobHash) -> PathBuf {
        let name = hash.to_string();
        self.files().join(&name[..2]).join(name)
    }

    /// Returns a blob; `None` if there is none. Waits for the disk.
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn blob(&self, hash: BlobHash) -> Result<Option<Blob>> {
        self.read(|transaction| rows::blob(transaction, hash))
    }

    /// Opens the file of a blob that is stored; `None` if it is gone meanwhile.
    pub(crate) fn open_file(&self, hash: BlobHash) -> Result<Option<File>> {
        let path = self.path(hash);
        match File::open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::file("open", &path)(error)),
        }
    }

    /// Returns what a key owns.
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn usage_of(&self, key: Pubkey) -> Result<Usage> {
        self.read(|transaction| rows::usage(transaction, key))
    }

    /// Returns all that is stored, each blob once.
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn total(&self) -> Result<Usage> {
        self.read(rows::total)
    }

    /// Returns true if a key owns a blob.
    pub(crate) fn is_owner(&self, hash: BlobHash, key: Pubkey) -> Result<bool> {
        self.read(|transaction| rows::is_owner(transaction, hash, key))
    }

    /// Returns blobs of a key, the newest first; `None` if the page begins after a blob that the key does not own.
    pub(crate) fn list(&self, key: Pubkey, page: ListPage) -> Result<Option<Vec<Blob>>> {
        self.read(|transaction| rows::list(transaction, key, page))
    }

    /// Reserves room for an upload. Waits for the disk.
    pub(crate) fn reserve(&self, wanted: Wanted, limits: &Limits) -> Result<Reservation, Unreserved> {
        let stock = || Ok(Stock { own: self.usage_of(wanted.owner)?, all: self.total()? });
        self.reserved.take(wanted, stock, limits)
    }

    /// Begins an upload.
    pub(crate) fn begin(&self) -> Result<Incoming> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Incoming::create(self.folder.join(INCOMING).join(number.to_string()))
    }

    /// Stores an upload whose bytes are written, for its owner. It is durable when this returns.
    pub(crate) fn settle(&self, incoming: &Incoming, upload: Settling<'_>) -> Result<Stored> {
        let (hash, size) = (incoming.hash(), incoming.size());
        let Settling { owner, media_type, now, quotas } = upload;
        incoming.sync()?;
        let _settling = self.settling.lock();
        if quotas == Quotas::Owned && !self.is_owner(hash, owner)? {
            return Ok(Stored::Uncounted);
        }
        let is_known = self.blob(hash)?.is_some();
        let row = Upload { hash, owner, size, media_type, now };
        let added = self.add(incoming, &row);
        if added.is_err() && matches!(self.blob(hash), Ok(None)) {
            self.remove_file(hash);
        }
        let blob = added?;
        self.count()?;
        Ok(if is_known { Stored::Known(blob) } else { Stored::New(blob) })
    }

    /// Gives an upload its name among the files, and adds its row.
    fn add(&self, incoming: &Incoming, row: &Upload<'_>) -> Result<Blob> {
        let path = self.path(row.hash);
        // A file that is missing, or was cut short, comes back.
        let is_whole = fs::metadata(&path).is_ok_and(|file| file.len() == row.size);
        if !is_whole || self.blob(row.hash)?.is_none() {
            incoming.rename(&path)?;
            sync_folder(path.parent().expect("a folder of files"))?;
        }
        self.write(|transaction| rows::add(transaction, row))
    }

    /// Removes an owner of a blob, and the blob with the last one. It is durable when this returns.
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn remove(&self, hash: BlobHash, owner: Pubkey) -> Result<Removed> {
        // A stranger makes nobody wait for the disk.
        if self.blob(hash)?.is_none() {
            return Ok(Removed::Unknown);
        }
        if !self.is_owner(hash, owner)? {
            return Ok(Removed::NotOwned);
        }
        let _settling = self.settling.lock();
        let removed = self.write(|transaction| rows::remove(transaction, hash, owner))?;
        if removed == Removed::Blob {
            self.remove_file(hash);
        }
        self.count()?;
        Ok(removed)
    }

    /// Removes the file of a blob without a row. One that stays is removed by a later sweep.
    fn remove_file(&self, hash: BlobHash) {
        let path = self.path(hash);
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "failed to remove a file that nobody owns");
        }
    }

    /// Notes what is stored, for [`Self::counted`].
    fn count(&self) -> Result<()> {
        let Usage { bytes, files } = self.total()?;
        self.bytes.store(bytes, Ordering::Relaxed);
        self.files.store(files, Ordering::Relaxed);
        Ok(())
    }

    /// Returns all that is stored, as of the last change. Does not wait for the disk.
    pub(crate) fn counted(&self) -> Usage {
        Usage { bytes: self.bytes.load(Ordering::Relaxed), files: self.files.load(Ordering::Relaxed) }
    }

    /// Removes files without a row, which a process that was killed has left, from one of the 256 folders of files, at
    /// most this many. Waits for the disk.
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn sweep(&self, part: u8, most: u64) -> Result<Swept> {
        let folder = self.files().join(format!("{part:02x}"));
        let mut swept = Swept::default();
        for entry in fs::read_dir(&folder).map_err(Error::file("list", &folder))? {
            let path = entry.map_err(Error::file("list", &folder))?.path();
            let hash = path.file_name().and_then(|name| BlobHash::parse(name.to_str()?));
            // Of what is no file of ours an operator may still know the use.
            let Some(hash) = hash else { continue };
            if self.blob(hash)?.is_some() {
                swept.kept += 1;
            } else if swept.removed == most {
                swept.left += 1;
            } else if self.remove_orphan(hash, &path)? {
                swept.removed += 1;
            }
        }
        Ok(swept)
    }

    /// Removes a file, unless it has a row now.
    fn remove_orphan(&self, hash: BlobHash, path: &Path) -> Result<bool> {
        let _settling = self.settling.lock();
        if self.blob(hash)?.is_some() {
            return Ok(false);
        }
        match fs::remove_file(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::file("remove", path)(error)),
        }
    }

    // === the index ===

    /// Runs changes as one transaction, durable when this returns.
    pub(super) fn write<T>(&self, change: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>) -> Result<T> {
        self.database.write(change).map_err(|error| self.failed(error))
    }

    /// Reads one state of the index.
    pub(super) fn read<T>(&self, question: impl FnOnce(&ReadTransaction) -> Result<T, redb::Error>) -> Result<T> {
        self.database.read(question).map_err(|error| self.failed(error))
    }

    /// Uses the file of the index as it was committed last; nothing is committed meanwhile.
    pub(super) fn held<T>(&self, run: impl FnOnce(&Path) -> T) -> Result<T> {
        self.database.held(run).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: redb::Error) -> Error {
        Error::Index { path: self.database.path().to_owned(), source: Box::new(error) }
    }
}

/// Removes the files of a folder.
fn remove_all(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::file("list", folder))? {
        let path = entry.map_err(Error::file("list", folder))?.path();
        // A folder there is not ours.
        if !path.is_dir() {
            fs::remove_file(&path).map_err(Error::file("remove", &path))?;
        }
    }
    Ok(())
}

/// Makes the names of files in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::file("sync", folder))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
#[path = "store_tests.rs"]
mod tests;
