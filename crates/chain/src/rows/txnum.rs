//! `txnum`: txid -> txnum, packed by the build into buckets of about 32 transactions.
//!
//! ```text
//! key    generation 4 BE | bucket 4 BE                       bucket: the first bits of the txid's keyed hash
//! value  width 1 | remainders 2 BE each, ascending | txnums, `width` bytes LE each
//! ```
//! The remainder is the 16 bits of the hash after the bucket's. Readers verify candidates against the txid.

use birdhouse_store::Table;

use crate::bytes::{Cursor, Malformed, put_uint_le, uint_width};
use crate::txnum::TxNum;

pub(crate) const TABLE: Table = Table { name: "txnum", partition_bytes: 0, compress: false };

/// The least average of transactions in a bucket; the average stays below twice this number.
pub(crate) const PER_BUCKET: u64 = 32;

/// The 16 bits of a hash after the bucket's.
fn remainder(hash: u64, bits: u32) -> u16 {
    u16::try_from(hash << bits >> 48).expect("16 bits")
}

/// The value of a bucket. Its entries must ascend by hash.
pub(crate) fn value(entries: &[(u64, TxNum)], bits: u32) -> Vec<u8> {
    let width = uint_width(entries.iter().map(|(_, txnum)| txnum.0).max().unwrap_or(0));
    let mut out = Vec::with_capacity(1 + entries.len() * (2 + width));
    out.push(u8::try_from(width).expect("at most eight"));
    for (hash, _) in entries {
        out.extend_from_slice(&remainder(*hash, bits).to_be_bytes());
    }
    for (_, txnum) in entries {
        put_uint_le(&mut out, txnum.0, width);
    }
    out
}

/// The txnums of the transactions in a bucket whose txid may have this hash.
pub(crate) fn candidates(value: &[u8], hash: u64, bits: u32) -> Result<Vec<TxNum>, Malformed> {
    let mut cursor = Cursor::new(value);
    let width = usize::from(cursor.u8("width")?);
    let entry = 2 + width;
    let rest = value.len() - 1;
    if !(1..=TxNum::LEN).contains(&width) || !rest.is_multiple_of(entry) {
        return Err(cursor.malformed("txnum bucket"));
    }
    let (remainders, _) = cursor.take(rest / entry * 2, "remainders")?.as_chunks::<2>();
    let txnums = cursor.take(rest / entry * width, "txnums")?;
    let wanted = remainder(hash, bits).to_be_bytes();
    let start = remainders.partition_point(|remainder| *remainder < wanted);
    let matching = remainders[start..].iter().take_while(|remainder| **remainder == wanted).count();
    let matching = txnums[start * width..(start + matching) * width].chunks_exact(width);
    matching.map(|bytes| Cursor::new(bytes).uint_le(width, "txnum").map(TxNum)).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_entry_is_a_candidate_for_its_hash(
            mut hashes in prop::collection::btree_set(any::<u64>(), 0..80),
            bits in 0..25_u32, absent: u64,
        ) {
            hashes.remove(&absent);
            let mut entries: Vec<(u64, TxNum)> =
                hashes.iter().enumerate().map(|(i, hash)| (*hash >> bits, TxNum(i as u64 * 1000))).collect();
            entries.sort_unstable();
            let value = value(&entries, bits);
            for (hash, txnum) in &entries {
                prop_assert!(candidates(&value, *hash, bits).unwrap().contains(txnum));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, hash: u64) {
            if !bytes.is_empty() {
                let _ = candidates(&bytes, hash, 8);
            }
        }
    }

    #[test]
    fn golden_bytes() {
        let entries = [(0xab12_3400_0000_0000, TxNum(7)), (0xab12_3500_0000_0000, TxNum(0x0100))];
        assert_eq!(value(&entries, 8), [2, 0x12, 0x34, 0x12, 0x35, 7, 0, 0, 1]);
    }
}
