//! Events as JSON objects on the wire ([NIP-01]): parsed once at the edge, and written without intermediate values.
//!
//! Parsing is strict, because two implementations that read one text as two events can be played against each other:
//! hex is lowercase and of its exact length, numbers are integers, no known field occurs twice, text is Unicode without
//! lone surrogates. Fields may be in any order; unknown fields are dropped.
//!
//! [NIP-01]: https://github.com/nostr-protocol/nips/blob/master/01.md

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_json::{Map, Value};

use super::canonical::write_tags;
use super::escape::{Controls, write_string};
use super::{Event, EventId, Pubkey, Signature, Timestamp};
use crate::event::hex;
use crate::event::kind::Kind;
use crate::event::mistake::{Form, mistake};
use crate::event::rejection::Rejection;
use crate::event::tag::Tag;

/// JSON value that is not an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rejection}")]
pub struct Malformed {
    /// Id that the value claims. With an id, the answer is an `OK`; without one, a `NOTICE`.
    pub id: Option<EventId>,
    /// Description of the mistake.
    pub rejection: Rejection,
}

/// Fields by their names in NIP-01.
#[derive(Deserialize)]
struct WireEvent {
    id: Hex<32>,
    pubkey: Hex<32>,
    created_at: u64,
    kind: u16,
    tags: Vec<Vec<String>>,
    content: String,
    sig: Hex<64>,
}

/// Names of the fields.
const FIELDS: [&str; 7] = ["id", "pubkey", "created_at", "kind", "tags", "content", "sig"];

/// The field of a malformed event that an answer needs.
#[derive(Deserialize)]
struct WireName {
    id: Hex<32>,
}

/// Bytes in lowercase hex.
pub(crate) struct Hex<const N: usize>(pub(crate) [u8; N]);

// === impl Event ===

impl Event {
    /// Parses the text of a JSON object, for example of a `RawValue`.
    pub fn from_json(text: &str) -> Result<Self, Malformed> {
        // A derived deserializer would also accept an array of the fields.
        let is_object = text.trim_ascii_start().starts_with('{');
        let parsed = if is_object { serde_json::from_str(text).ok() } else { None };
        let parsed = parsed.ok_or_else(|| mistake(text, "an event", form, &FIELDS));
        let name = || serde_json::from_str::<WireName>(text).ok();
        parsed.and_then(Self::checked).map_err(|rejection| Malformed::new(name(), rejection))
    }

    /// Converts a parsed object. A field that occurs twice cannot be detected here.
    pub fn from_object(object: &Map<String, Value>) -> Result<Self, Malformed> {
        let text = || serde_json::to_string(object).expect("an object is JSON");
        let parsed = WireEvent::deserialize(object).map_err(|_| mistake(&text(), "an event", form, &FIELDS));
        let name = || WireName::deserialize(object).ok();
        parsed.and_then(Self::checked).map_err(|rejection| Malformed::new(name(), rejection))
    }

    fn checked(wire: WireEvent) -> Result<Self, Rejection> {
        let created_at = Timestamp(wire.created_at);
        if created_at > Timestamp::CREATED_AT_MAX {
            return Err(Rejection::invalid("created_at is beyond the year 2106"));
        }
        Ok(Self {
            id: EventId(wire.id.0),
            pubkey: Pubkey(wire.pubkey.0),
            created_at,
            kind: Kind(wire.kind),
            tags: wire.tags.into_iter().map(Tag).collect(),
            content: wire.content,
            sig: Signature(wire.sig.0),
        })
    }

    /// Appends the event as a JSON object without white space.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.reserve(384 + self.content.len() + 80 * self.tags.len()); // most tags name an event
        write_to_tags(out, &self.id, &self.pubkey, self.created_at, self.kind);
        write_tags(out, &self.tags, Controls::Escaped);
        write_to_content(out);
        write_string(out, self.content.as_bytes(), Controls::Escaped);
        write_to_end(out, &self.sig);
    }

    /// Returns the event as a JSON object without white space.
    pub fn to_json(&self) -> String {
        let mut out = Vec::new();
        self.write_json(&mut out);
        String::from_utf8(out).expect("text and ASCII are UTF-8")
    }
}

// The constant parts of the object. Hex digits overwrite zeros, so each part is copied at once.

/// From the beginning to the time.
const HEAD: &[u8] = b"\
    {\"id\":\"0000000000000000000000000000000000000000000000000000000000000000\",\
    \"pubkey\":\"0000000000000000000000000000000000000000000000000000000000000000\",\
    \"created_at\":";
const ID_AT: usize = b"{\"id\":\"".len();
const PUBKEY_AT: usize = ID_AT + 64 + b"\",\"pubkey\":\"".len();

/// After the content.
const END: &[u8] = b"\
    ,\"sig\":\"0000000000000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000000000000\"}";
const SIG_AT: usize = b",\"sig\":\"".len();

pub(crate) fn write_to_tags(out: &mut Vec<u8>, id: &EventId, pubkey: &Pubkey, created_at: Timestamp, kind: Kind) {
    let before = out.len();
    out.extend_from_slice(HEAD);
    hex::write_at(&mut out[before + ID_AT..], &id.0);
    hex::write_at(&mut out[before + PUBKEY_AT..], &pubkey.0);
    serde_json::to_writer(&mut *out, &created_at.0).expect("writing to memory does not fail");
    out.extend_from_slice(b",\"kind\":");
    serde_json::to_writer(&mut *out, &kind.0).expect("writing to memory does not fail");
    out.extend_from_slice(b",\"tags\":");
}

pub(crate) fn write_to_content(out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"content\":");
}

pub(crate) fn write_to_end(out: &mut Vec<u8>, sig: &Signature) {
    let before = out.len();
    out.extend_from_slice(END);
    hex::write_at(&mut out[before + SIG_AT..], &sig.0);
}

// === impl Malformed ===

impl Malformed {
    fn new(name: Option<WireName>, rejection: Rejection) -> Self {
        Self { id: name.map(|name| EventId(name.id.0)), rejection }
    }
}

/// Returns the form of a field's value.
fn form(field: &str) -> Option<Form> {
    Some(match field {
        "id" | "pubkey" => Form::of::<Hex<32>>("64 lowercase hex digits"),
        "created_at" => Form::of::<u64>("an integer of seconds since 1970"),
        "kind" => Form::of::<u16>("an integer from 0 to 65535"),
        "tags" => Form::of::<Vec<Vec<String>>>("a list of lists of strings"),
        "content" => Form::of::<String>("a string"),
        "sig" => Form::of::<Hex<64>>("128 lowercase hex digits"),
        _ => return None,
    })
}

// === impl Hex ===

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits<const N: usize>;
        impl<const N: usize> Visitor<'_> for Digits<N> {
            type Value = Hex<N>;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(out, "{} lowercase hex digits", 2 * N)
            }

            fn visit_str<E: de::Error>(self, digits: &str) -> Result<Self::Value, E> {
                hex::parse(digits).map(Hex).ok_or_else(|| E::invalid_value(de::Unexpected::Str(digits), &self))
            }
        }
        deserializer.deserialize_str(Digits::<N>)
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
