//! What tags say about how an event is to be treated: until when (NIP-40), by whom (NIP-70), at what price (NIP-13).

use serde_json::Value;

use super::{Event, Timestamp};
use crate::kind::Kind;

impl Event {
    /// The first values of the tags of a name.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.tags.iter().filter(move |tag| tag.name() == Some(name)).filter_map(|tag| tag.value())
    }

    /// When it is to be forgotten (NIP-40); a value that is no time says nothing.
    pub fn expiration(&self) -> Option<Timestamp> {
        self.values("expiration").next()?.parse().ok().map(Timestamp)
    }

    /// Whether it is to be forgotten by now (NIP-40).
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expiration().is_some_and(|expiration| expiration <= now)
    }

    /// Whether its author alone may publish it (NIP-70).
    pub fn is_protected(&self) -> bool {
        self.tags.iter().any(|tag| tag.name() == Some("-"))
    }

    /// Whether it is a repost that carries a protected event, which would so be published by others (NIP-70).
    pub fn reposts_protected(&self) -> bool {
        if !matches!(self.kind, Kind::REPOST | Kind::GENERIC_REPOST) {
            return false;
        }
        let Ok(embedded) = serde_json::from_str::<Value>(&self.content) else { return false };
        embedded["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag[0] == "-"))
    }

    /// Zero bits that its id begins with: the work that was done for it (NIP-13).
    pub fn difficulty(&self) -> u32 {
        let zero_bytes = self.id.0.iter().take_while(|byte| **byte == 0).count();
        let bits = self.id.0.get(zero_bytes).map_or(0, |byte| byte.leading_zeros());
        (0..zero_bytes).map(|_| 8).sum::<u32>() + bits
    }

    /// The difficulty that its author set out for (NIP-13); without it, work may be luck.
    pub fn committed_difficulty(&self) -> Option<u32> {
        let nonce = self.tags.iter().find(|tag| tag.name() == Some("nonce"))?;
        nonce.0.get(2)?.parse().ok()
    }
}
