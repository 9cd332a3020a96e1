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
use std::path::Path;
use std::sync::Arc;

use birdhouse_chain::source::BlockId;
use birdhouse_database::Database;
use birdhouse_database::redb::{self, ReadTransaction, WriteTransaction};
use bitcoin::Txid;

use crate::error::{Error, Result};
use crate::file::{ChannelName, WatchName};
use crate::notice::{Health, Notice};

pub use outbox::Failure;
pub(crate) use outbox::{Attempts, ChannelRecord, Entry, Fate, Head, Pending, Queue, Waiting};
pub(crate) use records::{Changes, Lines, Open, Unread, WatchRecord};

/// The file, open. Clones share it.
#[derive(Debug, Clone)]
pub struct State {
    database: Arc<Database>,
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
        let state = Self { database: Arc::new(Database::new(path)) };
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
        self.database.write(change).map_err(|error| self.failed(error))
    }

    /// Reads one state of the file.
    pub(crate) fn read<T>(&self, question: impl FnOnce(&ReadTransaction) -> Result<T, redb::Error>) -> Result<T> {
        self.database.read(question).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: redb::Error) -> Error {
        Error::State { path: self.path().to_owned(), error }
    }

    /// Copies the file for a backup, as it was committed last; nothing is committed meanwhile. The copy is known as
    /// one, wherever it is put.
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn back_up(&self, target: &Path) -> Result<()> {
        let copied = self.database.held(|path| std::fs::copy(path, target));
        copied.and_then(|copied| Ok(copied?)).map_err(|error| self.failed(error))?;
        Self::open(target)?.write(invoices::mark_as_copy)
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        self.database.path()
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
    use std::fs;

    use super::*;

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
