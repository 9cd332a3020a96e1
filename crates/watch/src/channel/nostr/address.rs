//! Public and secret keys as people write them.
//!
//! Source: <https://github.com/nostr-protocol/nips/blob/master/19.md>.

use birdhouse_dial::relay::keys;
use secp256k1::{SecretKey, XOnlyPublicKey};
use zeroize::Zeroizing;

/// Reads a public key, `npub1..` or hexadecimal.
///
/// # Errors
/// The reason, in words for the author of the watch file.
pub(super) fn public(text: &str) -> Result<XOnlyPublicKey, String> {
    const FORM: &str = "use the public key of the recipient, npub1.. or 64 hexadecimal digits";
    let text = text.trim();
    if text.starts_with("nsec1") {
        return Err(format!("the recipient is a secret key, which belongs to nobody but its owner; {FORM}"));
    }
    let bytes = const_hex::decode_to_array(text).ok().or_else(|| keys::read_npub(text)).ok_or(FORM)?;
    XOnlyPublicKey::from_slice(&bytes).map_err(|_| FORM.to_owned())
}

/// Writes a public key.
pub(super) fn write_public(key: &XOnlyPublicKey) -> String {
    keys::write_npub(&key.serialize())
}

/// Reads a secret key, `nsec1..`.
pub(super) fn secret(text: &str) -> Option<SecretKey> {
    SecretKey::from_slice(&*keys::read_nsec(text.trim())?).ok()
}

/// Writes a secret key.
pub(super) fn write_secret(key: &SecretKey) -> Zeroizing<String> {
    keys::write_nsec(&Zeroizing::new(key.secret_bytes()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The examples of NIP-19.
    #[test]
    fn keys_are_those_of_the_specification() {
        let npub = "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg";
        let hex = "7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e";
        assert_eq!(const_hex::encode(public(npub).unwrap().serialize()), hex);
        assert_eq!(public(hex), public(npub));
        assert_eq!(write_public(&public(hex).unwrap()), npub);
        let nsec = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5";
        let hex = "67dea2ed018072d675f5415ecfaed7d2597555e202d85b3d65ea4e58d2d92ffa";
        assert_eq!(const_hex::encode(secret(nsec).unwrap().secret_bytes()), hex);
        assert_eq!(*write_secret(&secret(nsec).unwrap()), nsec);
    }

    #[test]
    fn a_secret_key_is_no_recipient_and_is_not_repeated() {
        let nsec = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5";
        let error = public(nsec).unwrap_err();
        assert!(error.contains("secret key") && !error.contains("vl029"), "{error}");
        assert!(public("npub1").is_err() && public("").is_err() && public("00").is_err());
    }
}
