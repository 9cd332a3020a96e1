//! Deletion requests ([NIP-09]) and requests to vanish ([NIP-62]).
//!
//! Both cover events whenever these arrive: a relay deletes the events that it has, and refuses later ones.
//!
//! [NIP-09]: https://github.com/nostr-protocol/nips/blob/master/09.md
//! [NIP-62]: https://github.com/nostr-protocol/nips/blob/master/62.md

use crate::event::address::Address;
use crate::event::kind::Kind;
use crate::event::relay_url::RelayUrl;
use crate::event::{Event, EventId, Pubkey, Timestamp};

/// Value of a `relay` tag that means every relay.
const ALL_RELAYS: &str = "ALL_RELAYS";

/// Content of a deletion request. Lists are ascending and without duplicates. Targets that the request itself shows to
/// be another author's are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// Author of the request.
    pub author: Pubkey,
    /// Deletes versions at an address up to this time.
    pub created_at: Timestamp,
    /// Ids of events. Whether the author may delete one is decided when the event is present.
    pub ids: Vec<EventId>,
    /// Addresses of the author's replaceable and addressable events.
    pub addresses: Vec<Address>,
}

/// Request to delete everything of an author.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vanish {
    /// Author of the request.
    pub author: Pubkey,
    /// Deletes events up to this time.
    pub until: Timestamp,
}

// === impl Deletion ===

impl Deletion {
    /// Parses a deletion request; `None` if the event is not of kind 5. Skips targets that are malformed and addresses
    /// of other authors; the rest of the request holds.
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

    /// Returns true if the request deletes an event. It never deletes deletion or vanish requests.
    pub fn covers(&self, event: &Event) -> bool {
        if !event.kind.is_deletable() {
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
    /// Parses a request to vanish from a relay with these URLs; `None` if it is another kind or addresses other relays.
    /// A relay is known by its host and port: it answers at every path, and may stand behind a proxy for TLS. A URL of
    /// an IP address counts, because whether it is the relay's depends on the connection: who accepts events refuses
    /// the request where it is not ([`Vanish::names`]).
    pub fn of(event: &Event, own: &[RelayUrl]) -> Option<Self> {
        Self::names(event, |url| url.is_at_one_of(own) || url.literal().is_some())
    }

    /// Parses a request to vanish that names all relays, or one of which `is_own` is true.
    pub fn names(event: &Event, is_own: impl Fn(&RelayUrl) -> bool) -> Option<Self> {
        let is_own = |url: &str| url == ALL_RELAYS || RelayUrl::parse(url).is_some_and(|url| is_own(&url));
        let is_asked = event.kind == Kind::VANISH && event.values("relay").any(is_own);
        is_asked.then_some(Self { author: event.pubkey, until: event.created_at })
    }

    /// Returns true if the request deletes another event: one of the author, or a gift wrap for the author. Deletion
    /// requests and earlier vanish requests are not needed any more: this one covers what they cover.
    pub fn covers(&self, event: &Event) -> bool {
        event.created_at <= self.until && is_whose(event, self.author)
    }
}

/// Returns true if a person may have an event deleted: its author, or the recipient of a gift wrap, whose author is a
/// throwaway key.
fn is_whose(event: &Event, person: Pubkey) -> bool {
    let is_wrapped = matches!(event.kind, Kind::GIFT_WRAP | Kind::EPHEMERAL_GIFT_WRAP);
    event.pubkey == person
        || (is_wrapped && event.values("p").any(|recipient| Pubkey::parse(recipient) == Some(person)))
}

#[cfg(test)]
#[path = "deletion_tests.rs"]
mod tests;
