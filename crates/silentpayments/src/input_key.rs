//! The public key that an input brings to the shared secret.
//!
//! An input without one is left out; it never spoils the transaction. Source: [BIP 352], "Inputs For Shared Secret
//! Derivation".
//!
//! [BIP 352]: https://github.com/bitcoin/bips/blob/master/bip-0352.mediawiki

use bitcoin::hashes::{Hash as _, hash160};
use secp256k1::{Parity, PublicKey, XOnlyPublicKey};

use crate::input::Input;
use crate::script::{self, Hash160};

/// The internal key of outputs that nobody can spend by key: a point of which nobody knows the logarithm
/// ([BIP 341](https://github.com/bitcoin/bips/blob/master/bip-0341.mediawiki)).
const UNSPENDABLE: [u8; 32] = [
    0x50, 0x92, 0x9b, 0x74, 0xc1, 0xa0, 0x49, 0x54, 0xb7, 0x8b, 0x4b, 0x60, 0x35, 0xe9, 0x7a, 0x5e, 0x07, 0x8a, 0x5a,
    0x0f, 0x28, 0xec, 0x96, 0xd5, 0x47, 0xbf, 0xee, 0x9a, 0xce, 0x80, 0x3a, 0xc0,
];

/// Bytes of a compressed key.
const COMPRESSED: usize = 33;

/// Returns the key of an input, if its script is of a form that reveals one.
pub(crate) fn of(input: &Input<'_>) -> Option<PublicKey> {
    if let Some(hash) = script::p2pkh(input.spent_script) {
        return hashed(input.script_sig, hash);
    }
    if let Some(key) = script::taproot_key(input.spent_script) {
        return taproot(input, key);
    }
    let is_nested = script::is_p2sh(input.spent_script)
        && input.script_sig.split_first().is_some_and(|(_, redeem)| script::is_p2wpkh(redeem));
    if is_nested || script::is_p2wpkh(input.spent_script) { compressed(input.witness.last()?) } else { None }
}

/// Finds the key with a hash in a scriptSig: the last 33 bytes that have it. Third parties can append to a scriptSig,
/// so the key need not be its last push.
fn hashed(script_sig: &[u8], hash: &Hash160) -> Option<PublicKey> {
    // Only bytes that begin as a compressed key are hashed: a scriptSig can have many thousand windows.
    let candidates = script_sig.windows(COMPRESSED).rev().filter(|window| matches!(window[0], 2 | 3));
    let mut matches = candidates.filter(|window| hash160::Hash::hash(window).as_byte_array() == hash);
    matches.find_map(compressed)
}

fn taproot(input: &Input<'_>, key: &[u8; 32]) -> Option<PublicKey> {
    let witness = input.witness.without_annex();
    witness.last()?;
    let internal_key = witness.control_block().and_then(|block| block.get(1..COMPRESSED));
    if internal_key == Some(&UNSPENDABLE) {
        return None;
    }
    XOnlyPublicKey::from_slice(key).ok().map(|key| key.public_key(Parity::Even))
}

fn compressed(bytes: &[u8]) -> Option<PublicKey> {
    if bytes.len() == COMPRESSED { PublicKey::from_slice(bytes).ok() } else { None }
}
