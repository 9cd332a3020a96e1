//! A file of small tables that one transaction changes together (`redb`), which is opened again after a failure of the
//! disk: the library gives up on a file that failed once, though a full disk has room again later.
//!
//! Whoever keeps tables names the library's types by way of this crate, so one version of it writes every file.
#![forbid(unsafe_code)]

use std::fmt;
use std::path::{Path, PathBuf};

use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
pub use redb;
use redb::{ReadTransaction, ReadableDatabase as _, WriteTransaction};

/// A file of tables.
pub struct Database {
    path: PathBuf,
    opener: Box<Opener>,
    /// `None` until somebody needs it: at first, and after a failure of the disk.
    open: RwLock<Option<redb::Database>>,
}

/// Opens the file.
type Opener = dyn Fn(&Path) -> Result<redb::Database, redb::Error> + Send + Sync;

impl fmt::Debug for Database {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Database").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Database {
    /// Returns a file of tables, which is opened, or made, at its first use. Another process that has it open, and
    /// damage, are found then.
    pub fn new(path: &Path) -> Self {
        Self::opened_by(path, |path| Ok(redb::Database::create(path)?))
    }

    fn opened_by(
        path: &Path,
        open: impl Fn(&Path) -> Result<redb::Database, redb::Error> + Send + Sync + 'static,
    ) -> Self {
        Self { path: path.to_owned(), opener: Box::new(open), open: RwLock::default() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs changes as one transaction, durable when this returns.
    ///
    /// # Errors
    /// Those of `change`, which changes nothing then; failures of the disk.
    pub fn write<T>(&self, change: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>) -> Result<T, redb::Error> {
        self.with(|database| {
            let transaction = database.begin_write()?;
            let result = change(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    /// Reads one state of the tables.
    ///
    /// # Errors
    /// Those of `question`; failures of the disk.
    pub fn read<T>(&self, question: impl FnOnce(&ReadTransaction) -> Result<T, redb::Error>) -> Result<T, redb::Error> {
        self.with(|database| question(&database.begin_read()?))
    }

    /// Uses the file as it was committed last; nothing is committed meanwhile. For a copy of it.
    ///
    /// # Errors
    /// Failures of the disk before `run`.
    pub fn held<T>(&self, run: impl FnOnce(&Path) -> T) -> Result<T, redb::Error> {
        self.with(|database| {
            // Holds off every other writer, and is never committed.
            let _held = database.begin_write()?;
            Ok(run(&self.path))
        })
    }

    /// Uses the open file, which is closed after a failure of the disk.
    fn with<T>(&self, run: impl FnOnce(&redb::Database) -> Result<T, redb::Error>) -> Result<T, redb::Error> {
        let result = self.opened().and_then(|database| run(&database));
        if let Err(redb::Error::Io(_) | redb::Error::PreviousIo) = &result {
            *self.open.write() = None;
        }
        result
    }

    /// Returns the file, which is opened if it is not.
    fn opened(&self) -> Result<MappedRwLockReadGuard<'_, redb::Database>, redb::Error> {
        loop {
            if let Ok(database) = RwLockReadGuard::try_map(self.open.read(), Option::as_ref) {
                return Ok(database);
            }
            let mut database = self.open.write();
            if database.is_none() {
                *database = Some((self.opener)(&self.path)?);
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs::OpenOptions;
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use redb::StorageBackend;
    use redb::backends::FileBackend;

    use super::*;

    /// A file on a disk that may be full.
    #[derive(Debug)]
    struct Disk {
        file: FileBackend,
        is_full: Arc<AtomicBool>,
    }

    impl Disk {
        fn room(&self) -> io::Result<()> {
            if self.is_full.load(Ordering::Relaxed) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
    }

    impl StorageBackend for Disk {
        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.file.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.room()?;
            self.file.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.file.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.room()?;
            self.file.write(offset, data)
        }

        fn close(&self) -> io::Result<()> {
            self.file.close()
        }
    }

    #[test]
    fn a_disk_that_was_full_for_a_moment_takes_records_again() {
        let folder = tempfile::tempdir().unwrap();
        let is_full = Arc::new(AtomicBool::new(false));
        let full = Arc::clone(&is_full);
        let database = Database::opened_by(&folder.path().join("tables.redb"), move |path| {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            let disk = Disk { file: FileBackend::new(file)?, is_full: Arc::clone(&full) };
            Ok(redb::Database::builder().create_with_backend(disk)?)
        });
        let reserve = |first: u32| {
            database.write(|transaction| {
                let mut table = transaction.open_table(redb::TableDefinition::<u32, u32>::new("test"))?;
                table.insert(first, first)?;
                Ok(())
            })
        };
        reserve(1).unwrap();
        is_full.store(true, Ordering::Relaxed);
        reserve(2).unwrap_err();
        reserve(3).unwrap_err();
        is_full.store(false, Ordering::Relaxed);
        reserve(4).unwrap();
        let kept: Vec<u32> = database
            .read(|transaction| {
                let table = transaction.open_table(redb::TableDefinition::<u32, u32>::new("test"))?;
                Ok(redb::ReadableTable::iter(&table)?.map(|row| row.unwrap().0.value()).collect())
            })
            .unwrap();
        assert_eq!(kept, [1, 4]);
    }
}
