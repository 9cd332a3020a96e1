//! `txnum`: txid -> txnum for the transactions of a pack, in buckets of 32 to 64.
//!
//! ```text
//! key    bucket 4 BE                                       the first bits of the txid's keyed hash
//! value  width 1 | hashes LEB128 | hashes, ascending (`remainders`) | txnums, `width` bytes LE each
//! ```
//! Readers verify candidates against the txid.

use birdhouse_store::Table;

use crate::block::{Cursor, Malformed, put_leb128, put_uint_le, uint_width};
use crate::names::{KeyLength, TxNum};
use crate::rows::in_slots;
use crate::rows::pack::{PACK_SLOTS, Pack};
use crate::rows::remainders::{Kept, RemainderReader, Remainders};

pub(crate) const TABLES: [Table; PACK_SLOTS] = in_slots(
    ["txnum.0", "txnum.1", "txnum.2", "txnum.3", "txnum.4", "txnum.5", "txnum.6", "txnum.7"],
    Table { name: "", partition_bytes: 0, compress: false },
);

/// The table of the transactions of a pack.
pub(crate) fn table(pack: &Pack) -> Table {
    TABLES[usize::from(pack.slot)]
}

/// The least average of transactions in a bucket; the average stays below twice this number.
pub(crate) const PER_BUCKET: u64 = 32;

/// The bits of a hash that a bucket keeps.
fn kept_by(pack: &Pack) -> Kept {
    Kept::new(pack.txnum_bits, pack.key_length.txid_bytes())
}

/// The bytes of a hash that packs keep, as a number; the others are zeros. Rows ascend by it.
pub(crate) fn kept(hash: u64, key_length: KeyLength) -> u64 {
    let dropped = 64 - 8 * u32::try_from(key_length.txid_bytes()).expect("at most five");
    hash >> dropped << dropped
}

/// The value of a bucket. Its entries must ascend by what the pack keeps of the hash.
pub(crate) fn value(entries: &[(u64, TxNum)], pack: &Pack) -> Vec<u8> {
    let width = uint_width(entries.iter().map(|(_, txnum)| txnum.0).max().unwrap_or(0));
    let kept = kept_by(pack);
    let mut hashes = Remainders::default();
    for (hash, _) in entries {
        hashes.push(to_bits(*hash), kept);
    }
    // Enough for all: a hash takes at most four low bytes and some bits.
    let mut out = Vec::with_capacity(64 + entries.len() * (5 + width));
    out.push(u8::try_from(width).expect("at most eight"));
    put_leb128(&mut out, entries.len() as u64);
    hashes.take(kept, &mut out);
    for (_, txnum) in entries {
        put_uint_le(&mut out, txnum.0, width);
    }
    out
}

/// A hash as the first bits of a number.
fn to_bits(hash: u64) -> u128 {
    u128::from(hash) << 64
}

/// A decoded bucket.
struct Bucket<'a> {
    hashes: RemainderReader<'a>,
    txnums: &'a [u8],
    width: usize,
}

impl<'a> Bucket<'a> {
    fn new(value: &'a [u8], pack: &Pack) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(value);
        let width = usize::from(cursor.u8("width")?);
        if !(1..=TxNum::LEN).contains(&width) {
            return Err(cursor.malformed("width"));
        }
        let count = cursor.leb128("hashes")?;
        let hashes = RemainderReader::new(&mut cursor, count, kept_by(pack))?;
        let txnums = cursor.take(hashes.len() * width, "txnums")?;
        if cursor.is_at_end() { Ok(Self { hashes, txnums, width }) } else { Err(cursor.malformed("txnum bucket")) }
    }

    fn txnum(&self, index: usize) -> Result<TxNum, Malformed> {
        Cursor::new(&self.txnums[index * self.width..]).uint_le(self.width, "txnum").map(TxNum)
    }
}

/// The txnums of the transactions in a bucket whose txid may have this hash.
pub(crate) fn candidates(value: &[u8], hash: u64, pack: &Pack) -> Result<Vec<TxNum>, Malformed> {
    let bucket = Bucket::new(value, pack)?;
    bucket.hashes.find(to_bits(hash)).map(|index| bucket.txnum(index)).collect()
}

/// Visits the transactions of a bucket, ascending by what the pack [keeps](kept) of the hash.
pub(crate) fn each(key: &[u8], value: &[u8], pack: &Pack, mut visit: impl FnMut(u64, TxNum)) -> Result<(), Malformed> {
    let number = u32::from_be_bytes(*Cursor::new(key).array("bucket")?);
    let bucket = Bucket::new(value, pack)?;
    for (index, hash) in bucket.hashes.keys(number).enumerate() {
        visit(u64::try_from(hash >> 64).expect("64 bits"), bucket.txnum(index)?);
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pack(txnum_bits: u32, key_length: KeyLength) -> Pack {
        Pack { slot: 0, key_length, script_bits: 0, txnum_bits, start: TxNum(0), end: TxNum(1 << 30), scripts: 0 }
    }

    proptest! {
        #[test]
        fn every_entry_is_a_candidate_for_its_hash(
            hashes in prop::collection::btree_set(any::<u64>(), 0..80), bits in 0..25_u32, is_long: bool,
        ) {
            let pack = pack(bits, if is_long { KeyLength::Wide } else { KeyLength::Narrow });
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
                let _ = candidates(&bytes, hash, &pack(8, KeyLength::Narrow));
                let _ = each(&[0; 4], &bytes, &pack(8, KeyLength::Narrow), |_, _| ());
            }
        }
    }

    #[test]
    fn golden_bytes() {
        let entries = [(0xab12_3456_0000_0000, TxNum(7)), (0xab13_3556_0000_0000, TxNum(0x0100))];
        let expected = [2, 2, 0b0000_0101, 0x34, 0x56, 0x35, 0x56, 7, 0, 0, 1];
        assert_eq!(value(&entries, &pack(15, KeyLength::Narrow)), expected);
    }
}
