//! Hexadecimal text of hashes and bytes.

use bitcoin::Txid;
use bitcoin::hashes::Hash as _;

/// Two digits for every byte.
const PAIRS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

/// 64 digits on the stack: a history may have a hundred thousand of them.
pub(super) struct HashHex(pub(super) [u8; 64]);

impl HashHex {
    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits are ASCII")
    }
}

/// Returns the digits of a hash in the order in which hashes are shown: last byte first.
pub(super) fn reversed_hex(hash: &[u8; 32]) -> HashHex {
    let mut text = [0; 64];
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(hash.iter().rev()) {
        *pair = PAIRS[usize::from(*byte)];
    }
    HashHex(text)
}

pub(super) fn txid_hex(txid: &Txid) -> HashHex {
    reversed_hex(txid.as_byte_array())
}

/// Returns the digits of bytes in their order.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len() * 2);
    put_hex(&mut text, bytes);
    String::from_utf8(text).expect("hexadecimal digits are ASCII")
}

/// Appends the digits of bytes in their order to `out`.
pub(super) fn put_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(bytes.iter().flat_map(|byte| PAIRS[usize::from(*byte)]));
}
