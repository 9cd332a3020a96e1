//! Events of Nostr: signing, and the little that is read of others' events.
//!
//! Source: <https://github.com/nostr-protocol/nips/blob/master/01.md>.

use secp256k1::schnorr::Signature;
use secp256k1::{Keypair, Message, SECP256K1, XOnlyPublicKey};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// Kind 0: the profile of an account.
pub(super) const PROFILE: u16 = 0;
/// Kind 13: a signed message, encrypted for its recipient (NIP-59).
pub(super) const SEAL: u16 = 13;
/// Kind 14: a direct message (NIP-17).
pub(super) const DIRECT_MESSAGE: u16 = 14;
/// Kind 1059: a seal in a wrap that hides its author (NIP-59).
pub(super) const GIFT_WRAP: u16 = 1059;
/// Kind 10050: relays on which an account reads direct messages (NIP-17).
pub(super) const INBOX_RELAYS: u16 = 10_050;
/// Kind 22242: proof of an identity to a relay (NIP-42).
pub(super) const AUTHENTICATION: u16 = 22_242;

/// An event before it has an author.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) created_at: u64,
    pub(super) kind: u16,
    pub(super) tags: Vec<Vec<String>>,
    pub(super) content: String,
}

/// A signed event, in the form of its JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Event {
    pub(super) id: String,
    pub(super) pubkey: String,
    pub(super) created_at: u64,
    pub(super) kind: u16,
    pub(super) tags: Vec<Vec<String>>,
    pub(super) content: String,
    pub(super) sig: String,
}

impl Draft {
    /// Returns the id that the event has with an author.
    pub(super) fn id(&self, author: &XOnlyPublicKey) -> [u8; 32] {
        digest(&const_hex::encode(author.serialize()), self.created_at, self.kind, &self.tags, &self.content)
    }

    /// Signs the event. Equal drafts get equal events: signing uses no randomness.
    pub(super) fn sign(self, keys: &Keypair) -> Event {
        let (author, _) = keys.x_only_public_key();
        let id = self.id(&author);
        let sig = SECP256K1.sign_schnorr_no_aux_rand(&Message::from_digest(id), keys);
        let Self { created_at, kind, tags, content } = self;
        let (id, pubkey) = (const_hex::encode(id), const_hex::encode(author.serialize()));
        Event { id, pubkey, created_at, kind, tags, content, sig: const_hex::encode(sig.serialize()) }
    }

    /// Returns the event with an id and without a signature, as JSON (NIP-59's rumor).
    pub(super) fn rumor(&self, author: &XOnlyPublicKey) -> String {
        let Self { created_at, kind, tags, content } = self;
        let (id, pubkey) = (const_hex::encode(self.id(author)), const_hex::encode(author.serialize()));
        json!({ "id": id, "pubkey": pubkey, "created_at": created_at, "kind": kind, "tags": tags, "content": content })
            .to_string()
    }
}

impl Event {
    /// Reads an event; `None` if it is none, or its id or its signature is wrong.
    pub(super) fn verified(json: &str) -> Option<Self> {
        let event: Self = serde_json::from_str(json).ok()?;
        let id = digest(&event.pubkey, event.created_at, event.kind, &event.tags, &event.content);
        let author = XOnlyPublicKey::from_slice(&const_hex::decode(&event.pubkey).ok()?).ok()?;
        let sig = Signature::from_slice(&const_hex::decode(&event.sig).ok()?).ok()?;
        let is_valid = const_hex::encode(id) == event.id
            && SECP256K1.verify_schnorr(&sig, &Message::from_digest(id), &author).is_ok();
        is_valid.then_some(event)
    }

    /// Returns it as JSON.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("its keys are texts")
    }

    /// Returns the values of its tags of a name.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.tags
            .iter()
            .filter(move |tag| tag.first().is_some_and(|first| first == name))
            .filter_map(|tag| tag.get(1).map(String::as_str))
    }
}

fn digest(pubkey: &str, created_at: u64, kind: u16, tags: &[Vec<String>], content: &str) -> [u8; 32] {
    Sha256::digest(json!([0, pubkey, created_at, kind, tags, content]).to_string()).into()
}
