//! What an event's id is the hash of: NIP-01's serialisation `[0,pubkey,created_at,kind,tags,content]`, without white
//! space, in UTF-8. It is not JSON: control characters that NIP-01 does not list stand for themselves.

use std::io::Write as _;

use sha2::{Digest as _, Sha256};

use super::escape::{Controls, write_string};
use super::{EventId, Pubkey, Timestamp};
use crate::kind::Kind;
use crate::tag::Tag;

/// What is hashed and signed of an event.
pub(crate) struct Statement<'a> {
    pub(crate) pubkey: Pubkey,
    pub(crate) created_at: Timestamp,
    pub(crate) kind: Kind,
    pub(crate) tags: &'a [Tag],
    pub(crate) content: &'a str,
}

impl Statement<'_> {
    /// The hash of the canonical form.
    pub(crate) fn id(&self) -> EventId {
        EventId(Sha256::digest(self.canonical()).into())
    }

    /// NIP-01's serialisation.
    pub(crate) fn canonical(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128 + self.content.len() + 80 * self.tags.len()); // most tags name an event
        out.extend_from_slice(b"[0,\"");
        crate::hex::write(&mut out, &self.pubkey.0);
        write!(out, "\",{},{},", self.created_at.0, self.kind.0).expect("memory takes every byte");
        write_tags(&mut out, self.tags, Controls::Verbatim);
        out.push(b',');
        write_string(&mut out, self.content.as_bytes(), Controls::Verbatim);
        out.push(b']');
        out
    }
}

/// Appends tags as arrays of strings.
pub(crate) fn write_tags(out: &mut Vec<u8>, tags: &[Tag], controls: Controls) {
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
