//! An independent parser of `CBlockUndo`, for comparison only.

use birdhouse_chain::source::SpentBytes;
use bitcoin::PublicKey;
use bitcoin::consensus::encode::{VarInt, deserialize_partial, serialize};

/// Returns spent outputs in REST's format, from either format.
pub(crate) fn as_tx_outs(spent: SpentBytes<'_>) -> Vec<u8> {
    match spent {
        SpentBytes::TxOuts(bytes) => bytes.to_vec(),
        SpentBytes::Undo(bytes) => Undo(bytes).decompressed(),
    }
}

/// The unread bytes.
struct Undo<'a>(&'a [u8]);

impl Undo<'_> {
    fn decompressed(mut self) -> Vec<u8> {
        let transactions = self.count();
        let mut out = serialize(&VarInt(transactions + 1));
        out.push(0);
        for _ in 0..transactions {
            let inputs = self.count();
            out.extend(serialize(&VarInt(inputs)));
            for _ in 0..inputs {
                if self.varint() > 1 {
                    self.varint();
                }
                let value = amount(self.varint());
                let script = self.script();
                out.extend(value.to_le_bytes());
                out.extend(serialize(&VarInt(script.len() as u64)));
                out.extend(script);
            }
        }
        assert!(self.0.is_empty(), "bytes are left over");
        out
    }

    fn take(&mut self, n: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(n);
        self.0 = rest;
        taken
    }

    fn count(&mut self) -> u64 {
        let VarInt(n) = deserialize_partial(self.0)
            .map(|(n, used)| {
                self.take(used);
                n
            })
            .unwrap();
        n
    }

    fn varint(&mut self) -> u64 {
        let mut n = 0;
        loop {
            let byte = self.take(1)[0];
            n = (n << 7) | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return n;
            }
            n += 1;
        }
    }

    fn script(&mut self) -> Vec<u8> {
        match self.varint() {
            0 => [&[0x76, 0xa9, 20], self.take(20), &[0x88, 0xac]].concat(),
            1 => [&[0xa9, 20], self.take(20), &[0x87]].concat(),
            sign @ (2 | 3) => [&[33, byte(sign)], self.take(32), &[0xac]].concat(),
            sign @ (4 | 5) => {
                let compressed = [&[byte(sign) - 2], self.take(32)].concat();
                let key = PublicKey::from_slice(&compressed).unwrap().inner.serialize_uncompressed();
                [&[65][..], &key, &[0xac]].concat()
            }
            length => self.take(usize::try_from(length - 6).unwrap()).to_vec(),
        }
    }
}

fn amount(coded: u64) -> u64 {
    if coded == 0 {
        return 0;
    }
    let (x, exponent) = ((coded - 1) / 10, (coded - 1) % 10);
    let digits = if exponent < 9 { x / 9 * 10 + x % 9 + 1 } else { x + 1 };
    digits * 10u64.pow(u32::try_from(exponent).unwrap())
}

fn byte(n: u64) -> u8 {
    u8::try_from(n).unwrap()
}
