//! Properties of everything that a client or a plugin sends, for the fuzz targets and for tests with random damage.

use birdhouse_events::Event;
use negentropy::{Id, Negentropy, NegentropyStorageVector};
use serde_json::Value;

use crate::limits::SYNC_FRAME_BYTES;
use crate::message::{ClientMessage, refused};
use crate::plugin::{Verdict, wire};
use crate::settings::Settings;

/// Bytes that an answer may have more than the question: its own words, and a quotation whose every byte is escaped.
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

/// Reads a text as a client's message. What is followed means the same when it is said again; what is not gets an
/// answer of the protocol, with a standard prefix, and not much longer than the question.
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

/// Reads a line as a plugin's answer. What it refuses is refused in a message of the protocol, with a standard
/// prefix, whatever the plugin's words are, and not much longer than these.
///
/// # Panics
/// When one of these does not hold.
pub fn plugin_answer(line: &[u8]) {
    if let Some((id, Verdict::Reject(rejection))) = wire::answer(line) {
        check_answer(&refused(&id, &rejection), &String::from_utf8_lossy(line));
    }
}

/// Takes bytes as a client's message of a negentropy session of a few hundred events. The answer keeps its bound, and
/// is one that a second session answers.
///
/// # Panics
/// When one of these does not hold.
pub fn negentropy(bytes: &[u8]) {
    let session = || {
        let mut ids = NegentropyStorageVector::new();
        for number in 0..300_u16 {
            let mut id = [0; 32];
            id[..2].copy_from_slice(&number.wrapping_mul(40_503).to_be_bytes());
            ids.insert((number / 3).into(), Id::from_byte_array(id)).expect("it is not sealed");
        }
        ids.seal().expect("it is not sealed");
        Negentropy::owned(ids, SYNC_FRAME_BYTES).expect("the bound is large enough")
    };
    if let Ok(answer) = session().reconcile(bytes) {
        assert!(answer.len() as u64 <= SYNC_FRAME_BYTES, "{} bytes", answer.len());
        session().reconcile(&answer).expect("an answer is a message of the protocol");
    }
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
