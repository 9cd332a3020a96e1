//! `txnum`: txid -> txnum for the transactions of a pack, in buckets of 32 to 64.
//!
//! ```text
//! key    bucket 4 BE                                       the first bits of the txid's keyed hash
//! value  width 1 | remainders, ascending | txnums, `width` bytes LE each
//! ```
//! The remainder is the bytes of the hash that the bucket's number does not decide, up to the pack's key length: 1
//! to 5.
//! Readers verify candidates against the txid.

use birdhouse_store::Table;

use crate::bytes::{Cursor, Malformed, put_first, put_uint_le, uint_width};
use crate::prefix::KeyLength;
use crate::rows::pack::{PACK_SLOTS, Pack};
use crate::rows::{bucket_prefix, first_not_below, in_slots, whole_bytes};
use crate::txnum::TxNum;

pub(crate) const TABLES: [Table; PACK_SLOTS] =
    in_slots(["txnum.0", "txnum.1", "txnum.2", "txnum.3", "txnum.4", "txnum.5", "txnum.6", "txnum.7"], 0, false);

/// The table of the transactions of a pack.
pub(crate) fn table(pack: &Pack) -> Table {
    TABLES[usize::from(pack.slot)]
}

/// The least average of transactions in a bucket; the average stays below twice this number.
pub(crate) const PER_BUCKET: u64 = 32;

/// The bytes of a hash that a bucket keeps.
fn remainder_of(pack: &Pack) -> std::ops::Range<usize> {
    whole_bytes(pack.txnum_bits)..pack.key_length.txid_bytes()
}

/// The bytes of a hash that packs keep, as a number; the others are zeros. Rows ascend by it.
pub(crate) fn kept(hash: u64, key_length: KeyLength) -> u64 {
    let dropped = 64 - 8 * u32::try_from(key_length.txid_bytes()).expect("at most five");
    hash >> dropped << dropped
}

/// The value of a bucket. Its entries must ascend by what the pack keeps of the hash.
pub(crate) fn value(entries: &[(u64, TxNum)], pack: &Pack) -> Vec<u8> {
    let width = uint_width(entries.iter().map(|(_, txnum)| txnum.0).max().unwrap_or(0));
    let remainder = remainder_of(pack);
    let mut out = Vec::with_capacity(1 + entries.len() * (remainder.len() + width) + size_of::<u64>());
    out.push(u8::try_from(width).expect("at most eight"));
    for (hash, _) in entries {
        put_first(&mut out, (hash << (8 * remainder.start)).to_be_bytes(), remainder.len());
    }
    for (_, txnum) in entries {
        put_uint_le(&mut out, txnum.0, width);
    }
    out
}

/// A decoded bucket.
struct Bucket<'a> {
    remainders: &'a [u8],
    txnums: &'a [u8],
    remainder_bytes: usize,
    width: usize,
}

impl<'a> Bucket<'a> {
    fn new(value: &'a [u8], pack: &Pack) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(value);
        let width = usize::from(cursor.u8("width")?);
        let remainder_bytes = remainder_of(pack).len();
        let rest = value.len() - 1;
        if !(1..=TxNum::LEN).contains(&width) || !rest.is_multiple_of(remainder_bytes + width) {
            return Err(cursor.malformed("txnum bucket"));
        }
        let count = rest / (remainder_bytes + width);
        let remainders = cursor.take(count * remainder_bytes, "remainders")?;
        let txnums = cursor.take(count * width, "txnums")?;
        Ok(Self { remainders, txnums, remainder_bytes, width })
    }

    fn len(&self) -> usize {
        self.txnums.len() / self.width
    }

    fn remainder(&self, index: usize) -> &'a [u8] {
        &self.remainders[index * self.remainder_bytes..][..self.remainder_bytes]
    }

    fn txnum(&self, index: usize) -> Result<TxNum, Malformed> {
        Cursor::new(&self.txnums[index * self.width..]).uint_le(self.width, "txnum").map(TxNum)
    }
}

/// The txnums of the transactions in a bucket whose txid may have this hash.
pub(crate) fn candidates(value: &[u8], hash: u64, pack: &Pack) -> Result<Vec<TxNum>, Malformed> {
    let bucket = Bucket::new(value, pack)?;
    let hash = hash.to_be_bytes();
    let wanted = &hash[remainder_of(pack)];
    let start = first_not_below(bucket.remainders, bucket.remainder_bytes, wanted);
    let matching = (start..bucket.len()).take_while(|index| bucket.remainder(*index) == wanted);
    matching.map(|index| bucket.txnum(index)).collect()
}

/// Visits the transactions of a bucket, ascending by what the pack [keeps](kept) of the hash.
pub(crate) fn each(key: &[u8], value: &[u8], pack: &Pack, mut visit: impl FnMut(u64, TxNum)) -> Result<(), Malformed> {
    let number = u32::from_be_bytes(*Cursor::new(key).array("bucket")?);
    let bucket = Bucket::new(value, pack)?;
    let mut hash = [0; 8];
    let prefix = bucket_prefix(number, pack.txnum_bits);
    hash[..prefix.len()].copy_from_slice(&prefix);
    for index in 0..bucket.len() {
        hash[remainder_of(pack)].copy_from_slice(bucket.remainder(index));
        visit(u64::from_be_bytes(hash), bucket.txnum(index)?);
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pack(txnum_bits: u32, is_long: bool) -> Pack {
        let key_length = if is_long { KeyLength::Wide } else { KeyLength::Narrow };
        Pack { slot: 0, key_length, script_bits: 0, txnum_bits, start: TxNum(0), end: TxNum(1 << 30), scripts: 0 }
    }

    proptest! {
        #[test]
        fn every_entry_is_a_candidate_for_its_hash(
            hashes in prop::collection::btree_set(any::<u64>(), 0..80), bits in 0..25_u32, is_long: bool,
        ) {
            let pack = pack(bits, is_long);
            let mut entries: Vec<(u64, TxNum)> =
                hashes.iter().enumerate().map(|(i, hash)| (*hash >> bits, TxNum(i as u64 * 1000))).collect();
            entries.sort_unstable_by_key(|(hash, txnum)| (kept(*hash, pack.key_length), *txnum));
            let value = value(&entries, &pack);
            for (hash, txnum) in &entries {
                prop_assert!(candidates(&value, *hash, &pack).unwrap().contains(txnum));
            }
            let mut visited = Vec::new();
            each(&[0; 4], &value, &pack, |hash, txnum| visited.push((hash, txnum))).unwrap();
            let expected: Vec<_> = entries.iter().map(|(hash, txnum)| (kept(*hash, pack.key_length), *txnum)).collect();
            prop_assert_eq!(visited, expected);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, hash: u64) {
            if !bytes.is_empty() {
                let _ = candidates(&bytes, hash, &pack(8, false));
                let _ = each(&[0; 4], &bytes, &pack(8, false), |_, _| ());
            }
        }
    }

    #[test]
    fn golden_bytes() {
        let entries = [(0xab12_3456_0000_0000, TxNum(7)), (0xab12_3556_0000_0000, TxNum(0x0100))];
        assert_eq!(value(&entries, &pack(8, false)), [2, 0x12, 0x34, 0x56, 0x12, 0x35, 0x56, 7, 0, 0, 1]);
    }
}
