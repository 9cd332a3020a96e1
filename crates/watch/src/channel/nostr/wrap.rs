//! Direct messages: rumor, seal and gift wrap (NIP-17, NIP-59).
//!
//! Randomness comes from the sender's secret and the rumor alone, so an attempt that is repeated on the same day sends
//! the same event, and relays that have it say so. A nonce of NIP-44 never serves two texts: it follows from the text.
//!
//! Sources: <https://github.com/nostr-protocol/nips/blob/master/17.md>, `59.md` beside it.

use secp256k1::{Keypair, SECP256K1, SecretKey, XOnlyPublicKey};
use zeroize::Zeroizing;

use super::event::{DIRECT_MESSAGE, Draft, Event, GIFT_WRAP, SEAL};
use super::nip44::{ConversationKey, hmac_sha256};

/// Largest age that a seal and a wrap pretend to have, in seconds: two days.
const PRETENDED_AGE_MAX: u64 = 172_800;
const DAY: u64 = 86_400;

/// A direct message.
#[derive(Debug)]
pub(super) struct DirectMessage<'a> {
    pub(super) to: XOnlyPublicKey,
    /// Id of the notice. Of two notices with one text in one second each is a message of its own.
    pub(super) id: &'a str,
    pub(super) text: &'a str,
    /// Seconds since 1970; the recipient sees it.
    pub(super) created: u64,
}

/// Returns the gift wrap of a message, sent at `now`; `None` if the text is empty or too long.
pub(super) fn wrap(message: &DirectMessage<'_>, sender: &Keypair, now: u64) -> Option<Event> {
    if message.text.is_empty() {
        return None;
    }
    let to = const_hex::encode(message.to.serialize());
    let created_at = message.created;
    let tags = vec![vec!["p".to_owned(), to.clone()], vec!["notice".to_owned(), message.id.to_owned()]];
    let rumor = Draft { created_at, kind: DIRECT_MESSAGE, tags, content: message.text.to_owned() };
    let (author, _) = sender.x_only_public_key();
    let secret = sender.secret_key();
    // A day after the message, and each day from then on, an attempt makes a new wrap: relays refuse old ones.
    let base = now.saturating_sub(now.saturating_sub(created_at) % DAY);
    let random = Randomness::new(&secret, &rumor.id(&author), &message.to, base);

    let key = ConversationKey::derive(&secret, &message.to);
    let content = key.encrypt(&rumor.rumor(&author), &random.bytes(b"seal nonce"))?;
    let seal =
        Draft { created_at: base.saturating_sub(random.age(b"seal age")), kind: SEAL, tags: Vec::new(), content }
            .sign(sender);

    let once = random.secret_key();
    let key = ConversationKey::derive(&once.secret_key(), &message.to);
    let content = key.encrypt(&seal.to_json(), &random.bytes(b"wrap nonce"))?;
    let tags = vec![vec!["p".to_owned(), to]];
    Some(Draft { created_at: base.saturating_sub(random.age(b"wrap age")), kind: GIFT_WRAP, tags, content }.sign(&once))
}

/// Values that nobody without the sender's secret can tell from random ones.
struct Randomness(Zeroizing<[u8; 32]>);

impl Randomness {
    fn new(secret: &SecretKey, rumor: &[u8; 32], to: &XOnlyPublicKey, base: u64) -> Self {
        let secret = Zeroizing::new(secret.secret_bytes());
        Self(hmac_sha256(&*secret, &[b"birdhouse: gift wrap", rumor, &to.serialize(), &base.to_be_bytes()]))
    }

    fn bytes(&self, purpose: &[u8]) -> Zeroizing<[u8; 32]> {
        hmac_sha256(&*self.0, &[purpose])
    }

    /// Returns an age of 0 to [`PRETENDED_AGE_MAX`] seconds. 2^64 is so much larger that the remainder has no bias.
    fn age(&self, purpose: &[u8]) -> u64 {
        let bytes = self.bytes(purpose);
        let bytes = bytes.first_chunk().expect("it has 32 bytes");
        u64::from_be_bytes(*bytes) % (PRETENDED_AGE_MAX + 1)
    }

    fn secret_key(&self) -> Keypair {
        let mut candidate = self.bytes(b"wrap key");
        loop {
            match Keypair::from_seckey_slice(SECP256K1, &*candidate) {
                Ok(keys) => return keys,
                // Of a probability of 2^-128.
                Err(_) => candidate = hmac_sha256(&*self.0, &[&*candidate]),
            }
        }
    }
}

#[cfg(test)]
#[path = "wrap_tests.rs"]
mod tests;
