//! An event as it lies on the disk: half the size of its JSON, and read without taking it apart.
//!
//! ```text
//! pubkey[32] | sig[64] | created_at u32 LE | kind u16 LE | tag count | tags | content
//! tag      element count | elements
//! text     2 * bytes, then UTF-8; or 2 * bytes + 1, then the bytes that lowercase hexadecimal digits stand for
//! counts   LEB128; elements and content are texts
//! ```
//!
//! Invariant: what is decoded is what was encoded, digit for digit: other hexadecimal is kept as text.

use crate::event::{
    Controls, Event, EventId, Pubkey, Signature, Timestamp, write_string, write_to_content, write_to_end, write_to_tags,
};
use crate::filter::Filter;
use crate::hex;
use crate::kind::Kind;
use crate::posting::seconds;
use crate::tag::{Letter, Tag};

/// What JSON needs for the fixed part of an event.
const HEAD_JSON_BYTES: usize = 384;
/// Shorter texts are not worth a look at their digits.
const HEX_BYTES_MIN: usize = 8;

/// An event's packed form.
#[derive(Debug, Clone, Copy)]
pub struct Packed<'a> {
    id: EventId,
    pubkey: &'a [u8; 32],
    sig: &'a [u8; 64],
    created_at: u32,
    kind: Kind,
    /// From the count of tags on.
    rest: &'a [u8],
}

/// A text of a packed event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Text<'a> {
    Plain(&'a str),
    /// What hexadecimal digits stand for.
    Hex(&'a [u8]),
}

/// Appends an event's packed form, without its id.
pub(crate) fn encode(event: &Event, out: &mut Vec<u8>) {
    out.extend_from_slice(&event.pubkey.0);
    out.extend_from_slice(&event.sig.0);
    out.extend_from_slice(&seconds(event.created_at).to_le_bytes());
    out.extend_from_slice(&event.kind.0.to_le_bytes());
    put_count(out, event.tags.len());
    for tag in &event.tags {
        put_count(out, tag.0.len());
        tag.0.iter().for_each(|element| put_text(out, element));
    }
    put_text(out, &event.content);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    if let Some(named) = hex::read(bytes).filter(|_| bytes.len() >= HEX_BYTES_MIN) {
        put_count(out, bytes.len() + 1);
        out.extend(named);
    } else {
        put_count(out, bytes.len() * 2);
        out.extend_from_slice(bytes);
    }
}

fn put_count(out: &mut Vec<u8>, mut count: usize) {
    loop {
        let low = u8::try_from(count & 0x7f).expect("seven bits");
        count >>= 7;
        if count == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

// === impl Packed ===

impl<'a> Packed<'a> {
    /// The event of these bytes; `None` if no event was encoded so. What lies behind the fixed part is looked at when it is needed.
    pub(crate) fn parse(id: EventId, bytes: &'a [u8]) -> Option<Self> {
        let (pubkey, bytes) = bytes.split_first_chunk()?;
        let (sig, bytes) = bytes.split_first_chunk()?;
        let (created_at, bytes) = bytes.split_first_chunk()?;
        let (kind, rest) = bytes.split_first_chunk()?;
        let (created_at, kind) = (u32::from_le_bytes(*created_at), Kind(u16::from_le_bytes(*kind)));
        Some(Self { id, pubkey, sig, created_at, kind, rest })
    }

    /// The event's name.
    pub fn id(self) -> EventId {
        self.id
    }

    /// Seconds since 1970.
    pub fn created_at(self) -> u32 {
        self.created_at
    }

    pub(crate) fn kind(self) -> Kind {
        self.kind
    }

    /// Its author.
    pub fn pubkey(self) -> Pubkey {
        Pubkey(*self.pubkey)
    }

    /// Whether a `p` tag names one of these people; `None` if the bytes are damaged.
    pub(crate) fn names_one_of(self, people: &[Pubkey]) -> Option<bool> {
        let mut cursor = Cursor(self.rest);
        for _ in 0..cursor.count()? {
            let mut is_p = false;
            for place in 0..cursor.count()? {
                match (place, cursor.text()?) {
                    (0, name) => is_p = name == Text::Plain("p"),
                    // A key's 64 digits are never kept as text.
                    (1, Text::Hex(key)) if is_p && people.iter().any(|one| one.0 == key) => return Some(true),
                    _ => {}
                }
            }
        }
        Some(false)
    }

    /// Whole again; `None` if the bytes are damaged.
    pub fn to_event(self) -> Option<Event> {
        let mut cursor = Cursor(self.rest);
        let mut tags = Vec::new();
        for _ in 0..cursor.count()? {
            let elements = cursor.count()?;
            tags.push(Tag((0..elements).map(|_| cursor.text().map(Text::to_text)).collect::<Option<_>>()?));
        }
        let content = cursor.text()?.to_text();
        Some(Event {
            id: self.id,
            pubkey: Pubkey(*self.pubkey),
            created_at: Timestamp(self.created_at.into()),
            kind: self.kind,
            tags,
            content,
            sig: Signature(*self.sig),
        })
    }

    /// Appends the event as a JSON object without white space.
    pub fn write_json(self, out: &mut Vec<u8>) -> Option<()> {
        // A tag that names a key takes 36 bytes here, and 73 there.
        out.reserve(HEAD_JSON_BYTES + 2 * self.rest.len() + self.rest.len() / 16);
        write_to_tags(out, &self.id, &self.pubkey(), Timestamp(self.created_at.into()), self.kind);
        out.push(b'[');
        let mut cursor = Cursor(self.rest);
        for tag in 0..cursor.count()? {
            if tag > 0 {
                out.push(b',');
            }
            if let Some((letter, key)) = cursor.letter_and_key() {
                write_letter_and_key(out, letter, key);
                continue;
            }
            out.push(b'[');
            for element in 0..cursor.count()? {
                if element > 0 {
                    out.push(b',');
                }
                cursor.text()?.write_json(out);
            }
            out.push(b']');
        }
        out.push(b']');
        write_to_content(out);
        cursor.text()?.write_json(out);
        write_to_end(out, &Signature(*self.sig));
        Some(())
    }

    /// Whether the event fulfils every condition but `limit` and `search`; `None` if the bytes are damaged.
    pub(crate) fn matches(self, filter: &Filter) -> Option<bool> {
        let holds = filter.matches_head(&self.id, &self.pubkey(), Timestamp(self.created_at.into()), self.kind);
        if !holds || filter.tags.is_empty() {
            return Some(holds);
        }
        let mut missing: Vec<&(Letter, Vec<String>)> = filter.tags.iter().collect();
        let mut cursor = Cursor(self.rest);
        for _ in 0..cursor.count()? {
            let elements = cursor.count()?;
            let mut texts = [None, None];
            for place in 0..elements {
                let text = cursor.text()?;
                if let Some(kept) = texts.get_mut(place) {
                    *kept = Some(text);
                }
            }
            if let [Some(Text::Plain(name)), Some(text)] = texts
                && let Some(letter) = Letter::parse(name)
            {
                missing.retain(|(asked, values)| *asked != letter || !text.is_one_of(values));
                if missing.is_empty() {
                    return Some(true);
                }
            }
        }
        Some(false)
    }
}

/// The tag that most events have, and follow lists nothing else: `["p","…"]`.
fn write_letter_and_key(out: &mut Vec<u8>, letter: u8, key: &[u8; 32]) {
    // The digits are written where they stay: taking up again what was just written in other pieces is slow.
    let (head, digits, end) = ([b'[', b'"', letter, b'"', b',', b'"'], [0; 64], *b"\"]");
    let at = out.len() + head.len();
    out.extend_from_slice(&head);
    out.extend_from_slice(&digits);
    out.extend_from_slice(&end);
    let digits = out[at..].first_chunk_mut::<64>().expect("they were put there");
    const_hex::encode_to_slice(key, digits).expect("there is room for two digits a byte");
}

// === impl Text ===

impl Text<'_> {
    fn to_text(self) -> String {
        match self {
            Self::Plain(text) => text.to_owned(),
            Self::Hex(bytes) => hex::string(bytes),
        }
    }

    fn write_json(self, out: &mut Vec<u8>) {
        match self {
            Self::Plain(text) => write_string(out, text.as_bytes(), Controls::Escaped),
            Self::Hex(bytes) => {
                out.push(b'"');
                hex::write(out, bytes);
                out.push(b'"');
            }
        }
    }

    /// Whether it is one of these, which ascend.
    fn is_one_of(self, values: &[String]) -> bool {
        match self {
            Self::Plain(text) => values.binary_search_by(|value| value.as_str().cmp(text)).is_ok(),
            Self::Hex(bytes) => values.binary_search_by(|value| hex::compare(value.as_bytes(), bytes)).is_ok(),
        }
    }
}

/// A place in the bytes.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn count(&mut self) -> Option<usize> {
        let mut count = 0_usize;
        for shift in (0..35).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            count |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(count);
            }
        }
        None
    }

    fn text(&mut self) -> Option<Text<'a>> {
        let count = self.count()?;
        let (bytes, rest) = self.0.split_at_checked(count / 2)?;
        self.0 = rest;
        if count % 2 == 1 { Some(Text::Hex(bytes)) } else { std::str::from_utf8(bytes).ok().map(Text::Plain) }
    }

    /// A tag of a letter and 32 bytes, if it is one; nothing is taken if not.
    fn letter_and_key(&mut self) -> Option<(u8, &'a [u8; 32])> {
        const KEY: u8 = 2 * 32 + 1;
        let (&[2, 2, letter, KEY], rest) = self.0.split_first_chunk()? else { return None };
        let (key, rest) = rest.split_first_chunk().filter(|_| letter.is_ascii_alphabetic())?;
        self.0 = rest;
        Some((letter, key))
    }
}
