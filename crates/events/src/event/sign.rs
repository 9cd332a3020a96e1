//! Signing of events, for tests, generators and the relay's own events.

use secp256k1::{Keypair, Message, SECP256K1};

use super::canonical::Statement;
use super::verified::VerifiedEvent;
use super::{Event, EventId, Pubkey, Signature, Timestamp};
use crate::event::kind::Kind;
use crate::event::tag::Tag;

/// Secret key and public key of an author.
#[derive(Clone)]
pub struct Keys(Keypair);

/// Event before it is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsignedEvent {
    /// Time of creation; at most [`Timestamp::CREATED_AT_MAX`].
    pub created_at: Timestamp,
    /// Type of the content.
    pub kind: Kind,
    /// Lists of strings.
    pub tags: Vec<Tag>,
    /// Arbitrary text.
    pub content: String,
}

impl Keys {
    /// Derives the keys of a secret; `None` if the secret is zero or not below the order of the curve.
    pub fn from_secret(secret: [u8; 32]) -> Option<Self> {
        Keypair::from_seckey_slice(SECP256K1, &secret).ok().map(Self)
    }

    /// Returns the public key.
    pub fn pubkey(&self) -> Pubkey {
        Pubkey(self.0.x_only_public_key().0.serialize())
    }

    /// Signs an id without randomness.
    pub(super) fn sign(&self, id: &EventId) -> Signature {
        Signature(SECP256K1.sign_schnorr_no_aux_rand(&Message::from_digest(id.0), &self.0).serialize())
    }
}

impl UnsignedEvent {
    /// Hashes and signs the event. Equal events get equal signatures: signing uses no randomness.
    pub fn sign(self, keys: &Keys) -> VerifiedEvent {
        let Self { created_at, kind, tags, content } = self;
        let pubkey = keys.pubkey();
        let id = Statement { pubkey, created_at, kind, tags: &tags, content: &content }.id();
        let sig = keys.sign(&id);
        VerifiedEvent::signed(Event { id, pubkey, created_at, kind, tags, content, sig })
    }
}
