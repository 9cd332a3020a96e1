//! Undo data of a block as Core stores it in `rev*.dat`: every output that the block spends.
//!
//! Source: Core's `undo.h` (`CBlockUndo`, `TxInUndoFormatter`), `compressor.cpp`, `serialize.h` (`VARINT`).

use super::coins::Coin;
use super::encode::compact_size;
use super::scripts::Scripts;

/// Special forms of scripts in Core's compression. A script in none of them has its length plus this number before it;
/// that form is allowed for every script.
const SPECIAL_SCRIPTS: u64 = 6;

/// The undo data of the block under way.
#[derive(Debug, Default)]
pub(super) struct UndoBytes {
    txs: usize,
    bytes: Vec<u8>,
    /// Length before the last transaction.
    before_last: usize,
}

impl UndoBytes {
    /// Adds the outputs that one transaction spends.
    pub(super) fn push(&mut self, spent: &[Coin], scripts: &Scripts) {
        self.before_last = self.bytes.len();
        self.txs += 1;
        compact_size(&mut self.bytes, spent.len());
        for coin in spent {
            varint(&mut self.bytes, u64::from(coin.height) * 2 + u64::from(coin.is_coinbase));
            // The version of the transaction, which Core no longer uses.
            self.bytes.push(0);
            varint(&mut self.bytes, compressed_amount(coin.value));
            let script = scripts.script_pubkey(coin.script);
            varint(&mut self.bytes, script.len() as u64 + SPECIAL_SCRIPTS);
            self.bytes.extend_from_slice(&script);
        }
    }

    /// Removes the last transaction, which did not fit the block.
    pub(super) fn take_back(&mut self) {
        self.bytes.truncate(self.before_last);
        self.txs -= 1;
    }

    /// Returns the undo data, and begins the next block.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut undo = Vec::with_capacity(self.bytes.len() + 5);
        compact_size(&mut undo, self.txs);
        undo.append(&mut self.bytes);
        self.txs = 0;
        undo
    }
}

/// Core's `VARINT`: base 128, most significant group first, one added to each group but the last.
fn varint(out: &mut Vec<u8>, mut number: u64) {
    let mut groups = vec![number.to_le_bytes()[0] & 0x7f];
    while number > 0x7f {
        number = (number >> 7) - 1;
        groups.push(number.to_le_bytes()[0] & 0x7f | 0x80);
    }
    out.extend(groups.iter().rev());
}

/// Core's `CompressAmount`: trailing zeros in decimal become an exponent.
fn compressed_amount(satoshis: u64) -> u64 {
    if satoshis == 0 {
        return 0;
    }
    let (mut rest, mut exponent) = (satoshis, 0);
    while rest.is_multiple_of(10) && exponent < 9 {
        rest /= 10;
        exponent += 1;
    }
    if exponent < 9 {
        let digit = rest % 10;
        1 + (rest / 10 * 9 + digit - 1) * 10 + exponent
    } else {
        1 + (rest - 1) * 10 + 9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of Core's `compress_tests.cpp` and `serialize_tests.cpp`.
    #[test]
    fn numbers_are_coded_as_core_codes_them() {
        for (satoshis, code) in [(0, 0), (1, 1), (1_000_000, 7), (100_000_000, 9), (5_000_000_000, 50)] {
            assert_eq!(compressed_amount(satoshis), code);
        }
        let coded = |number| {
            let mut bytes = Vec::new();
            varint(&mut bytes, number);
            bytes
        };
        assert_eq!(coded(0x7f), [0x7f]);
        assert_eq!(coded(0x80), [0x80, 0x00]);
        assert_eq!(coded(0x1234), [0xa3, 0x34]);
        assert_eq!(coded(0xffff), [0x82, 0xfe, 0x7f]);
    }
}
