//! The messages of attacks on the relay, and the large events that they search.

use birdhouse_regtest::rng::Rng;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::clients::pipe::{self, frame};
use crate::error::{Error, Result};
use crate::events::corpus::sign::{Draft, People, sign};

/// Large events that the relay stores before attacks begin.
const STORED: u64 = 256;
/// The words that a text repeats, and how often: 126 kB.
const WORDS: &str = "owl nest ";
const REPEATED: usize = 14_000;
/// Time of the first event.
const BEGIN: u64 = 1_700_000_000;
/// Share of the rounds in which a connection asks: one some fifty milliseconds.
pub(super) const SEARCHES_PER_MILLE: u64 = 40;
/// Share of its messages that are new large events, which the full-text index has only seconds later.
const EVENTS_PER_MILLE: u64 = 100;
/// Subscriptions of a connection: a search under way ends when its name is used again.
const NAMES: u64 = 16;
/// Long-form texts (NIP-23) of an author, each replaced again and again.
const TEXTS: u64 = 16;
const LONG_FORM: u16 = 30_023;
const NOTE: u16 = 1;

/// The author of the large events.
pub(super) fn author() -> People {
    People::new(91, 1)
}

/// Stores large events by the relay at a port.
///
/// # Errors
/// The relay refuses one.
pub(super) fn store(port: u16) -> Result<()> {
    let author = author();
    let large = |number: u64| Draft::new(&author, 0, BEGIN + number, NOTE, Vec::new(), WORDS.repeat(REPEATED));
    let mut socket = pipe::ws(pipe::tcp(port)?)?;
    for event in sign(&(0..STORED).map(large).collect::<Vec<_>>(), &author) {
        socket.send(Message::text(format!("[\"EVENT\",{event}]"))).map_err(relay_error)?;
        // The relay begins with a challenge (NIP-42).
        let answer = loop {
            let message = socket.read().map_err(relay_error)?.into_text().map_err(relay_error)?;
            if message.starts_with("[\"OK\"") || message.starts_with("[\"NOTICE\"") {
                break message;
            }
        };
        if !answer.contains(",true") {
            return Err(Error::Relay(format!("refused a large event: {answer}")));
        }
    }
    Ok(())
}

/// Returns the request for a WebSocket.
pub(super) fn upgrade() -> Vec<u8> {
    let head = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    head.into()
}

/// Returns a search that reads every large event and finds none: all have the words, and no event has the tag. Or one
/// more large event, the `number`th of its author.
pub(super) fn search(rng: &mut Rng, author: &People, number: u64) -> Vec<u8> {
    if rng.per_mille(EVENTS_PER_MILLE) {
        let tags = vec![vec!["d".to_owned(), rng.below(TEXTS).to_string()]];
        let draft = Draft::new(author, 0, BEGIN + STORED + number, LONG_FORM, tags, WORDS.repeat(REPEATED));
        return sign(&[draft], author).iter().flat_map(|event| frame(&format!("[\"EVENT\",{event}]"))).collect();
    }
    let name = format!("s{}", rng.below(NAMES));
    frame(&json!(["REQ", name, { "search": WORDS.trim_end(), "#t": ["absent"] }]).to_string())
}

fn relay_error(error: impl std::fmt::Display) -> Error {
    Error::Relay(error.to_string())
}
