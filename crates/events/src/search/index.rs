//! The full-text index as tantivy stores it: opening, adding events, deleting tombstoned ones, committing.
//!
//! ```text
//! payload     of a commit: version, watermark, id of the event below it in hexadecimal (`-`: none, or gone)
//! ```

use std::path::Path;

use tantivy::directory::MmapDirectory;
use tantivy::indexer::IndexWriterOptions;
use tantivy::schema::Field;
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, Searcher, TantivyDocument, TantivyError};

use super::queue::{EventWords, Queued, WaitingRoom};
use super::schema::{Fields, TOKENIZER, author, schema};
use super::storage::SearchStorage;
use super::tombstone_docs::TombstoneDocs;
use crate::event::{Event, EventId, Seq, hex};
use crate::log::Tombstones;

/// Version of the index. An index of another version is rebuilt.
const VERSION: &str = "1";
/// Bytes that tantivy buffers before it writes a segment.
const MEMORY_BYTES: usize = 32 << 20;

/// Writer of the index.
pub(super) struct Engine {
    reader: IndexReader,
    writer: IndexWriter<Queued>,
    room: WaitingRoom,
    fields: Fields,
    /// The next event to index.
    pub(super) next: Seq,
    /// Watermark of the last commit.
    pub(super) committed: Seq,
    /// Number of tombstones at the last deletion from the index.
    pub(super) deleted: u64,
}

/// Committed state of the index, as searches see it.
#[derive(Debug, Clone)]
pub(super) struct IndexSnapshot {
    pub(super) searcher: Searcher,
    pub(super) text: Field,
    /// Watermark: the index holds the events below it.
    pub(super) end: Seq,
}

/// Contents of the log of events under a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logged {
    /// The event with this id.
    Event(EventId),
    /// An event that was removed.
    Gone,
    /// Nothing that can be read.
    Nothing,
}

type Result<T> = std::result::Result<T, TantivyError>;

// === impl Engine ===

impl Engine {
    /// Opens the index at its last commit, or a new index if none fits the log. `logged` tells what
    /// the log has of a number.
    ///
    /// # Errors
    /// If no index can be opened or created, or another process has it open.
    pub(super) fn open(storage: &SearchStorage, logged: &dyn Fn(Seq) -> Logged) -> Result<Self> {
        let SearchStorage::Folder(folder) = storage else {
            return Self::of(&Index::create_in_ram(schema().0), Seq(0));
        };
        // Checksums do not find every damage.
        if let Some(engine) = existing(folder, logged).and_then(|(index, end)| Self::of(&index, end).ok()) {
            return Ok(engine);
        }
        Self::new_in(folder)
    }

    /// Creates an empty index and removes whatever the folder contains.
    pub(super) fn new_in(folder: &Path) -> Result<Self> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder)?;
        Self::of(&Index::create_in_dir(folder, schema().0)?, Seq(0))
    }

    fn of(index: &Index, end: Seq) -> Result<Self> {
        let options = IndexWriterOptions::builder()
            .memory_budget_per_thread(MEMORY_BYTES)
            .num_worker_threads(1)
            .num_merge_threads(1)
            .build();
        index.tokenizers().register(TOKENIZER, EventWords::default());
        let writer: IndexWriter<Queued> = index.writer_with_options(options)?;
        // A commit that was cut off may have left files under names that the next one uses.
        writer.garbage_collect_files().wait()?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let (fields, room) = (schema().1, WaitingRoom::default());
        Ok(Self { reader, writer, room, fields, next: end, committed: end, deleted: 0 })
    }

    /// Adds an event under the words of its text. Waits while the thread that writes has much to do.
    pub(super) fn add(&mut self, event: &Event, seq: Seq, text: &str) -> Result<()> {
        let mut document = TantivyDocument::default();
        document.add_text(self.fields.text, text);
        document.add_u64(self.fields.seq, seq.0);
        document.add_u64(self.fields.kind, event.kind.0.into());
        document.add_u64(self.fields.created_at, event.created_at.to_u32().into());
        document.add_u64(self.fields.author, author(&event.pubkey));
        self.writer.add_document(self.room.enter(document, text))?;
        Ok(())
    }

    /// Deletes tombstoned events from the index with the next commit.
    pub(super) fn delete_tombstoned(&mut self, tombstones: Tombstones) -> Result<()> {
        let count = tombstones.count();
        self.writer.delete_query(Box::new(TombstoneDocs::new(tombstones)))?;
        self.deleted = count;
        Ok(())
    }

    /// Makes durable what was added. `last` is the event below the new watermark.
    pub(super) fn commit(&mut self, last: Option<EventId>) -> Result<()> {
        let mut commit = self.writer.prepare_commit()?;
        commit.set_payload(&payload(self.next, last));
        commit.commit()?;
        self.committed = self.next;
        Ok(())
    }

    /// Returns the committed state.
    pub(super) fn snapshot(&self) -> Result<IndexSnapshot> {
        self.reader.reload()?;
        Ok(IndexSnapshot { searcher: self.reader.searcher(), text: self.fields.text, end: self.committed })
    }
}

/// Returns the index in a folder and its watermark, if the index is whole and belongs to this log.
fn existing(folder: &Path, logged: &dyn Fn(Seq) -> Logged) -> Option<(Index, Seq)> {
    let index = Index::open(MmapDirectory::open(folder).ok()?).ok()?;
    if index.schema() != schema().0 || !index.validate_checksum().ok()?.is_empty() {
        return None;
    }
    let found = index.load_metas().ok()?.payload?;
    let end = Seq(found.split(' ').nth(1)?.parse().ok()?);
    let fits = match end.0.checked_sub(1).map(Seq) {
        None => found == payload(end, None),
        Some(last) => match logged(last) {
            Logged::Event(id) => found == payload(end, Some(id)),
            // Nothing is left to compare the id with.
            Logged::Gone => found.starts_with(&format!("{VERSION} ")),
            Logged::Nothing => false,
        },
    };
    fits.then_some((index, end))
}

fn payload(end: Seq, last: Option<EventId>) -> String {
    format!("{VERSION} {end} {}", last.map_or_else(|| "-".to_owned(), |id| hex::string(&id.0)))
}
