//! What a deletion request asks to delete (NIP-09), and what a request to vanish does (NIP-62).
//!
//! Both say which events they cover, whenever those come: a relay looks through what it has, and refuses what comes later.

use crate::address::Address;
use crate::event::{Event, EventId, Pubkey, Timestamp};
use crate::kind::Kind;
use crate::relay_url::RelayUrl;

/// A value of a `relay` tag that means every relay.
const ALL_RELAYS: &str = "ALL_RELAYS";

/// A deletion request. Lists ascend, without repetition; what an author cannot delete is left out where the request shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// Who asks.
    pub author: Pubkey,
    /// Versions at an address are deleted up to this time.
    pub created_at: Timestamp,
    /// Events by name. Whether they are the author's is seen when they are there.
    pub ids: Vec<EventId>,
    /// The author's replaceable and addressable events.
    pub addresses: Vec<Address>,
}

/// A request to forget an author.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vanish {
    /// Who asks.
    pub author: Pubkey,
    /// Everything up to this time.
    pub until: Timestamp,
}

// === impl Deletion ===

impl Deletion {
    /// What an event asks to delete; `None` if it is not of kind 5. Targets that cannot be read and addresses of others are
    /// skipped: the rest of the request holds.
    pub fn of(event: &Event) -> Option<Self> {
        if event.kind != Kind::DELETION {
            return None;
        }
        let mut ids: Vec<_> = event.values("e").filter_map(EventId::parse).collect();
        let mut addresses: Vec<_> = event.values("a").filter_map(Address::parse).collect();
        addresses.retain(|address| address.author() == event.pubkey);
        ids.sort_unstable();
        ids.dedup();
        addresses.sort_unstable();
        addresses.dedup();
        Some(Self { author: event.pubkey, created_at: event.created_at, ids, addresses })
    }

    /// Whether an event is to be deleted. Requests to delete or to vanish never are.
    pub fn covers(&self, event: &Event) -> bool {
        if matches!(event.kind, Kind::DELETION | Kind::VANISH) {
            return false;
        }
        let is_named = self.ids.binary_search(&event.id).is_ok() && is_whose(event, self.author);
        is_named || (event.created_at <= self.created_at && self.covers_address_of(event))
    }

    fn covers_address_of(&self, event: &Event) -> bool {
        event.address().is_some_and(|address| self.addresses.binary_search(&address).is_ok())
    }
}

// === impl Vanish ===

impl Vanish {
    /// What an event asks a relay of these URLs to forget; `None` if it asks others, or nobody.
    pub fn of(event: &Event, own: &[RelayUrl]) -> Option<Self> {
        let is_own = |url: &str| url == ALL_RELAYS || RelayUrl::parse(url).is_some_and(|url| own.contains(&url));
        let is_asked = event.kind == Kind::VANISH && event.values("relay").any(is_own);
        is_asked.then_some(Self { author: event.pubkey, until: event.created_at })
    }

    /// Whether an event is to be forgotten: what the author said, deletion requests too, and what was wrapped for the author.
    /// Requests to vanish stay, so that what they cover does not come back.
    pub fn covers(&self, event: &Event) -> bool {
        event.kind != Kind::VANISH && event.created_at <= self.until && is_whose(event, self.author)
    }
}

/// Whether a person may have an event deleted: its author, and of a gift wrap its recipient, for its author is nobody.
fn is_whose(event: &Event, person: Pubkey) -> bool {
    let is_wrapped = matches!(event.kind, Kind::GIFT_WRAP | Kind::EPHEMERAL_GIFT_WRAP);
    event.pubkey == person
        || (is_wrapped && event.values("p").any(|recipient| Pubkey::parse(recipient) == Some(person)))
}

#[cfg(test)]
#[path = "deletion_tests.rs"]
mod tests;
