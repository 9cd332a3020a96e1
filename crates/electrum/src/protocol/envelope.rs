//! The envelope of JSON-RPC: request or batch, id, method, parameters
//! ([2.0](https://www.jsonrpc.org/specification); 1.0 is tolerated).
//!
//! Any line becomes items, each of which is a request or one exact error. The parser never recurses into the client's
//! nesting: members that it does not need stay raw text.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::RpcError;
use crate::limits::Limits;
use crate::protocol::params::Args;

/// The id of a request, echoed to the byte.
#[derive(Debug, Clone)]
pub(crate) struct Id(Box<RawValue>);

/// One parsed line.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    Single(Item<'a>),
    Batch(Vec<Item<'a>>),
}

/// A request, or the error that answers it.
pub(crate) type Item<'a> = Result<Envelope<'a>, Invalid>;

/// A request whose method is not parsed yet. Without an id it is a notification and gets no reply.
#[derive(Debug)]
pub(crate) struct Envelope<'a> {
    pub(crate) id: Option<Id>,
    pub(crate) method: Cow<'a, str>,
    pub(crate) args: Result<Args<'a>, RpcError>,
}

/// JSON that is not a request, with the id under which it is answered.
#[derive(Debug)]
pub(crate) struct Invalid {
    pub(crate) id: Id,
    pub(crate) error: RpcError,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// Distinguishes an explicit null from a missing member.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

// === impl Id ===

impl Id {
    /// Returns the id of a reply to JSON without a valid id.
    pub(crate) fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// Returns the id as the client wrote it.
    pub(crate) fn as_json(&self) -> &str {
        self.0.get()
    }

    fn parse(raw: &RawValue, limits: &Limits) -> Result<Self, RpcError> {
        if raw.get().len() > limits.request_id_bytes {
            let message = format!("an id may have at most {} bytes", limits.request_id_bytes);
            return Err(RpcError::invalid_request(message));
        }
        match raw.get().as_bytes() {
            [b'"' | b'-' | b'0'..=b'9', ..] | b"null" => Ok(Self(raw.to_owned())),
            _ => Err(RpcError::invalid_request("an id is a number or a string")),
        }
    }
}

// === impl Line ===

impl<'a> Line<'a> {
    /// Parses a line, which comes without its end.
    ///
    /// # Errors
    /// The error is the reply to the whole line, with id null.
    pub(crate) fn parse(bytes: &'a [u8], limits: &Limits) -> Result<Self, RpcError> {
        if bytes.trim_ascii_start().first() != Some(&b'[') {
            let line = serde_json::from_slice(bytes).map_err(|_| RpcError::parse())?;
            return Ok(Self::Single(item(line, limits)));
        }
        let items = batch(bytes, limits.batch_items)?;
        if items.is_empty() {
            return Err(RpcError::invalid_request("the batch is empty"));
        }
        Ok(Self::Batch(items.into_iter().map(|raw| item(raw, limits)).collect()))
    }
}

/// Splits an array into its items. Parsing stops after one item too many.
fn batch(bytes: &[u8], items_max: usize) -> Result<Vec<&RawValue>, RpcError> {
    let mut items = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = deserializer.deserialize_seq(Items { items: &mut items, items_max }).and_then(|()| deserializer.end());
    match read {
        _ if items.len() > items_max => {
            Err(RpcError::invalid_request(format!("a batch may have at most {items_max} requests")))
        }
        Ok(()) => Ok(items),
        Err(_) => Err(RpcError::parse()),
    }
}

/// Takes the items of an array, one too many at most.
struct Items<'a, 'b> {
    items: &'b mut Vec<&'a RawValue>,
    items_max: usize,
}

impl<'a> Visitor<'a> for Items<'a, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "at most {} requests", self.items_max)
    }

    fn visit_seq<S: SeqAccess<'a>>(self, mut sequence: S) -> Result<(), S::Error> {
        while self.items.len() <= self.items_max
            && let Some(item) = sequence.next_element()?
        {
            self.items.push(item);
        }
        Ok(())
    }
}

fn item<'a>(raw: &'a RawValue, limits: &Limits) -> Item<'a> {
    let without_id = |error| Invalid { id: Id::null(), error };
    if !raw.get().starts_with('{') {
        return Err(without_id(RpcError::invalid_request("a request is an object")));
    }
    let fields: Fields<'a> = serde_json::from_str(raw.get())
        .map_err(|_| without_id(RpcError::invalid_request("a member of the request stands twice")))?;
    let id = fields.id.map(|raw| Id::parse(raw, limits)).transpose().map_err(without_id)?;
    match fields.method.map(|raw| serde_json::from_str::<Text<'a>>(raw.get())) {
        Some(Ok(Text(method))) => Ok(Envelope { id, method, args: Args::parse(fields.params) }),
        Some(Err(_)) => Err(Invalid::method(id, "the method is not a string")),
        None => Err(Invalid::method(id, "the request has no method")),
    }
}

impl Invalid {
    fn method(id: Option<Id>, message: &'static str) -> Self {
        Self { id: id.unwrap_or_else(Id::null), error: RpcError::invalid_request(message) }
    }
}

/// A string, borrowed unless it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// A parsed line in short form: `method#id`, `code#id`, items of a batch in brackets.
    fn parsed(line: &str) -> String {
        let item = |item: &Item<'_>| match item {
            Ok(Envelope { id: Some(id), method, .. }) => format!("{method}#{}", id.as_json()),
            Ok(Envelope { id: None, method, .. }) => format!("{method}#-"),
            Err(Invalid { id, error }) => format!("{}#{}", error.code, id.as_json()),
        };
        match Line::parse(line.as_bytes(), &Limits::default()) {
            Ok(Line::Single(single)) => item(&single),
            Ok(Line::Batch(items)) => {
                format!("[{}]", items.iter().map(item).collect::<Vec<_>>().join(" "))
            }
            Err(error) => error.code.to_string(),
        }
    }

    #[test]
    fn each_line_becomes_requests_or_exact_errors() {
        let table = [
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[]}"#, "m#1"),
            (r#"{"id":1,"method":"m"}"#, "m#1"),
            (r#"{"method":"m","params":null,"id":"a\u0062"}"#, r#"m#"a\u0062""#),
            (r#"{"method":"m","id":null}"#, "m#null"),
            (r#"{"method":"m","id":-1.50}"#, "m#-1.50"),
            (r#"{"method":"m"}"#, "m#-"),
            (r#"{"method":"\u006d","id":123456789012345678901234567890}"#, "m#123456789012345678901234567890"),
            (r#" {"id":1,"method":"m","extra":{"deep":[[]]}} "#, "m#1"),
            ("", "-32700"),
            ("   ", "-32700"),
            ("hello", "-32700"),
            (r#"{"id":1,"method":"m""#, "-32700"),
            (r#"{"id":1,"method":"m"} trailing"#, "-32700"),
            ("GET / HTTP/1.1", "-32700"),
            ("[1", "-32700"),
            ("[1] 2", "-32700"),
            ("[1,]", "-32700"),
            (" [1]\t", "[-32600#null]"),
            ("1", "-32600#null"),
            ("null", "-32600#null"),
            (r#""text""#, "-32600#null"),
            ("{}", "-32600#null"),
            (r#"{"id":7}"#, "-32600#7"),
            (r#"{"id":7,"method":7}"#, "-32600#7"),
            (r#"{"id":7,"method":null}"#, "-32600#7"),
            (r#"{"method":null}"#, "-32600#null"),
            (r#"{"id":{},"method":"m"}"#, "-32600#null"),
            (r#"{"id":[1],"method":"m"}"#, "-32600#null"),
            (r#"{"id":true,"method":"m"}"#, "-32600#null"),
            (r#"{"id":1,"id":2,"method":"m"}"#, "-32600#null"),
            ("[]", "-32600"),
            (r#"[{"id":1,"method":"a"},2,[],{"method":"b"}]"#, "[a#1 -32600#null -32600#null b#-]"),
        ];
        for (line, expected) in table {
            assert_eq!(parsed(line), expected, "{line}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_no_json() {
        for bytes in [&b"\xff\xfe"[..], b"\"\xc3\"", b"\x00", b"\x16\x03\x01\x02\x00"] {
            assert_eq!(Line::parse(bytes, &Limits::default()).unwrap_err(), RpcError::parse());
        }
    }

    #[test]
    fn deep_nesting_overflows_no_stack() {
        let deep = 400_000;
        assert_eq!(parsed(&"[".repeat(deep)), "-32700");
        assert_eq!(parsed(&format!("{}{}", "[".repeat(deep), "]".repeat(deep))), "[-32600#null]");
        let params = format!("{}{}", "[".repeat(deep), "]".repeat(deep));
        assert_eq!(parsed(&format!(r#"{{"id":1,"method":"m","params":{params}}}"#)), "m#1");
        let objects = format!("{}1{}", r#"{"a":"#.repeat(deep), "}".repeat(deep));
        assert_eq!(parsed(&objects), "-32600#null");
    }

    #[test]
    fn a_huge_id_is_refused() {
        let limits = Limits::default();
        let id = "9".repeat(limits.request_id_bytes);
        assert_eq!(parsed(&format!(r#"{{"id":{id},"method":"m"}}"#)), format!("m#{id}"));
        assert_eq!(parsed(&format!(r#"{{"id":{id}9,"method":"m"}}"#)), "-32600#null");
    }

    #[test]
    fn a_giant_batch_is_refused_as_one() {
        let limits = Limits::default();
        let batch = |items: usize| format!("[{}]", vec!["0"; items].join(","));
        assert_eq!(parsed(&batch(limits.batch_items + 1)), "-32600");
        assert_ne!(parsed(&batch(limits.batch_items)), "-32600");
        assert_eq!(parsed(&batch(limits.batch_items).replace(']', "")), "-32700");
        let unfinished = format!("{},", batch(limits.batch_items + 1).replace(']', ""));
        assert_eq!(parsed(&unfinished), "-32600", "parsing stops after one item too many");
    }
}
