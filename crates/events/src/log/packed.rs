//! The packed form of an event, as on disk: half the size of its JSON, and readable without unpacking.
//!
//! ```text
//! pubkey[32] | sig[64] | created_at u32 LE | kind u16 LE | tag count | tags | content
//! tag      element count | elements
//! text     2 * bytes, then UTF-8; or 2 * bytes + 1, then the bytes that lowercase hexadecimal digits stand for
//! counts   LEB128; elements and content are texts
//! ```
//!
//! Invariant: decoding returns exactly what was encoded. Hexadecimal in another form is kept as text. A text has one
//! form, so equal forms are equal texts, and any other form is damaged.

pub(crate) mod filter;
mod text;

use self::text::{Cursor, KEY, Text, put_count, put_text};
use crate::event::{
    Event, EventId, Kind, Position, Pubkey, Signature, Tag, Timestamp, write_to_content, write_to_end, write_to_tags,
};

/// Bytes of JSON for the fixed part of an event.
const HEAD_JSON_BYTES: usize = 384;

/// Bytes of the fixed part, which [`Packed::parse`] needs.
pub(crate) const FIXED_BYTES: u32 = 32 + 64 + 4 + 2;

/// Packed form of an event.
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

/// Appends an event's packed form, without its id.
pub(crate) fn encode(event: &Event, out: &mut Vec<u8>) {
    out.extend_from_slice(&event.pubkey.0);
    out.extend_from_slice(&event.sig.0);
    out.extend_from_slice(&event.created_at.to_u32().to_le_bytes());
    out.extend_from_slice(&event.kind.0.to_le_bytes());
    put_count(out, event.tags.len());
    for tag in &event.tags {
        put_count(out, tag.0.len());
        tag.0.iter().for_each(|element| put_text(out, element));
    }
    put_text(out, &event.content);
}

// === impl Packed ===

impl<'a> Packed<'a> {
    /// Parses the fixed part; `None` if the bytes are too short for it. The rest is parsed when it is needed.
    pub(crate) fn parse(id: EventId, bytes: &'a [u8]) -> Option<Self> {
        let (pubkey, bytes) = bytes.split_first_chunk()?;
        let (sig, bytes) = bytes.split_first_chunk()?;
        let (created_at, bytes) = bytes.split_first_chunk()?;
        let (kind, rest) = bytes.split_first_chunk()?;
        let (created_at, kind) = (u32::from_le_bytes(*created_at), Kind(u16::from_le_bytes(*kind)));
        Some(Self { id, pubkey, sig, created_at, kind, rest })
    }

    /// Returns the event's id.
    pub fn id(self) -> EventId {
        self.id
    }

    /// Returns seconds since 1970.
    pub fn created_at(self) -> u32 {
        self.created_at
    }

    /// Returns the bytes of the packed form.
    pub(crate) fn bytes(self) -> u64 {
        u64::from(FIXED_BYTES) + self.rest.len() as u64
    }

    /// Returns the event's position in NIP-01's order.
    pub fn position(self) -> Position {
        Position { created_at: self.created_at, id: self.id }
    }

    pub(crate) fn kind(self) -> Kind {
        self.kind
    }

    /// Returns the author.
    pub fn pubkey(self) -> Pubkey {
        Pubkey(*self.pubkey)
    }

    /// Returns true if a `p` tag names one of these people; `None` if the bytes are damaged.
    pub(crate) fn names_one_of(self, people: &[Pubkey]) -> Option<bool> {
        // A key's 64 digits are never kept as text.
        let is_one = |form: &[u8]| matches!(form, [KEY, key @ ..] if people.iter().any(|one| one.0 == key));
        self.any_tag(|letter, form| letter == b'p' && is_one(form))
    }

    /// Returns true if one of the indexed tags satisfies `is_so`, which gets the letter and the form of the first
    /// value; `None` if the bytes are damaged.
    fn any_tag(self, is_so: impl FnMut(u8, &[u8]) -> bool) -> Option<bool> {
        Cursor(self.rest).any_tag(is_so)
    }

    /// Unpacks the event; `None` if the bytes are damaged.
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

    /// Returns the approximate length of the event's JSON.
    pub fn json_bytes(self) -> usize {
        // A tag that names a key takes 36 bytes here, and 73 there.
        HEAD_JSON_BYTES + 2 * self.rest.len() + self.rest.len() / 16
    }

    /// Appends the event as a JSON object without white space; `None` if the bytes are damaged.
    pub fn write_json(self, out: &mut Vec<u8>) -> Option<()> {
        out.reserve(self.json_bytes());
        write_to_tags(out, &self.id, &self.pubkey(), Timestamp(self.created_at.into()), self.kind);
        let mut cursor = Cursor(self.rest);
        cursor.write_tags(out)?;
        write_to_content(out);
        cursor.text()?.write_json(out);
        write_to_end(out, &Signature(*self.sig));
        Some(())
    }
}
