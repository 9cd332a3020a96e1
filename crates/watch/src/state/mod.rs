//! The file `watch-<network>.redb`: everything that outlives the process, a table a file of its own.
//!
//! One transaction commits an update of the index: notices in the log, outbox entries of their channels, open
//! transactions, windows and cursor. So a process that is killed at any moment repeats an update whole, or not at all.

pub(crate) mod invoices;
pub(crate) mod labels;
mod log;
mod outbox;
mod records;
mod warnings;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use birdhouse_chain::source::BlockId;
use bitcoin::Txid;
use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
use redb::{Database, ReadTransaction, ReadableDatabase as _, WriteTransaction};

use crate::error::{Error, Result};
use crate::file::{ChannelName, WatchName};
use crate::notice::{Health, Notice};

pub use outbox::Failure;
pub(crate) use outbox::{Attempts, ChannelRecord, Entry, Fate, Head, Pending, Queue, Waiting};
pub(crate) use records::{Changes, Lines, Open, Unread, WatchRecord};

/// The file, open. Clones share it.
#[derive(Clone)]
pub struct State {
    /// `None` after a failure of the disk, until somebody needs the file again: the library gives up on a file that
    /// failed once, though a full disk has room again later.
    database: Arc<RwLock<Option<Database>>>,
    opener: Arc<Opener>,
    path: PathBuf,
}

/// Opens the file.
type Opener = dyn Fn(&Path) -> Result<Database, redb::Error> + Send + Sync;

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("State").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A notice that an update appends, and the channels that it goes to.
#[derive(Debug, Clone)]
pub(crate) struct Routed {
    pub(crate) notice: Notice,
    pub(crate) channels: Vec<ChannelName>,
}

impl State {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// Another process has it open, it is damaged, or the disk fails.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_by(path, |path| Ok(Database::create(path)?))
    }

    fn open_by(
        path: &Path,
        open: impl Fn(&Path) -> Result<Database, redb::Error> + Send + Sync + 'static,
    ) -> Result<Self> {
        let state = Self { database: Arc::default(), opener: Arc::new(open), path: path.to_owned() };
        state.write(|transaction| {
            log::create(transaction)?;
            records::create(transaction)?;
            invoices::create(transaction)?;
            labels::create(transaction)?;
            warnings::create(transaction)?;
            outbox::create(transaction)
        })?;
        Ok(state)
    }

    /// Returns notices of the log from a position on, ascending, at most `count`.
    ///
    /// # Errors
    /// Damage, and failures of the disk.
    pub fn notices(&self, from_seq: u64, count: usize) -> Result<Vec<Notice>> {
        self.read(|transaction| log::read(transaction, from_seq, count))?
    }

    /// Returns the position that the next notice gets.
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn next_seq(&self) -> Result<u64> {
        self.read(log::next_seq)
    }

    /// The block that was announced last.
    pub(crate) fn cursor(&self) -> Result<Option<BlockId>> {
        self.read(records::cursor)?
    }

    /// All watches that have a record.
    pub(crate) fn watches(&self) -> Result<Vec<(WatchName, WatchRecord)>> {
        self.read(records::watches)?
    }

    /// The open transactions of a watch.
    pub(crate) fn open_transactions(&self, watch: &WatchName) -> Result<Vec<(Txid, Open)>> {
        self.read(|transaction| records::open(transaction, watch))?
    }

    /// Commits an update: its notices, whose positions and ids it sets, and what the watches then know.
    pub(crate) fn commit(&self, routed: &mut [Routed], changes: &Changes) -> Result<()> {
        self.write(|transaction| {
            append(transaction, routed)?;
            records::apply(transaction, changes)
        })
    }

    /// Commits the notice of a warning of the server, or of its end, and sets its position and id.
    pub(crate) fn commit_warning(&self, routed: &mut Routed, about: &str, health: &Health) -> Result<()> {
        self.write(|transaction| {
            append(transaction, std::slice::from_mut(routed))?;
            warnings::put(transaction, about, health)
        })
    }

    /// The warnings of the server that are announced and whose end is not, by what they are about.
    pub(crate) fn warnings(&self) -> Result<BTreeMap<String, Health>> {
        self.read(warnings::all)?
    }

    /// Runs changes as one transaction, durable when this returns.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>) -> Result<T> {
        self.with(|database| {
            let transaction = database.begin_write()?;
            let result = change(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    /// Reads one state of the file.
    pub(crate) fn read<T>(&self, question: impl FnOnce(&ReadTransaction) -> Result<T, redb::Error>) -> Result<T> {
        self.with(|database| question(&database.begin_read()?))
    }

    /// Uses the open file, which is closed after a failure of the disk.
    fn with<T>(&self, run: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T> {
        let result = self.opened().and_then(|database| run(&database));
        if let Err(redb::Error::Io(_) | redb::Error::PreviousIo) = &result {
            *self.database.write() = None;
        }
        result.map_err(|error| Error::State { path: self.path.clone(), error })
    }

    /// Returns the file, which is opened if it is not.
    fn opened(&self) -> Result<MappedRwLockReadGuard<'_, Database>, redb::Error> {
        loop {
            if let Ok(database) = RwLockReadGuard::try_map(self.database.read(), Option::as_ref) {
                return Ok(database);
            }
            let mut database = self.database.write();
            if database.is_none() {
                *database = Some((self.opener)(&self.path)?);
            }
        }
    }

    /// Copies the file for a backup, as it was committed last; nothing is committed meanwhile. The copy is known as
    /// one, wherever it is put.
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn back_up(&self, target: &Path) -> Result<()> {
        self.with(|database| {
            // Holds off every other writer, and is never committed.
            let _held = database.begin_write()?;
            std::fs::copy(&self.path, target)?;
            Ok(())
        })?;
        Self::open(target)?.write(invoices::mark_as_copy)
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Appends notices to the log and to the outboxes of their channels; sets and returns their positions.
pub(crate) fn append(transaction: &WriteTransaction, routed: &mut [Routed]) -> Result<(), redb::Error> {
    for one in routed {
        log::append(transaction, &mut one.notice)?;
        for channel in &one.channels {
            outbox::enqueue(transaction, channel, &one.notice)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io;
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
        let state = State::open_by(&folder.path().join("watch.redb"), move |path| {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            let disk = Disk { file: FileBackend::new(file)?, is_full: Arc::clone(&full) };
            Ok(Database::builder().create_with_backend(disk)?)
        });
        let state = state.unwrap();
        let reserve = |first: u32| {
            state.write(|transaction| {
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
        let kept: Vec<u32> = state
            .read(|transaction| {
                let table = transaction.open_table(redb::TableDefinition::<u32, u32>::new("test"))?;
                Ok(redb::ReadableTable::iter(&table)?.map(|row| row.unwrap().0.value()).collect())
            })
            .unwrap();
        assert_eq!(kept, [1, 4]);
    }

    /// Written over the old file, a copy has its inode and its time of creation.
    #[test]
    fn a_backup_is_known_as_one_wherever_it_is_put() {
        let folder = tempfile::tempdir().unwrap();
        let (file, copy) = (folder.path().join("watch.redb"), folder.path().join("copy.redb"));
        let restores = |state: &State| state.write(|transaction| invoices::generation(transaction, &file)).unwrap();
        let state = State::open(&file).unwrap();
        assert_eq!((restores(&state), restores(&state)), (0, 0));
        state.back_up(&copy).unwrap();
        assert_eq!(restores(&state), 0, "the original stays what it is");
        drop(state);
        fs::write(&file, fs::read(&copy).unwrap()).unwrap();
        let state = State::open(&file).unwrap();
        assert_eq!((restores(&state), restores(&state)), (1, 1));
    }
}
