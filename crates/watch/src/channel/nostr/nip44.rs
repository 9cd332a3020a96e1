//! NIP-44 version 2: encryption between two keys. Only what a sender needs; tests decrypt with other libraries.
//!
//! Payload, as base64: `version u8 = 2 | nonce[32] | ciphertext | mac[32]`. Plaintext: `length u16 BE | text | zeros`.
//!
//! Source: <https://github.com/nostr-protocol/nips/blob/master/44.md>.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit as _, StreamCipher as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use secp256k1::{Parity, PublicKey, SecretKey, XOnlyPublicKey, ecdh};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Longest text in bytes. Longer ones have another length prefix, which not every client reads; no message is so long.
pub(super) const TEXT_BYTES_MAX: usize = 65_535;

const VERSION: u8 = 2;
const SALT: &[u8] = b"nip44-v2";

/// The key that two parties share.
pub(super) struct ConversationKey(Zeroizing<[u8; 32]>);

/// Keys of one message.
struct MessageKeys {
    cipher: Zeroizing<[u8; 32]>,
    nonce: [u8; 12],
    mac: Zeroizing<[u8; 32]>,
}

impl ConversationKey {
    /// Derives the key of a secret key and the other's public key.
    pub(super) fn derive(secret: &SecretKey, public: &XOnlyPublicKey) -> Self {
        let point = ecdh::shared_secret_point(&PublicKey::from_x_only_public_key(*public, Parity::Even), secret);
        let point = Zeroizing::new(point);
        Self(hmac_sha256(SALT, &[&point[..32]]))
    }

    /// Encrypts a text of 1 to [`TEXT_BYTES_MAX`] bytes; `None` for other lengths. A nonce serves one text only.
    pub(super) fn encrypt(&self, text: &str, nonce: &[u8; 32]) -> Option<String> {
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let length = u16::try_from(text.len()).expect("it is at most 65 535");
        let keys = self.message_keys(nonce);
        let mut payload = vec![VERSION];
        payload.extend_from_slice(nonce);
        let start = payload.len();
        payload.extend_from_slice(&length.to_be_bytes());
        payload.extend_from_slice(text.as_bytes());
        payload.resize(start + 2 + padded(text.len()), 0);
        ChaCha20::new(&(*keys.cipher).into(), &keys.nonce.into()).apply_keystream(&mut payload[start..]);
        let mac = hmac_sha256(&*keys.mac, &[&payload[1..]]);
        payload.extend_from_slice(&*mac);
        Some(BASE64_STANDARD.encode(payload))
    }

    /// HKDF-Expand (RFC 5869) to 76 bytes.
    fn message_keys(&self, nonce: &[u8; 32]) -> MessageKeys {
        let first = hmac_sha256(&*self.0, &[nonce, &[1]]);
        let second = hmac_sha256(&*self.0, &[&*first, nonce, &[2]]);
        let third = hmac_sha256(&*self.0, &[&*second, nonce, &[3]]);
        let mut keys = MessageKeys { cipher: first, nonce: [0; 12], mac: Zeroizing::new([0; 32]) };
        keys.nonce.copy_from_slice(&second[..12]);
        keys.mac[..20].copy_from_slice(&second[12..]);
        keys.mac[20..].copy_from_slice(&third[..12]);
        keys
    }
}

/// Returns HMAC-SHA256 over the parts in a row.
pub(super) fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    Zeroizing::new(mac.finalize().into_bytes().into())
}

/// Returns the length of a text with its padding.
fn padded(length: usize) -> usize {
    let power = length.next_power_of_two().max(32);
    let chunk = if power <= 256 { 32 } else { power / 8 };
    length.next_multiple_of(chunk)
}

#[cfg(test)]
#[path = "nip44_tests.rs"]
mod tests;
