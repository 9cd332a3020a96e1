//! Hexadecimal text of hashes and bytes.

use bitcoin::Txid;
use bitcoin::hashes::Hash as _;
use serde::{Serialize, Serializer};

/// 64 digits on the stack: a history may have a hundred thousand of them.
pub(super) struct HashHex(pub(super) [u8; 64]);

impl Serialize for HashHex {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(str::from_utf8(&self.0).expect("hexadecimal digits are ASCII"))
    }
}

/// Returns the digits of a hash in the order in which hashes are shown: last byte first.
pub(super) fn reversed_hex(mut hash: [u8; 32]) -> HashHex {
    hash.reverse();
    let mut text = [0; 64];
    const_hex::encode_to_slice(hash, &mut text).expect("two digits for every byte");
    HashHex(text)
}

pub(super) fn txid_hex(txid: &Txid) -> HashHex {
    reversed_hex(txid.to_byte_array())
}

/// Appends the digits of bytes in their order to `out`.
pub(super) fn put_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len() * 2, 0);
    const_hex::encode_to_slice(bytes, &mut out[start..]).expect("two digits for every byte");
}
