//! Signing, for tests, generators and what a relay says itself.

use secp256k1::{Keypair, Message, SECP256K1};

use super::canonical::Statement;
use super::{Event, Pubkey, Signature, Timestamp, VerifiedEvent};
use crate::kind::Kind;
use crate::tag::Tag;

/// A secret key and its public one.
#[derive(Clone)]
pub struct Keys(Keypair);

/// What an author is about to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsignedEvent {
    /// When its author says it was made; at most [`Timestamp::CREATED_AT_MAX`].
    pub created_at: Timestamp,
    /// What it is about.
    pub kind: Kind,
    /// Lists of strings.
    pub tags: Vec<Tag>,
    /// Any text.
    pub content: String,
}

impl Keys {
    /// Keys of a secret, which is below the order of the curve and not zero.
    pub fn from_secret(secret: [u8; 32]) -> Option<Self> {
        Keypair::from_seckey_slice(SECP256K1, &secret).ok().map(Self)
    }

    /// What others know the author by.
    pub fn pubkey(&self) -> Pubkey {
        Pubkey(self.0.x_only_public_key().0.serialize())
    }
}

impl UnsignedEvent {
    /// Hashes and signs it. The same event gets the same signature: there is no randomness in it.
    pub fn sign(self, keys: &Keys) -> VerifiedEvent {
        let Self { created_at, kind, tags, content } = self;
        let pubkey = keys.pubkey();
        let id = Statement { pubkey, created_at, kind, tags: &tags, content: &content }.id();
        let sig = SECP256K1.sign_schnorr_no_aux_rand(&Message::from_digest(id.0), &keys.0);
        let sig = Signature(sig.serialize());
        VerifiedEvent::signed(Event { id, pubkey, created_at, kind, tags, content, sig })
    }
}
