//! The record of a transaction.
//!
//! ```text
//! class of the largest value * 2 + parity of the tweak u8 | x coordinate of the tweak 32 |
//! index in the block u16 LE | number of taproot outputs u16 LE
//! ```

use birdhouse_silentpayments::TWEAK_BYTES;

use crate::tweaks::value_class::ValueClass;

/// Bytes of a record.
pub(super) const TRANSACTION_BYTES: usize = TWEAK_BYTES + 2 + 2;

/// First byte of a compressed point with an even y coordinate.
const EVEN: u8 = 2;

/// A transaction that may pay silent payment addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transaction {
    /// The tweak, a compressed point.
    pub(super) tweak: [u8; TWEAK_BYTES],
    /// Its index in the block.
    pub(super) position: u16,
    /// Number of its taproot outputs.
    pub(super) fan: u16,
    /// The class of the largest of them.
    pub(super) largest: ValueClass,
}

impl Transaction {
    pub(super) fn encode(&self) -> [u8; TRANSACTION_BYTES] {
        let mut record = [0; TRANSACTION_BYTES];
        record[..TWEAK_BYTES].copy_from_slice(&self.tweak);
        record[0] = self.largest.0 << 1 | self.tweak[0] & 1;
        record[TWEAK_BYTES..TWEAK_BYTES + 2].copy_from_slice(&self.position.to_le_bytes());
        record[TWEAK_BYTES + 2..].copy_from_slice(&self.fan.to_le_bytes());
        record
    }

    pub(super) fn decode(record: &[u8; TRANSACTION_BYTES]) -> Self {
        let [head, .., p0, p1, f0, f1] = *record;
        let mut tweak = *record.first_chunk().expect("a record begins with a tweak");
        tweak[0] = EVEN | head & 1;
        Self {
            tweak,
            position: u16::from_le_bytes([p0, p1]),
            fan: u16::from_le_bytes([f0, f1]),
            largest: ValueClass(head >> 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_tweak_with_a_class_and_two_numbers() {
        for (first, sats, head) in [(2, 0, 2), (3, 330, 7), (3, u64::MAX, 33)] {
            let mut tweak = [9; TWEAK_BYTES];
            tweak[0] = first;
            let transaction = Transaction { tweak, position: 0x0102, fan: 0xfffe, largest: ValueClass::of(sats) };
            let record = [&[head][..], &[9; 32], &[2, 1, 0xfe, 0xff]].concat();
            assert_eq!(transaction.encode().as_slice(), record);
            assert_eq!(Transaction::decode(&transaction.encode()), transaction);
        }
    }
}
