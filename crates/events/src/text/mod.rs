//! Words of events and of searches ([NIP-50]). Pure.
//!
//! May use `event`.
//!
//! [NIP-50]: https://github.com/nostr-protocol/nips/blob/master/50.md

mod search_words;
pub(crate) mod tokens;
mod words;

pub use self::search_words::Search;
pub(crate) use self::tokens::{Side, Words};
pub(crate) use self::words::{TEXT_KINDS, text_of, words_of};
