//! `script`: history and unspent outputs of every script, packed by the build into buckets of 32 to 64.
//!
//! ```text
//! key      generation 4 BE | bucket 4 BE                            bucket: the first bits of the script prefix
//! value    width 1 | scripts LEB128 | remainders 5 BE each, ascending | entries, in the same order
//! entry    head LEB128: transactions << 3 | shared << 2 | min(coins, 3)        no transactions: a long script
//!          [coins - 3 LEB128]  when the head has 3
//!          [prefix's last 3 bytes, check 2 BE]  when shared
//!          first txnum `width` LE | differences to the next ones LEB128
//!          coins: steps in the list of txnums << 2 | min(vout, 3) LEB128 [vout - 3 LEB128] | amount
//! ```
//! The remainder is the 40 bits of the prefix after the bucket's. A script outside the index has the remainder of one
//! inside with a chance of about 2^-35. The build sees all 77 bits of a key; where two scripts share bucket and
//! remainder, both entries carry the rest of their keys (`shared`).
//!
//! A script with more than [`INLINE_MAX`] transactions or coins is *long*: its entry holds no more than that fact, and
//! its rows are in `history`, `unspent` and `summary`.

use birdhouse_store::Table;

use crate::bytes::{Cursor, Malformed, put_leb128, put_uint_le};
use crate::prefix::ScriptKey;
use crate::rows::{Coin, TxOutNum, amount, put_amount};
use crate::txnum::TxNum;

pub(crate) const TABLE: Table = Table { name: "script", partition_bytes: 0, compress: false };

/// The least average of scripts in a bucket; the average stays below twice this number.
pub(crate) const PER_BUCKET: u64 = 32;

/// The most transactions, and the most coins, of an entry.
pub(crate) const INLINE_MAX: usize = 256;

const REMAINDER_LEN: usize = 5;
const SHARED: u64 = 1 << 2;
const COINS_MASK: u64 = 3;

/// The scripts of one bucket while it is filled, ascending by key.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    entries: Vec<Entry>,
    txnums: Vec<TxNum>,
    coins: Vec<Coin>,
}

#[derive(Debug)]
struct Entry {
    key: ScriptKey,
    txnums_end: usize,
    coins_end: usize,
}

/// The entry of one script in a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// All packed transactions and coins of the script, ascending.
    Inline {
        /// The transactions that touch it.
        txnums: Vec<TxNum>,
        /// Its unspent outputs.
        coins: Vec<Coin>,
    },
    /// The script has rows of its own in other tables.
    Long,
}

impl Bucket {
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.txnums.clear();
        self.coins.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a script. A long script is added without transactions.
    pub(crate) fn push(&mut self, key: ScriptKey, txnums: &[TxNum], coins: &[Coin]) {
        debug_assert!(self.entries.last().is_none_or(|last| last.key < key));
        self.txnums.extend_from_slice(txnums);
        self.coins.extend_from_slice(coins);
        self.entries.push(Entry { key, txnums_end: self.txnums.len(), coins_end: self.coins.len() });
    }

    /// Writes the value of the row to `out`. Every txnum of the generation must fit `width` bytes.
    pub(crate) fn value(&self, bits: u32, width: usize, out: &mut Vec<u8>) {
        out.clear();
        out.push(u8::try_from(width).expect("at most five"));
        put_leb128(out, self.entries.len() as u64);
        for entry in &self.entries {
            out.extend_from_slice(&remainder(entry.key, bits));
        }
        let (mut txnums_start, mut coins_start) = (0, 0);
        for (index, entry) in self.entries.iter().enumerate() {
            let shared = self.is_shared(index, bits);
            let txnums = &self.txnums[txnums_start..entry.txnums_end];
            put_entry(out, entry.key, shared, txnums, &self.coins[coins_start..entry.coins_end], width);
            (txnums_start, coins_start) = (entry.txnums_end, entry.coins_end);
        }
    }

    /// True if a neighbour has the same remainder.
    fn is_shared(&self, index: usize, bits: u32) -> bool {
        let own = remainder(self.entries[index].key, bits);
        let same = |other: Option<&Entry>| other.is_some_and(|other| remainder(other.key, bits) == own);
        same(self.entries.get(index + 1)) || same(index.checked_sub(1).and_then(|before| self.entries.get(before)))
    }
}

/// The 40 bits of a prefix after the bucket's.
fn remainder(key: ScriptKey, bits: u32) -> [u8; REMAINDER_LEN] {
    (key.prefix << bits).to_be_bytes()[..REMAINDER_LEN].try_into().expect("five of eight bytes")
}

/// The rest of a key after bucket and remainder: the last 3 bytes of the prefix, and the check.
fn rest_of_key(key: ScriptKey) -> [u8; 5] {
    let mut rest = [0; 5];
    rest[..3].copy_from_slice(&key.prefix.to_be_bytes()[5..]);
    rest[3..].copy_from_slice(&key.check.to_be_bytes());
    rest
}

fn put_entry(out: &mut Vec<u8>, key: ScriptKey, shared: bool, txnums: &[TxNum], coins: &[Coin], width: usize) {
    let few = (coins.len() as u64).min(COINS_MASK);
    put_leb128(out, (txnums.len() as u64) << 3 | if shared { SHARED } else { 0 } | few);
    if few == COINS_MASK {
        put_leb128(out, coins.len() as u64 - COINS_MASK);
    }
    if shared {
        out.extend_from_slice(&rest_of_key(key));
    }
    let Some(first) = txnums.first() else { return };
    put_uint_le(out, first.0, width);
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
}

/// Finds a script in the value of a bucket.
pub(crate) fn find(value: &[u8], key: ScriptKey, bits: u32) -> Result<Option<Found>, Malformed> {
    let mut reader = BucketReader::new(value)?;
    let wanted = remainder(key, bits);
    let start = reader.remainders.partition_point(|remainder| *remainder < wanted);
    if reader.remainders.get(start) != Some(&wanted) {
        return Ok(None);
    }
    for _ in 0..start {
        reader.skip()?;
    }
    let same = reader.remainders[start..].iter().take_while(|remainder| **remainder == wanted).count();
    for _ in 0..same {
        let (rest, found) = reader.entry()?;
        if rest.is_none_or(|rest| rest == rest_of_key(key)) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The number of scripts in the value of a bucket.
pub(crate) fn scripts(value: &[u8]) -> Result<u64, Malformed> {
    Ok(BucketReader::new(value)?.remainders.len() as u64)
}

struct BucketReader<'a> {
    width: usize,
    remainders: &'a [[u8; REMAINDER_LEN]],
    cursor: Cursor<'a>,
}

struct Head {
    txnums: u64,
    shared: bool,
    coins: u64,
}

impl<'a> BucketReader<'a> {
    fn new(value: &'a [u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(value);
        let width = usize::from(cursor.u8("width")?);
        if !(1..=TxNum::LEN).contains(&width) {
            return Err(cursor.malformed("width"));
        }
        let scripts = cursor.leb128("scripts")?;
        let bytes = usize::try_from(scripts).ok().and_then(|n| n.checked_mul(REMAINDER_LEN));
        let bytes = bytes.ok_or_else(|| cursor.malformed("scripts"))?;
        let (remainders, _) = cursor.take(bytes, "remainders")?.as_chunks();
        Ok(Self { width, remainders, cursor })
    }

    fn head(&mut self) -> Result<Head, Malformed> {
        let head = self.cursor.leb128("head")?;
        let mut coins = head & COINS_MASK;
        if coins == COINS_MASK {
            coins = self.cursor.leb128("coins")?.saturating_add(coins);
        }
        Ok(Head { txnums: head >> 3, shared: head & SHARED != 0, coins })
    }

    fn skip(&mut self) -> Result<(), Malformed> {
        let head = self.head()?;
        if head.shared {
            self.cursor.take(5, "rest of the key")?;
        }
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
        Ok(())
    }

    fn entry(&mut self) -> Result<(Option<[u8; 5]>, Found), Malformed> {
        let head = self.head()?;
        let rest = if head.shared { Some(*self.cursor.array("rest of the key")?) } else { None };
        if head.txnums == 0 {
            return Ok((rest, Found::Long));
        }
        if head.txnums > INLINE_MAX as u64 || head.coins > INLINE_MAX as u64 {
            return Err(self.cursor.malformed("head"));
        }
        let mut last = self.cursor.uint_le(self.width, "first txnum")?;
        let mut txnums = vec![TxNum(last)];
        for _ in 1..head.txnums {
            last = last.saturating_add(self.cursor.leb128("txnum")?);
            txnums.push(TxNum(last));
        }
        let mut coins = Vec::with_capacity(usize::try_from(head.coins).expect("at most INLINE_MAX"));
        let mut at = 0_u64;
        for _ in 0..head.coins {
            let code = self.cursor.leb128("coin")?;
            at = at.saturating_add(code >> 2);
            let out = self.out_at(&txnums, at, code & 3)?;
            coins.push(Coin { out, value: amount(&mut self.cursor)? });
        }
        Ok((rest, Found::Inline { txnums, coins }))
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

    fn coin(txnum: u64, vout: u32, value: u64) -> Coin {
        Coin { out: TxOutNum { txnum: TxNum(txnum), vout }, value }
    }

    fn key(prefix: u64, check: u16) -> ScriptKey {
        ScriptKey { prefix, check }
    }

    #[test]
    fn golden_bytes() {
        let mut bucket = Bucket::default();
        bucket.push(key(0x0102_0304_0506_0708, 9), &[TxNum(7)], &[coin(7, 1, 50 * 100_000_000)]);
        bucket.push(key(0x0102_0304_0606_0708, 9), &[TxNum(2), TxNum(300)], &[]);
        let mut value = Vec::new();
        bucket.value(8, 2, &mut value);
        let expected =
            [&[2, 2, 2, 3, 4, 5, 6, 2, 3, 4, 6, 6][..], &[1 << 3 | 1, 7, 0, 1, 0x65], &[2 << 3, 2, 0, 0xaa, 0x02]];
        assert_eq!(value, expected.concat());
    }

    #[test]
    fn scripts_that_share_a_remainder_are_told_apart() {
        let twins = [key(0x0011_2233_4455_aa00, 1), key(0x0011_2233_4455_aa00, 2), key(0x0011_2233_4455_aa01, 1)];
        let mut bucket = Bucket::default();
        for (index, twin) in twins.iter().enumerate() {
            bucket.push(*twin, &[TxNum(index as u64)], &[]);
        }
        let mut value = Vec::new();
        bucket.value(0, 1, &mut value);
        for (index, twin) in twins.iter().enumerate() {
            let found = Found::Inline { txnums: vec![TxNum(index as u64)], coins: vec![] };
            assert_eq!(find(&value, *twin, 0).unwrap(), Some(found));
        }
        assert_eq!(find(&value, key(0x0011_2233_4455_aa02, 1), 0).unwrap(), None);
    }

    type Scripts = Vec<(u64, Vec<u64>, Vec<(usize, u32, u64)>)>;

    fn scripts_strategy() -> impl Strategy<Value = Scripts> {
        let txnums = prop::collection::btree_set(0..1_u64 << 33, 0..6).prop_map(|set| set.into_iter().collect());
        let coins = prop::collection::vec((0..6_usize, 0..70_u32, 0..21_000_000_u64 * 100_000_000), 0..8);
        prop::collection::btree_map(any::<u64>(), (txnums, coins), 0..50)
            .prop_map(|map| map.into_iter().map(|(prefix, (txnums, coins))| (prefix >> 4, txnums, coins)).collect())
    }

    proptest! {
        #[test]
        fn every_script_is_found_as_it_was_pushed(scripts in scripts_strategy(), absent: u64) {
            let mut bucket = Bucket::default();
            let mut expected = Vec::new();
            for (prefix, txnums, coins) in &scripts {
                let txnums: Vec<TxNum> = txnums.iter().copied().map(TxNum).collect();
                let mut coins: Vec<Coin> = coins
                    .iter()
                    .filter(|_| !txnums.is_empty())
                    .map(|(at, vout, value)| coin(txnums[at % txnums.len()].0, *vout, *value))
                    .collect();
                coins.sort_unstable();
                let key = key(*prefix, 5);
                if expected.last().is_some_and(|(last, _)| *last == key) {
                    continue;
                }
                bucket.push(key, &txnums, &coins);
                let found = if txnums.is_empty() { Found::Long } else { Found::Inline { txnums, coins } };
                expected.push((key, found));
            }
            let mut value = Vec::new();
            bucket.value(4, 5, &mut value);
            prop_assert_eq!(super::scripts(&value).unwrap(), expected.len() as u64);
            for (key, found) in &expected {
                let again = find(&value, *key, 4).unwrap();
                prop_assert_eq!(again.as_ref(), Some(found));
            }
            let absent = key(absent >> 4, 5);
            if expected.iter().all(|(other, _)| remainder(*other, 4) != remainder(absent, 4)) {
                prop_assert_eq!(find(&value, absent, 4).unwrap(), None);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, prefix: u64) {
            let _ = find(&bytes, key(prefix, 0), 10);
        }
    }
}
