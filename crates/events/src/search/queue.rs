//! Documents on their way to the thread that writes the index.
//!
//! Tantivy's queue has room for 10 000 documents, whatever their size. As lists of tokens, 33 MB of events were several
//! hundred megabytes in it. So a document has the text itself, of which the thread makes the words one by one, and
//! documents that wait have a bound in bytes.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tantivy::TantivyDocument;
use tantivy::schema::document::Document;
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

use crate::text::{Side, Words};

/// Bytes of text that wait for the thread; one document that waits alone may have more.
pub(super) const WAITING_BYTES: usize = 4 << 20;
/// Time to wait for room. The thread takes less for what waits; one that has ended says so when the next document is
/// added.
const PATIENCE: Duration = Duration::from_secs(30);

/// Room for the documents that wait. A clone is another handle.
#[derive(Debug, Clone, Default)]
pub(super) struct WaitingRoom(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    bytes: Mutex<usize>,
    has_left: Condvar,
}

/// Document that counts as waiting until it is dropped.
pub(super) struct Queued {
    document: TantivyDocument,
    bytes: usize,
    room: WaitingRoom,
}

// === impl WaitingRoom, Queued ===

impl WaitingRoom {
    /// Waits for room for a document with this text.
    pub(super) fn enter(&self, document: TantivyDocument, text: &str) -> Queued {
        let mut waiting = self.0.bytes.lock();
        while *waiting > 0 && *waiting + text.len() > WAITING_BYTES {
            if self.0.has_left.wait_for(&mut waiting, PATIENCE).timed_out() {
                break;
            }
        }
        *waiting += text.len();
        Queued { document, bytes: text.len(), room: self.clone() }
    }

    fn leave(&self, bytes: usize) {
        *self.0.bytes.lock() -= bytes;
        self.0.has_left.notify_one();
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.room.leave(self.bytes);
    }
}

impl Document for Queued {
    type Value<'a> = <TantivyDocument as Document>::Value<'a>;
    type FieldsValuesIter<'a> = <TantivyDocument as Document>::FieldsValuesIter<'a>;

    fn iter_fields_and_values(&self) -> Self::FieldsValuesIter<'_> {
        self.document.iter_fields_and_values()
    }
}

// === words ===

/// Tokenizer by the rules of [`Words`].
#[derive(Clone, Default)]
pub(super) struct EventWords(Token);

/// The words of one text.
pub(super) struct WordStream<'a> {
    words: Words<'a>,
    token: &'a mut Token,
}

impl Tokenizer for EventWords {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.0.reset();
        WordStream { words: Words::new(text, Side::Event), token: &mut self.0 }
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        // Before the first word the position is the greatest number.
        self.token.position = self.token.position.wrapping_add(1);
        self.words.next_into(&mut self.token.text)
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

/// Returns true if a text has a word.
pub(super) fn has_words(text: &str) -> bool {
    Words::new(text, Side::Event).next_into(&mut String::new())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn documents_wait_for_room_by_bytes_and_a_larger_one_goes_in_alone() {
        let (room, half) = (WaitingRoom::default(), "x".repeat(WAITING_BYTES / 2));
        let enter = |text: &str| room.enter(TantivyDocument::default(), text);
        let waiting = || *room.0.bytes.lock();
        let (one, other) = (enter(&half), enter(&half));
        thread::scope(|scope| {
            let third = scope.spawn(|| enter("y"));
            // It enters when the first leaves, and not before.
            assert_eq!(waiting(), WAITING_BYTES);
            drop(one);
            assert_eq!(third.join().expect("it enters").bytes, 1);
        });
        drop(other);
        assert_eq!(waiting(), 0);
        assert_eq!(enter(&half.repeat(3)).bytes, 3 * half.len());
        assert_eq!(waiting(), 0);
    }

    #[test]
    fn the_index_has_the_words_that_searches_compare() {
        let text = "Käfer, 日本語 #Bitcoin—2x!";
        let (mut words, mut tokenizer) = (Vec::new(), EventWords::default());
        tokenizer.token_stream(text).process(&mut |token| words.push((token.position, token.text.clone())));
        let expected: Vec<_> = crate::text::tokens::words(text, Side::Event).into_iter().enumerate().collect();
        assert_eq!(words, expected);
        assert!(has_words(text) && !has_words(" \n,.🤙"));
    }
}
