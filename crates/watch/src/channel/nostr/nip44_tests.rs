//! The vectors of NIP-44: `nip44.vectors.json` of the repository `paulmillr/nip44` at commit
//! 671a1f04bcfacaf125b0db68adc45bc9ce0e763b, in the public domain. NIP-44 names its SHA-256.
#![expect(clippy::unwrap_used, reason = "tests")]

use secp256k1::{PublicKey, SECP256K1};
use serde_json::Value;
use sha2::Digest as _;

use super::*;

const VECTORS: &str = include_str!("nip44.vectors.json");
const SHA256: &str = "269ed0f69e4c192512cc779e78c555090cebc7c785b609e338a62afc3ce25040";

fn vectors() -> Value {
    serde_json::from_str(VECTORS).unwrap()
}

fn cases(vectors: &Value) -> &Vec<Value> {
    let cases = vectors.as_array().unwrap();
    assert!(!cases.is_empty());
    cases
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn bytes(value: &Value) -> [u8; 32] {
    const_hex::decode(text(value)).unwrap().try_into().unwrap()
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

#[test]
fn the_vectors_are_those_of_the_specification() {
    assert_eq!(const_hex::encode(Sha256::digest(VECTORS)), SHA256);
}

#[test]
fn conversation_keys_are_those_of_the_vectors() {
    for case in cases(&vectors()["v2"]["valid"]["get_conversation_key"]) {
        let secret = SecretKey::from_slice(&bytes(&case["sec1"])).unwrap();
        let key = ConversationKey::derive(&secret, &XOnlyPublicKey::from_slice(&bytes(&case["pub2"])).unwrap());
        assert_eq!(*key.0, bytes(&case["conversation_key"]), "{case}");
    }
}

#[test]
fn invalid_keys_of_the_vectors_are_refused() {
    for case in cases(&vectors()["v2"]["invalid"]["get_conversation_key"]) {
        let is_valid = SecretKey::from_slice(&bytes(&case["sec1"])).is_ok()
            && XOnlyPublicKey::from_slice(&bytes(&case["pub2"])).is_ok();
        assert!(!is_valid, "{case}");
    }
}

#[test]
fn message_keys_are_those_of_the_vectors() {
    let vectors = &vectors()["v2"]["valid"]["get_message_keys"];
    let key = ConversationKey(Zeroizing::new(bytes(&vectors["conversation_key"])));
    for case in cases(&vectors["keys"]) {
        let keys = key.message_keys(&bytes(&case["nonce"]));
        assert_eq!(*keys.cipher, bytes(&case["chacha_key"]));
        assert_eq!(const_hex::encode(keys.nonce), text(&case["chacha_nonce"]));
        assert_eq!(*keys.mac, bytes(&case["hmac_key"]));
    }
}

#[test]
fn texts_are_padded_as_in_the_vectors() {
    for case in cases(&vectors()["v2"]["valid"]["calc_padded_len"]) {
        assert_eq!(padded(number(&case[0])), number(&case[1]), "{case}");
    }
}

#[test]
fn payloads_are_those_of_the_vectors() {
    for case in cases(&vectors()["v2"]["valid"]["encrypt_decrypt"]) {
        let [one, other] = [&case["sec1"], &case["sec2"]].map(|key| SecretKey::from_slice(&bytes(key)).unwrap());
        let (other, _) = PublicKey::from_secret_key(SECP256K1, &other).x_only_public_key();
        let key = ConversationKey::derive(&one, &other);
        assert_eq!(*key.0, bytes(&case["conversation_key"]));
        assert_eq!(key.encrypt(text(&case["plaintext"]), &bytes(&case["nonce"])).unwrap(), text(&case["payload"]));
    }
}

#[test]
fn long_payloads_are_those_of_the_vectors() {
    for case in cases(&vectors()["v2"]["valid"]["encrypt_decrypt_long_msg"]) {
        let plain = text(&case["pattern"]).repeat(number(&case["repeat"]));
        assert_eq!(const_hex::encode(Sha256::digest(&plain)), text(&case["plaintext_sha256"]));
        let key = ConversationKey(Zeroizing::new(bytes(&case["conversation_key"])));
        let payload = key.encrypt(&plain, &bytes(&case["nonce"])).unwrap();
        assert_eq!(const_hex::encode(Sha256::digest(payload)), text(&case["payload_sha256"]));
    }
}

#[test]
fn lengths_that_the_vectors_call_invalid_are_refused() {
    let key = ConversationKey(Zeroizing::new([1; 32]));
    for case in cases(&vectors()["v2"]["invalid"]["encrypt_msg_lengths"]) {
        // Of the larger ones only our own bound is tried.
        let length = number(case).min(TEXT_BYTES_MAX + 1);
        assert!(key.encrypt(&"a".repeat(length), &[2; 32]).is_none(), "{case}");
    }
    assert!(key.encrypt(&"a".repeat(TEXT_BYTES_MAX), &[2; 32]).is_some());
}
