//! Electrum's status of a script: the SHA-256 of its history as text.
//!
//! Source: Electrum protocol basics, "Status": `txid:height:` of every entry, in order.

use sha2::{Digest as _, Sha256};

use crate::index::HistoryEntry;
use bitcoin::hashes::Hash as _;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The status of a confirmed history; `None` for an empty one.
pub(crate) fn of(history: &[HistoryEntry]) -> Option<[u8; 32]> {
    if history.is_empty() {
        return None;
    }
    let mut hasher = Sha256::new();
    let mut line = Vec::with_capacity(64 + 12);
    for entry in history {
        line.clear();
        for byte in entry.txid.as_byte_array().iter().rev() {
            line.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        line.push(b':');
        put_decimal(&mut line, entry.height.0);
        line.push(b':');
        hasher.update(&line);
    }
    Some(hasher.finalize().into())
}

fn put_decimal(out: &mut Vec<u8>, number: u32) {
    let mut digits = [0; 10];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::txnum::Height;

    #[test]
    fn status_is_the_hash_of_the_history_as_text() {
        let entries: Vec<HistoryEntry> = [(1_u8, 0), (0xab, 9), (3, 1_234_567_890)]
            .map(|(byte, height)| HistoryEntry {
                txid: bitcoin::Txid::from_byte_array([byte; 32]),
                height: Height(height),
            })
            .into();
        let text = entries.iter().map(|entry| format!("{}:{}:", entry.txid, entry.height)).collect::<Vec<_>>().concat();
        let expected: [u8; 32] = Sha256::digest(text).into();
        assert_eq!(of(&entries).unwrap(), expected);
        assert_eq!(of(&[]), None);
    }
}
