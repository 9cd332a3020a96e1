//! `script`: history, unspent outputs and spends of every script in a pack, in buckets of 32 to 64.
//!
//! ```text
//! key      bucket 4 BE                                              the first bits of the script key
//! value    width 1 | scripts LEB128 | keys, ascending (`remainders`) | entries, in the same order
//! entry    head LEB128: transactions << 3 | more << 2 | min(coins, 3)          no transactions: a long script
//!          [coins - 3 LEB128]  when the head has 3
//!          [spends LEB128 | inner outputs LEB128 | their sum LEB128]  when more
//!          first txnum - start of the pack `width` LE | differences to the next ones LEB128
//!          coins: steps in the list of txnums << 2 | min(vout, 3) LEB128 [vout - 3 LEB128] | amount
//!          spends: difference to the funding txnum before LEB128 | vout LEB128 | amount
//! ```
//! A script with more than [`INLINE_MAX`] transactions, coins or spends is *long*: its entry holds no more than that
//! fact, and its rows are in `long`. The oldest pack keeps no tally of inner outputs: the transactions of a script that
//! is not long can be read.

use birdhouse_store::Table;

use crate::block::{Cursor, Malformed, put_leb128, put_uint_le, uint_width};
use crate::names::{ScriptKey, TxNum};
use crate::rows::pack::{PACK_SLOTS, Pack};
use crate::rows::part::{Part, PartSlices, Tally};
use crate::rows::remainders::{Kept, RemainderReader, Remainders};
use crate::rows::{Coin, TxOutNum, amount, in_slots, put_amount};

pub(crate) const TABLES: [Table; PACK_SLOTS] = in_slots(
    ["script.0", "script.1", "script.2", "script.3", "script.4", "script.5", "script.6", "script.7"],
    Table { name: "", partition_bytes: 0, compress: false },
);

/// The table of the scripts of a pack.
pub(crate) fn table(pack: &Pack) -> Table {
    TABLES[usize::from(pack.slot)]
}

/// The least average of scripts in a bucket; the average stays below twice this number.
pub(crate) const PER_BUCKET: u64 = 32;

/// The most transactions, the most coins, and the most spends of an entry.
pub(super) const INLINE_MAX: usize = 256;

const MORE: u64 = 1 << 2;
const COINS_MASK: u64 = 3;

/// One bucket while it is filled, ascending by key.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    keys: Remainders,
    entries: Vec<u8>,
}

/// The entry of one script in a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// The whole part of the script.
    Inline(Part),
    /// The script has rows of its own in `long`.
    Long,
}

impl PartSlices<'_> {
    /// True if the script has rows of its own in `long`.
    pub(crate) fn is_long(self) -> bool {
        self.txnums.len().max(self.coins.len()).max(self.spends.len()) > INLINE_MAX
    }
}

impl Bucket {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.len() == 0
    }

    /// Adds a script. Of a long one only its key.
    pub(crate) fn push(&mut self, pack: &Pack, key: ScriptKey, part: PartSlices<'_>) {
        self.keys.push(key.to_bits(), kept(pack));
        if part.is_long() {
            put_leb128(&mut self.entries, 0);
        } else {
            put_inline(&mut self.entries, pack, part);
        }
    }

    /// Writes the value of the row to `out`, and empties the bucket.
    pub(crate) fn take_value(&mut self, pack: &Pack, out: &mut Vec<u8>) {
        out.clear();
        out.push(u8::try_from(width(pack)).expect("at most five"));
        put_leb128(out, self.keys.len() as u64);
        self.keys.take(kept(pack), out);
        out.append(&mut self.entries);
    }
}

/// The bits of a key that a bucket keeps.
fn kept(pack: &Pack) -> Kept {
    Kept::new(pack.script_bits, pack.key_length.script_bytes())
}

/// Bytes of a txnum, counted from the start of the pack.
fn width(pack: &Pack) -> usize {
    uint_width(pack.end.0 - pack.start.0)
}

fn put_inline(out: &mut Vec<u8>, pack: &Pack, part: PartSlices<'_>) {
    let PartSlices { txnums, coins, spends, inner } = part;
    let inner = if pack.is_oldest() { Tally::default() } else { inner };
    let has_more = !spends.is_empty() || inner.count > 0;
    let few = (coins.len() as u64).min(COINS_MASK);
    put_leb128(out, (txnums.len() as u64) << 3 | if has_more { MORE } else { 0 } | few);
    if few == COINS_MASK {
        put_leb128(out, coins.len() as u64 - COINS_MASK);
    }
    if has_more {
        for number in [spends.len() as u64, inner.count, inner.sum] {
            put_leb128(out, number);
        }
    }
    put_uint_le(out, txnums[0].0 - pack.start.0, width(pack));
    txnums.windows(2).for_each(|pair| put_leb128(out, pair[1].0 - pair[0].0));
    let mut at = 0;
    for coin in coins {
        let steps = txnums[at..].iter().position(|txnum| *txnum == coin.out.txnum);
        let steps = steps.expect("a coin's transaction is in the script's history, and coins ascend");
        at += steps;
        let vout = u64::from(coin.out.vout);
        put_leb128(out, (steps as u64) << 2 | vout.min(3));
        if vout >= 3 {
            put_leb128(out, vout - 3);
        }
        put_amount(out, coin.value);
    }
    let mut last = 0;
    for spend in spends {
        put_leb128(out, spend.out.txnum.0 - last);
        put_leb128(out, spend.out.vout.into());
        put_amount(out, spend.value);
        last = spend.out.txnum.0;
    }
}

/// Finds a script in the value of its bucket.
pub(crate) fn find(value: &[u8], key: ScriptKey, pack: &Pack) -> Result<Option<Found>, Malformed> {
    let mut reader = BucketReader::new(value, pack)?;
    let Some(index) = reader.keys.find(key.to_bits()).next() else { return Ok(None) };
    for _ in 0..index {
        reader.skip()?;
    }
    reader.entry(pack).map(Some)
}

/// Visits the scripts of a bucket, ascending by key.
pub(crate) fn each<E: From<Malformed>>(
    key: &[u8],
    value: &[u8],
    pack: &Pack,
    mut visit: impl FnMut(ScriptKey, Found) -> Result<(), E>,
) -> Result<(), E> {
    let mut reader = BucketReader::new(value, pack)?;
    for script in keys(key, value, pack)? {
        let found = reader.entry(pack)?;
        visit(script, found)?;
    }
    if reader.cursor.is_at_end() { Ok(()) } else { Err(reader.cursor.malformed("end of bucket").into()) }
}

/// The keys of the scripts in a bucket, ascending.
pub(crate) fn keys(key: &[u8], value: &[u8], pack: &Pack) -> Result<Vec<ScriptKey>, Malformed> {
    let bucket = u32::from_be_bytes(*Cursor::new(key).array("bucket")?);
    let reader = BucketReader::new(value, pack)?;
    Ok(reader.keys.keys(bucket).map(ScriptKey::from_bits).collect())
}

/// The number of scripts in the value of a bucket.
pub(crate) fn scripts(value: &[u8], pack: &Pack) -> Result<u64, Malformed> {
    Ok(BucketReader::new(value, pack)?.keys.len() as u64)
}

struct BucketReader<'a> {
    width: usize,
    keys: RemainderReader<'a>,
    cursor: Cursor<'a>,
}

struct Head {
    txnums: u64,
    coins: u64,
    spends: u64,
    inner: Tally,
}

impl<'a> BucketReader<'a> {
    fn new(value: &'a [u8], pack: &Pack) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(value);
        let width = usize::from(cursor.u8("width")?);
        if !(1..=TxNum::LEN).contains(&width) {
            return Err(cursor.malformed("width"));
        }
        let scripts = cursor.leb128("scripts")?;
        let keys = RemainderReader::new(&mut cursor, scripts, kept(pack))?;
        Ok(Self { width, keys, cursor })
    }

    fn head(&mut self) -> Result<Head, Malformed> {
        let head = self.cursor.leb128("head")?;
        let mut coins = head & COINS_MASK;
        if coins == COINS_MASK {
            coins = self.cursor.leb128("coins")?.saturating_add(coins);
        }
        let (mut spends, mut inner) = (0, Tally::default());
        if head & MORE != 0 {
            spends = self.cursor.leb128("spends")?;
            inner = Tally { count: self.cursor.leb128("inner outputs")?, sum: self.cursor.leb128("inner sum")? };
        }
        Ok(Head { txnums: head >> 3, coins, spends, inner })
    }

    fn skip(&mut self) -> Result<(), Malformed> {
        let head = self.head()?;
        if head.txnums == 0 {
            return Ok(());
        }
        self.cursor.take(self.width, "first txnum")?;
        for _ in 1..head.txnums {
            self.cursor.leb128("txnum")?;
        }
        for _ in 0..head.coins {
            if self.cursor.leb128("coin")? & 3 == 3 {
                self.cursor.leb128("vout")?;
            }
            self.cursor.leb128("amount")?;
        }
        for _ in 0..head.spends {
            self.cursor.leb128("funding txnum")?;
            self.cursor.leb128("vout")?;
            self.cursor.leb128("amount")?;
        }
        Ok(())
    }

    fn entry(&mut self, pack: &Pack) -> Result<Found, Malformed> {
        let head = self.head()?;
        if head.txnums == 0 {
            return Ok(Found::Long);
        }
        if [head.txnums, head.coins, head.spends].iter().any(|count| *count > INLINE_MAX as u64) {
            return Err(self.cursor.malformed("head"));
        }
        let capacity = |count: u64| usize::try_from(count).expect("at most INLINE_MAX");
        let mut last = pack.start.0.saturating_add(self.cursor.uint_le(self.width, "first txnum")?);
        let mut txnums = Vec::with_capacity(capacity(head.txnums));
        txnums.push(TxNum(last));
        for _ in 1..head.txnums {
            last = last.saturating_add(self.cursor.leb128("txnum")?);
            txnums.push(TxNum(last));
        }
        let mut coins = Vec::with_capacity(capacity(head.coins));
        let mut at = 0_u64;
        for _ in 0..head.coins {
            let code = self.cursor.leb128("coin")?;
            at = at.saturating_add(code >> 2);
            let out = self.out_at(&txnums, at, code & 3)?;
            coins.push(Coin { out, value: amount(&mut self.cursor)? });
        }
        let mut spends = Vec::with_capacity(capacity(head.spends));
        let mut funding = 0_u64;
        for _ in 0..head.spends {
            funding = funding.saturating_add(self.cursor.leb128("funding txnum")?);
            let vout = self.cursor.leb128("vout")?;
            let vout = u32::try_from(vout).map_err(|_| self.cursor.malformed("vout"))?;
            let out = TxOutNum { txnum: TxNum(funding), vout };
            spends.push(Coin { out, value: amount(&mut self.cursor)? });
        }
        let uncounted = if pack.is_oldest() { head.txnums } else { 0 };
        Ok(Found::Inline(Part { txnums, coins, spends, inner: head.inner, uncounted }))
    }

    fn out_at(&mut self, txnums: &[TxNum], at: u64, vout: u64) -> Result<TxOutNum, Malformed> {
        let vout = if vout < 3 { vout } else { self.cursor.leb128("vout")?.saturating_add(3) };
        let txnum = usize::try_from(at).ok().and_then(|at| txnums.get(at));
        match (txnum, u32::try_from(vout)) {
            (Some(&txnum), Ok(vout)) => Ok(TxOutNum { txnum, vout }),
            _ => Err(self.cursor.malformed("coin")),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::names::KeyLength;

    /// One transaction more than an entry holds.
    const LONG: [TxNum; INLINE_MAX + 1] = [TxNum(1); INLINE_MAX + 1];

    fn coin(txnum: u64, vout: u32, value: u64) -> Coin {
        Coin { out: TxOutNum { txnum: TxNum(txnum), vout }, value }
    }

    fn key(prefix: u64) -> ScriptKey {
        ScriptKey { prefix, check: 0 }
    }

    fn pack(script_bits: u32, start: u64, end: u64) -> Pack {
        let key_length = KeyLength::Narrow;
        Pack { slot: 0, key_length, script_bits, txnum_bits: 0, start: TxNum(start), end: TxNum(end), scripts: 0 }
    }

    #[test]
    fn golden_bytes() {
        let pack = pack(15, 100, 1000);
        let mut bucket = Bucket::default();
        let coins = [coin(107, 1, 50 * 100_000_000)];
        bucket.push(
            &pack,
            key(0x0102_0304_0506_0708),
            PartSlices { txnums: &[TxNum(107)], coins: &coins, ..PartSlices::default() },
        );
        let spends = [coin(5, 0, 1_000_000), coin(9, 7, 2_000_000)];
        let inner = Tally { count: 1, sum: 600 };
        let second = PartSlices { txnums: &[TxNum(102), TxNum(400)], coins: &[], spends: &spends, inner };
        bucket.push(&pack, key(0x0102_0304_0606_0708), second);
        bucket.push(&pack, key(0x0102_0304_0706_0708), PartSlices { txnums: &LONG, ..PartSlices::default() });
        let mut value = Vec::new();
        bucket.take_value(&pack, &mut value);
        let expected = [
            &[2, 3, 0b0000_0111][..],
            &[3, 4, 5, 6, 7, 8, 3, 4, 6, 6, 7, 8, 3, 4, 7, 6, 7, 8],
            &[1 << 3 | 1, 7, 0, 1, 0x65],
            &[2 << 3 | 4, 2, 1, 0xd8, 4, 2, 0, 0xaa, 0x02, 5, 0, 15, 4, 7, 35],
            &[0],
        ];
        assert_eq!(value, expected.concat());
        assert!(bucket.is_empty());
    }

    #[test]
    fn a_script_beyond_the_bound_is_long() {
        assert!(PartSlices { txnums: &LONG, ..PartSlices::default() }.is_long());
        assert!(!PartSlices { txnums: &LONG[1..], ..PartSlices::default() }.is_long());
    }

    fn parts_strategy() -> impl Strategy<Value = Vec<(u64, Part)>> {
        let txnums = prop::collection::btree_set(1 << 20..1_u64 << 33, 0..6);
        let coins = prop::collection::vec((0..6_usize, 0..70_u32, 0..21_000_000_u64 * 100_000_000), 0..8);
        let spends = prop::collection::btree_map((0..1_u64 << 20, 0..9_u32), 0..1_u64 << 40, 0..4);
        let part = (txnums, coins, spends, 0..3_u64).prop_map(|(txnums, coins, spends, count)| {
            let txnums: Vec<TxNum> = txnums.into_iter().map(TxNum).collect();
            let coins = coins.into_iter().filter(|_| !txnums.is_empty());
            let mut coins: Vec<Coin> =
                coins.map(|(at, vout, value)| coin(txnums[at % txnums.len()].0, vout, value)).collect();
            coins.sort_unstable();
            let spends = spends.into_iter().map(|((txnum, vout), value)| coin(txnum, vout, value)).collect();
            Part { txnums, coins, spends, inner: Tally { count, sum: 1000 * count }, uncounted: 0 }
        });
        prop::collection::btree_map(any::<u64>(), part, 0..50).prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        #[test]
        fn every_script_is_found_as_it_was_pushed(
            parts in parts_strategy(), bits in 0..25_u32, is_long: bool, absent: u64,
        ) {
            let key_length = if is_long { KeyLength::Wide } else { KeyLength::Narrow };
            let pack = Pack { key_length, ..pack(bits, 1 << 20, 1 << 33) };
            let key = |prefix: u64| ScriptKey { prefix: prefix >> bits, check: if is_long { 5 } else { 0 } };
            let mut bucket = Bucket::default();
            let mut expected: Vec<(ScriptKey, Found)> = Vec::new();
            for (prefix, part) in parts {
                if expected.last().is_some_and(|(last, _)| *last == key(prefix)) {
                    continue;
                }
                let is_long = part.txnums.is_empty();
                let long = PartSlices { txnums: &LONG, ..PartSlices::default() };
                bucket.push(&pack, key(prefix), if is_long { long } else { part.slices() });
                expected.push((key(prefix), if is_long { Found::Long } else { Found::Inline(part) }));
            }
            let mut value = Vec::new();
            bucket.take_value(&pack, &mut value);
            prop_assert_eq!(super::scripts(&value, &pack).unwrap(), expected.len() as u64);
            for (key, found) in &expected {
                let again = find(&value, *key, &pack).unwrap();
                prop_assert_eq!(again.as_ref(), Some(found));
            }
            let mut visited = Vec::new();
            each(&[0; 4], &value, &pack, |key, found| {
                visited.push((key, found));
                Ok::<(), Malformed>(())
            }).unwrap();
            prop_assert_eq!(&visited, &expected);
            if expected.iter().all(|(other, _)| *other != key(absent)) {
                prop_assert_eq!(find(&value, key(absent), &pack).unwrap(), None);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, prefix: u64) {
            let _ = find(&bytes, key(prefix), &pack(10, 5, 600));
            let _ = each(&[0; 4], &bytes, &pack(10, 5, 600), |_, _| Ok::<(), Malformed>(()));
        }
    }
}
