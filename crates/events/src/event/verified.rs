//! Events whose id and signature hold.

use std::ops::Deref;

use secp256k1::{Message, SECP256K1, XOnlyPublicKey, schnorr};

use super::Event;
use crate::rejection::Rejection;

/// An event whose id is the hash of what it says and whose author signed that (NIP-01, BIP 340). Only these are stored
/// and told: [`Event::verify`] makes them, and signing does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedEvent(Event);

impl Event {
    /// Checks the id, then the signature, which costs most of the time.
    pub fn verify(self) -> Result<VerifiedEvent, Rejection> {
        if self.id != self.statement().id() {
            return Err(Rejection::invalid("the id is not the hash of the event"));
        }
        if !self.is_signed() {
            return Err(Rejection::invalid("the signature is not the author's of this id"));
        }
        Ok(VerifiedEvent(self))
    }

    /// Whether the author signed the id. An author that is no point of the curve signs nothing.
    pub(super) fn is_signed(&self) -> bool {
        let (Ok(author), Ok(signature)) =
            (XOnlyPublicKey::from_slice(&self.pubkey.0), schnorr::Signature::from_slice(&self.sig.0))
        else {
            return false;
        };
        SECP256K1.verify_schnorr(&signature, &Message::from_digest(self.id.0), &author).is_ok()
    }
}

// === impl VerifiedEvent ===

impl VerifiedEvent {
    /// What was verified.
    pub fn event(&self) -> &Event {
        &self.0
    }

    /// What was verified, to own it.
    pub fn into_event(self) -> Event {
        self.0
    }

    /// An event that was hashed and signed here.
    pub(super) fn signed(event: Event) -> Self {
        Self(event)
    }
}

impl Deref for VerifiedEvent {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.0
    }
}
