//! The index of words as tantivy keeps it: one document for each event that has words.
//!
//! ```text
//! text        indexed: the words, with how often they stand there
//! seq, kind, created_at    columns
//! author      column: the first four bytes of the public key
//! payload     of a commit: version, watermark, id of the event below it in hexadecimal (`-`: none)
//! ```

use std::path::Path;

use tantivy::directory::MmapDirectory;
use tantivy::indexer::IndexWriterOptions;
use tantivy::schema::{FAST, Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{PreTokenizedString, Token};
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, Searcher, TantivyDocument, TantivyError};

use super::SearchPlace;
use super::dead_docs::DeadDocs;
use crate::dead::Dead;
use crate::event::{Event, EventId, Pubkey};
use crate::hex;
use crate::log::Seq;
use crate::posting::seconds;

/// Another one means that the index is made again.
const VERSION: &str = "1";
/// Words in memory before they are written.
const MEMORY_BYTES: usize = 32 << 20;

/// The columns' names.
pub(super) const SEQ: &str = "seq";
pub(super) const KIND: &str = "kind";
pub(super) const CREATED_AT: &str = "created_at";
pub(super) const AUTHOR: &str = "author";
const TEXT: &str = "text";

/// What fills the index.
pub(super) struct Engine {
    reader: IndexReader,
    writer: IndexWriter,
    fields: Fields,
    /// The event that comes next.
    pub(super) next: Seq,
    /// Up to where it is committed.
    pub(super) committed: Seq,
    /// Dead events when they were taken out last.
    pub(super) buried: u64,
}

/// What searches see.
#[derive(Clone)]
pub(super) struct View {
    pub(super) searcher: Searcher,
    pub(super) text: Field,
    /// The watermark.
    pub(super) end: Seq,
}

#[derive(Clone, Copy)]
struct Fields {
    text: Field,
    seq: Field,
    kind: Field,
    created_at: Field,
    author: Field,
}

type Result<T> = std::result::Result<T, TantivyError>;

/// What a document says of its author. Authors can meet there: the event decides.
pub(super) fn author(pubkey: &Pubkey) -> u64 {
    u32::from_be_bytes(*pubkey.0.first_chunk().expect("a key is longer")).into()
}

fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    // Words come cut: no tokenizer is ever asked.
    let indexing = TextFieldIndexing::default().set_tokenizer("raw").set_index_option(IndexRecordOption::WithFreqs);
    let text = schema.add_text_field(TEXT, TextOptions::default().set_indexing_options(indexing));
    let [seq, kind, created_at, author] = [SEQ, KIND, CREATED_AT, AUTHOR].map(|name| schema.add_u64_field(name, FAST));
    (schema.build(), Fields { text, seq, kind, created_at, author })
}

// === impl Engine ===

impl Engine {
    /// Opens the index where it was committed last; a new one where there is none that fits the log. `id_of` says which event has a
    /// number.
    ///
    /// # Errors
    /// When no index can be opened or made, and when another process has it.
    pub(super) fn open(place: &SearchPlace, id_of: &dyn Fn(Seq) -> Option<EventId>) -> Result<Self> {
        let SearchPlace::Folder(folder) = place else {
            return Self::of(&Index::create_in_ram(schema().0), Seq(0));
        };
        // Not every damage is found by checksums.
        if let Some(engine) = kept(folder, id_of).and_then(|(index, end)| Self::of(&index, end).ok()) {
            return Ok(engine);
        }
        Self::new_in(folder)
    }

    /// An empty index, in the place of what is there.
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
        let writer = index.writer_with_options(options)?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { reader, writer, fields: schema().1, next: end, committed: end, buried: 0 })
    }

    /// Adds an event that has these words.
    pub(super) fn add(&mut self, event: &Event, seq: Seq, words: Vec<String>) -> Result<()> {
        let token = |(position, text)| Token { text, position, ..Token::default() };
        let tokens = words.into_iter().enumerate().map(token).collect();
        let mut document = TantivyDocument::default();
        let Fields { text, kind, created_at, .. } = self.fields;
        document.add_pre_tokenized_text(text, PreTokenizedString { text: String::new(), tokens });
        document.add_u64(self.fields.seq, seq.0);
        document.add_u64(kind, event.kind.0.into());
        document.add_u64(created_at, seconds(event.created_at).into());
        document.add_u64(self.fields.author, author(&event.pubkey));
        self.writer.add_document(document)?;
        Ok(())
    }

    /// Takes the dead out of the index with the next commit.
    pub(super) fn bury(&mut self, dead: Dead) -> Result<()> {
        let count = dead.count();
        self.writer.delete_query(Box::new(DeadDocs::new(dead)))?;
        self.buried = count;
        Ok(())
    }

    /// Makes durable what was added; `last` is the event below the watermark.
    pub(super) fn commit(&mut self, last: Option<EventId>) -> Result<()> {
        let mut commit = self.writer.prepare_commit()?;
        commit.set_payload(&payload(self.next, last));
        commit.commit()?;
        self.committed = self.next;
        Ok(())
    }

    /// What is committed.
    pub(super) fn view(&self) -> Result<View> {
        self.reader.reload()?;
        Ok(View { searcher: self.reader.searcher(), text: self.fields.text, end: self.committed })
    }
}

/// The index in a folder and its watermark, if it is whole and of this log.
fn kept(folder: &Path, id_of: &dyn Fn(Seq) -> Option<EventId>) -> Option<(Index, Seq)> {
    let index = Index::open(MmapDirectory::open(folder).ok()?).ok()?;
    if index.schema() != schema().0 || !index.validate_checksum().ok()?.is_empty() {
        return None;
    }
    let found = index.load_metas().ok()?.payload?;
    let end = Seq(found.split(' ').nth(1)?.parse().ok()?);
    let last = match end.0.checked_sub(1) {
        Some(last) => Some(id_of(Seq(last))?),
        None => None,
    };
    (found == payload(end, last)).then_some((index, end))
}

fn payload(end: Seq, last: Option<EventId>) -> String {
    format!("{VERSION} {end} {}", last.map_or_else(|| "-".to_owned(), |id| hex::string(&id.0)))
}
