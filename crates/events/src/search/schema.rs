//! Schema of the full-text index: one document for each event that has words.
//!
//! ```text
//! text        indexed: the words, with their frequencies
//! seq, kind, created_at    columns
//! author      column: the first four bytes of the public key
//! ```

use tantivy::schema::{FAST, Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};

use crate::event::Pubkey;

/// Names of the columns.
pub(super) const SEQ: &str = "seq";
pub(super) const KIND: &str = "kind";
pub(super) const CREATED_AT: &str = "created_at";
pub(super) const AUTHOR: &str = "author";
const TEXT: &str = "text";
/// Name of the tokenizer: that of another one of tantivy's, under which earlier versions of Birdhouse passed words.
pub(super) const TOKENIZER: &str = "raw";

/// Fields of the schema.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    pub(super) text: Field,
    pub(super) seq: Field,
    pub(super) kind: Field,
    pub(super) created_at: Field,
    pub(super) author: Field,
}

/// Returns the schema and its fields.
pub(super) fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let indexing = TextFieldIndexing::default().set_tokenizer(TOKENIZER).set_index_option(IndexRecordOption::WithFreqs);
    let text = schema.add_text_field(TEXT, TextOptions::default().set_indexing_options(indexing));
    let [seq, kind, created_at, author] = [SEQ, KIND, CREATED_AT, AUTHOR].map(|name| schema.add_u64_field(name, FAST));
    (schema.build(), Fields { text, seq, kind, created_at, author })
}

/// Returns the author column's value. Two authors can share one, so a reader checks the event.
pub(super) fn author(pubkey: &Pubkey) -> u64 {
    u32::from_be_bytes(*pubkey.0.first_chunk().expect("a key has 32 bytes")).into()
}
