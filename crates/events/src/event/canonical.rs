//! The canonical form that an event's id hashes: the serialisation `[0,pubkey,created_at,kind,tags,content]` of
//! [NIP-01], without white space, in UTF-8. It is not JSON: control characters that NIP-01 does not list are verbatim.
//! Many clients serialise JSON instead, where these characters are `\u00XX`, so events with either id are in use.
//!
//! Nothing that is stored depends on the form of the id.
//!
//! [NIP-01]: https://github.com/nostr-protocol/nips/blob/master/01.md

use std::io::Write as _;

use sha2::{Digest as _, Sha256};

use super::escape::{Controls, has_unlisted_control, write_string};
use super::{Event, EventId, Pubkey, Timestamp};
use crate::event::kind::Kind;
use crate::event::tag::Tag;

/// Fields of an event that are hashed and signed.
pub(super) struct Statement<'a> {
    pub(crate) pubkey: Pubkey,
    pub(crate) created_at: Timestamp,
    pub(crate) kind: Kind,
    pub(super) tags: &'a [Tag],
    pub(super) content: &'a str,
}

impl Event {
    /// Returns the fields that the id hashes and the author signs.
    pub(super) fn statement(&self) -> Statement<'_> {
        let Self { pubkey, created_at, kind, .. } = *self;
        Statement { pubkey, created_at, kind, tags: &self.tags, content: &self.content }
    }
}

// === impl Statement ===

impl Statement<'_> {
    /// Returns the hash of the canonical form.
    pub(super) fn id(&self) -> EventId {
        EventId(Sha256::digest(self.serialised(Controls::Verbatim)).into())
    }

    /// Returns true if the id hashes one of the two forms: the canonical one, or JSON.
    pub(super) fn has_id(&self, id: &EventId) -> bool {
        if self.id() == *id {
            return true;
        }
        let texts = self.tags.iter().flat_map(|tag| &tag.0).map(String::as_str).chain([self.content]);
        let has_controls = texts.into_iter().any(has_unlisted_control);
        has_controls && Sha256::digest(self.serialised(Controls::Escaped))[..] == id.0
    }

    /// Returns the serialisation whose hash is an id.
    pub(super) fn serialised(&self, controls: Controls) -> Vec<u8> {
        let mut out = Vec::with_capacity(128 + self.content.len() + 80 * self.tags.len()); // most tags name an event
        out.extend_from_slice(b"[0,\"");
        crate::event::hex::write(&mut out, &self.pubkey.0);
        write!(out, "\",{},{},", self.created_at.0, self.kind.0).expect("writing to memory does not fail");
        write_tags(&mut out, self.tags, controls);
        out.push(b',');
        write_string(&mut out, self.content.as_bytes(), controls);
        out.push(b']');
        out
    }
}

/// Appends tags as arrays of strings.
pub(super) fn write_tags(out: &mut Vec<u8>, tags: &[Tag], controls: Controls) {
    write_list(out, tags, |out, tag| write_list(out, &tag.0, |out, text| write_string(out, text.as_bytes(), controls)));
}

/// Appends a list in brackets.
fn write_list<T>(out: &mut Vec<u8>, items: &[T], mut write: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}
