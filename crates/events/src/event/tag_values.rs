//! Tags that control the handling of an event: expiration ([NIP-40]), protection ([NIP-70]), proof of work ([NIP-13]).
//!
//! [NIP-40]: https://github.com/nostr-protocol/nips/blob/master/40.md
//! [NIP-70]: https://github.com/nostr-protocol/nips/blob/master/70.md
//! [NIP-13]: https://github.com/nostr-protocol/nips/blob/master/13.md

use serde_json::Value;

use super::{Event, Timestamp};
use crate::event::kind::Kind;

impl Event {
    /// Returns the first values of all tags with a name.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.tags.iter().filter(move |tag| tag.name() == Some(name)).filter_map(|tag| tag.value())
    }

    /// Returns the time at which the event expires (NIP-40); `None` without one, or if the value is not a time.
    pub fn expiration(&self) -> Option<Timestamp> {
        self.values("expiration").next()?.parse().ok().map(Timestamp)
    }

    /// Returns true if the event has expired by now (NIP-40).
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expiration().is_some_and(|expiration| expiration <= now)
    }

    /// Returns true if only its author may publish the event (NIP-70).
    pub fn is_protected(&self) -> bool {
        self.tags.iter().any(|tag| tag.name() == Some("-"))
    }

    /// Returns true if the event is a repost that contains a protected event, which others would so publish (NIP-70).
    pub fn reposts_protected(&self) -> bool {
        if !matches!(self.kind, Kind::REPOST | Kind::GENERIC_REPOST) {
            return false;
        }
        let Ok(embedded) = serde_json::from_str::<Value>(&self.content) else { return false };
        embedded["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag[0] == "-"))
    }

    /// Returns the number of leading zero bits of the id: its proof of work (NIP-13).
    pub fn difficulty(&self) -> u32 {
        let zero_bytes = self.id.0.iter().take_while(|byte| **byte == 0).count();
        let bits = self.id.0.get(zero_bytes).map_or(0, |byte| byte.leading_zeros());
        (0..zero_bytes).map(|_| 8).sum::<u32>() + bits
    }

    /// Returns the difficulty to which the author committed (NIP-13). Without a commitment, work may be luck.
    pub fn committed_difficulty(&self) -> Option<u32> {
        let nonce = self.tags.iter().find(|tag| tag.name() == Some("nonce"))?;
        nonce.0.get(2)?.parse().ok()
    }
}
