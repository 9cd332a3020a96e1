//! Events with a valid id and signature.

use std::ops::Deref;

use secp256k1::{Message, SECP256K1, XOnlyPublicKey, schnorr};

use super::Event;
use crate::event::rejection::Rejection;

/// Event whose id is the hash of its fields and is signed by its author (NIP-01, BIP 340). Only these are stored and
/// sent. [`Event::verify`] and signing create them.
///
/// Clients hash control characters in two ways: as they are, which is NIP-01's letter, or as `\u00XX`. Both ids hold.
/// The form on the wire is the same for both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedEvent(Event);

impl Event {
    /// Checks the id, then the signature, which takes most of the time.
    pub fn verify(self) -> Result<VerifiedEvent, Rejection> {
        if !self.statement().has_id(&self.id) {
            return Err(Rejection::invalid("the id is not the hash of the event"));
        }
        if !self.is_signed() {
            return Err(Rejection::invalid("the signature is not the author's of this id"));
        }
        Ok(VerifiedEvent(self))
    }

    /// Returns true if the author signed the id. A key that is not on the curve signs nothing.
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
    /// Returns the event.
    pub fn event(&self) -> &Event {
        &self.0
    }

    /// Returns the event by value.
    pub fn into_event(self) -> Event {
        self.0
    }

    /// Wraps an event that this crate has signed.
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
