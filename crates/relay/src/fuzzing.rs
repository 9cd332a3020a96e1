//! What must hold of anything that a client sends, or a plugin, for the fuzz targets and for tests with random damage.

use birdhouse_events::Event;
use serde_json::Value;

use crate::frames::{Broken, Compression, Frames, Message};
use crate::message::{ClientMessage, refused};
use crate::plugin::wire::{self, Verdict};
use crate::relay::Settings;

/// What an answer may have more than the question: its own words, and a quotation whose every byte needs escaping.
const ANSWER_BYTES_MORE: usize = 2048;
/// The words before the colon that NIP-01 and 42 know.
const PREFIXES: [&str; 10] = [
    "duplicate",
    "pow",
    "blocked",
    "rate-limited",
    "invalid",
    "restricted",
    "mute",
    "error",
    "auth-required",
    "unsupported",
];

/// Reads a text as a client's message. What is followed means the same when it is said again; what is not gets an answer of the
/// protocol, with a standard prefix, and not much longer than the question.
///
/// # Panics
/// When one of these does not hold.
pub fn message(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match ClientMessage::parse(text, &Settings::default()) {
        Ok(ClientMessage::Event(event)) => said_again("EVENT", &event),
        Ok(ClientMessage::Auth(event)) => said_again("AUTH", &event),
        Ok(_) => {}
        Err(refused) => check_answer(&refused.answer(), text),
    }
}

/// Reads a line as a plugin's answer. What it refuses is refused in a message of the protocol, with a standard prefix, whatever the
/// plugin's words are, and not much longer than these.
///
/// # Panics
/// When one of these does not hold.
pub fn plugin_answer(line: &[u8]) {
    if let Some((id, Verdict::Reject(rejection))) = wire::answer(line) {
        check_answer(&refused(&id, &rejection), &String::from_utf8_lossy(line));
    }
}

/// Bytes of a message at most, where bytes are cut here.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1000;

/// Cuts bytes into messages: the same ones, up to the same fault, however the bytes arrive; and none is larger than was said.
///
/// # Panics
/// When one of these does not hold.
pub fn frames(bytes: &[u8]) {
    for compression in [Compression::Off, Compression::Deflate] {
        let at_once = cut(bytes, bytes.len().max(1), compression);
        for part in [1, 7] {
            assert_eq!(cut(bytes, part, compression), at_once, "in parts of {part}");
        }
        let is_too_large = |message: &Message| matches!(message, Message::Text(text) if text.len() > MESSAGE_BYTES_MAX);
        assert!(!at_once.0.iter().any(is_too_large));
    }
}

/// The messages of bytes that come in parts of so many, and what is wrong behind them.
pub(crate) fn cut(bytes: &[u8], part: usize, compression: Compression) -> (Vec<Message>, Option<Broken>) {
    let (mut frames, mut incoming) = (Frames::new(MESSAGE_BYTES_MAX, compression), Vec::new());
    let mut messages = Vec::new();
    for part in bytes.chunks(part) {
        incoming.extend_from_slice(part);
        loop {
            match frames.cut(&mut incoming) {
                Err(broken) => return (messages, Some(broken)),
                Ok((used, message)) => {
                    incoming.drain(..used);
                    let Some(message) = message else { break };
                    messages.push(message);
                }
            }
        }
        assert!(frames.held() <= 2 * MESSAGE_BYTES_MAX);
    }
    (messages, None)
}

fn said_again(verb: &str, event: &Event) {
    let again = ClientMessage::parse(&format!("[\"{verb}\",{}]", event.to_json()), &Settings::default());
    let Ok(ClientMessage::Event(again) | ClientMessage::Auth(again)) = again else { panic!("refused: {again:?}") };
    assert_eq!(&again, event);
}

fn check_answer(answer: &str, question: &str) {
    let parts: Vec<Value> = serde_json::from_str(answer).expect("an answer is a JSON array");
    let texts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
    let is_formed = match texts.as_slice() {
        ["OK", id, _] => id.len() == 64 && parts.len() == 4 && parts[2] == false,
        ["CLOSED" | "NEG-ERR", _, _] => parts.len() == 3,
        ["NOTICE", _] => parts.len() == 2,
        _ => false,
    };
    let has_prefix = |reason: &&str| reason.split_once(": ").is_some_and(|(prefix, _)| PREFIXES.contains(&prefix));
    assert!(is_formed && texts.last().is_some_and(has_prefix), "{answer}");
    assert!(answer.len() <= question.len() + ANSWER_BYTES_MORE, "{} bytes to {}", answer.len(), question.len());
}
