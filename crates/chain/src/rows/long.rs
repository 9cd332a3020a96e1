//! `long`: rows of the scripts of a pack that are too long for their bucket.
//!
//! ```text
//! key    script key 9 | kind 1 | position
//! value  kind 0, summary, no position:   transactions | coins | their sum | spends | their sum | inner outputs
//!                                        | their sum | uncounted transactions                        (LEB128 each)
//!        kind 1, history, first txnum 5 BE:          differences to the following txnums, LEB128 each
//!        kind 2, coins, first txnum 5 BE | vout 4 BE:  per coin: difference to the txnum before LEB128 | vout LEB128
//!                                        | amount
//!        kind 3, spends, in the same form as coins
//! ```

use birdhouse_store::Table;

use crate::block::{Cursor, Malformed, put_leb128};
use crate::names::{ScriptKey, TxNum};
use crate::rows::pack::{PACK_SLOTS, Pack};
use crate::rows::part::{Part, PartSlices, Tally};
use crate::rows::{Coin, TxOutNum, amount, in_slots, put_amount, txnum_bytes, txnum_from};

pub(crate) const TABLES: [Table; PACK_SLOTS] = in_slots(
    ["long.0", "long.1", "long.2", "long.3", "long.4", "long.5", "long.6", "long.7"],
    Table { name: "", partition_bytes: ScriptKey::LEN, compress: false },
);

/// The table of the long scripts of a pack.
pub(crate) fn table(pack: &Pack) -> Table {
    TABLES[usize::from(pack.slot)]
}

/// The kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Summary = 0,
    History = 1,
    Coins = 2,
    Spends = 3,
}

/// Every kind.
pub(crate) const ALL: &[Kind] = &[Kind::Summary, Kind::History, Kind::Coins, Kind::Spends];

/// Transactions in a row of the history.
const HISTORY_CHUNK: usize = 1000;
/// Coins, or spends, in a row.
const COINS_CHUNK: usize = 500;

/// Counts and sums of a script in one pack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) txs: u64,
    /// Outputs funded in the pack and not spent in it.
    pub(crate) coins: Tally,
    /// Outputs of earlier packs that are spent in this one.
    pub(crate) spends: Tally,
    /// Outputs funded and spent in the pack.
    pub(crate) inner: Tally,
    /// Leading transactions whose inner outputs are not counted.
    pub(crate) uncounted: u64,
}

impl Summary {
    pub(crate) fn of(part: &Part) -> Self {
        Self {
            txs: part.txnums.len() as u64,
            coins: Tally::of(&part.coins),
            spends: Tally::of(&part.spends),
            inner: part.inner,
            uncounted: part.uncounted,
        }
    }
}

/// The first bytes of the keys of a script's rows of one kind.
pub(crate) fn key_prefix(script: ScriptKey, kind: Kind) -> [u8; ScriptKey::LEN + 1] {
    let mut key = [kind as u8; ScriptKey::LEN + 1];
    key[..ScriptKey::LEN].copy_from_slice(&script.to_bytes());
    key
}

/// All rows of one script, ascending.
pub(crate) fn rows<'a>(
    script: ScriptKey,
    summary: &Summary,
    part: PartSlices<'a>,
) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> + 'a {
    let summary = (key_prefix(script, Kind::Summary).to_vec(), summary_value(summary));
    let history = part.txnums.chunks(HISTORY_CHUNK).map(move |chunk| {
        let mut value = Vec::with_capacity(3 * chunk.len());
        chunk.windows(2).for_each(|pair| put_leb128(&mut value, pair[1].0 - pair[0].0));
        ([&key_prefix(script, Kind::History)[..], &txnum_bytes(chunk[0])].concat(), value)
    });
    let coins = coin_rows(script, Kind::Coins, part.coins).chain(coin_rows(script, Kind::Spends, part.spends));
    std::iter::once(summary).chain(history).chain(coins)
}

fn coin_rows(script: ScriptKey, kind: Kind, coins: &[Coin]) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    coins.chunks(COINS_CHUNK).map(move |chunk| {
        let first = chunk[0].out;
        let mut value = Vec::with_capacity(8 * chunk.len());
        let mut last = first.txnum;
        for coin in chunk {
            put_leb128(&mut value, coin.out.txnum.0 - last.0);
            put_leb128(&mut value, coin.out.vout.into());
            put_amount(&mut value, coin.value);
            last = coin.out.txnum;
        }
        ([&key_prefix(script, kind)[..], &txnum_bytes(first.txnum), &first.vout.to_be_bytes()].concat(), value)
    })
}

fn summary_value(summary: &Summary) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    let Summary { txs, coins, spends, inner, uncounted } = *summary;
    for number in [txs, coins.count, coins.sum, spends.count, spends.sum, inner.count, inner.sum, uncounted] {
        put_leb128(&mut out, number);
    }
    out
}

pub(crate) fn decode_summary(value: &[u8]) -> Result<Summary, Malformed> {
    let mut cursor = Cursor::new(value);
    let mut number = || cursor.leb128("summary");
    let txs = number()?;
    let mut tally = || Ok(Tally { count: number()?, sum: number()? });
    let (coins, spends, inner) = (tally()?, tally()?, tally()?);
    let summary = Summary { txs, coins, spends, inner, uncounted: number()? };
    if cursor.is_at_end() { Ok(summary) } else { Err(cursor.malformed("summary")) }
}

/// The script and the kind of a row.
pub(crate) fn decode_key(key: &[u8]) -> Result<(ScriptKey, Kind), Malformed> {
    let mut cursor = Cursor::new(key);
    let script = ScriptKey::from_bytes(*cursor.array("script key")?);
    let kind = match cursor.u8("kind")? {
        0 => Kind::Summary,
        1 => Kind::History,
        2 => Kind::Coins,
        3 => Kind::Spends,
        _ => return Err(cursor.malformed("kind")),
    };
    Ok((script, kind))
}

/// Appends the txnums of one row of the history.
pub(super) fn decode_history(key: &[u8], value: &[u8], out: &mut Vec<TxNum>) -> Result<(), Malformed> {
    let mut key = Cursor::new(key);
    key.take(ScriptKey::LEN + 1, "script key and kind")?;
    let mut last = txnum_from(*key.array("first txnum")?);
    out.push(last);
    let mut cursor = Cursor::new(value);
    while !cursor.is_at_end() {
        last = TxNum(last.0.saturating_add(cursor.leb128("txnum")?));
        out.push(last);
    }
    Ok(())
}

/// Appends the coins, or the spends, of one row.
pub(crate) fn decode_coins(key: &[u8], value: &[u8], out: &mut Vec<Coin>) -> Result<(), Malformed> {
    let mut key = Cursor::new(key);
    key.take(ScriptKey::LEN + 1, "script key and kind")?;
    let mut txnum = txnum_from(*key.array("first txnum")?);
    let mut cursor = Cursor::new(value);
    while !cursor.is_at_end() {
        txnum = TxNum(txnum.0.saturating_add(cursor.leb128("txnum")?));
        let vout = cursor.leb128("vout")?;
        let vout = u32::try_from(vout).map_err(|_| cursor.malformed("vout"))?;
        out.push(Coin { out: TxOutNum { txnum, vout }, value: amount(&mut cursor)? });
    }
    Ok(())
}

/// Adds one row to the part of its script.
pub(crate) fn decode_into(kind: Kind, key: &[u8], value: &[u8], part: &mut Part) -> Result<(), Malformed> {
    match kind {
        Kind::Summary => {
            let summary = decode_summary(value)?;
            (part.inner, part.uncounted) = (summary.inner, summary.uncounted);
            Ok(())
        }
        Kind::History => decode_history(key, value, &mut part.txnums),
        Kind::Coins => decode_coins(key, value, &mut part.coins),
        Kind::Spends => decode_coins(key, value, &mut part.spends),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SCRIPT: ScriptKey = ScriptKey { prefix: 0x0102_0304_0506_0708, check: 9 };

    fn coins(max: usize) -> impl Strategy<Value = Vec<Coin>> {
        let coins = prop::collection::btree_map((0..1_u64 << 30, 0..9_u32), 0..21_000_000_u64 * 100_000_000, 0..max);
        coins.prop_map(|coins| {
            let coin = |((txnum, vout), value)| Coin { out: TxOutNum { txnum: TxNum(txnum), vout }, value };
            coins.into_iter().map(coin).collect()
        })
    }

    proptest! {
        #[test]
        fn rows_hold_the_whole_part_in_order(
            txnums in prop::collection::btree_set(0..1_u64 << 30, 1..2500),
            coins in coins(1200), spends in coins(600), count in 0..9_u64, uncounted in 0..9_u64,
        ) {
            let inner = Tally { count, sum: 100 * count };
            let txnums = txnums.into_iter().map(TxNum).collect();
            let part = Part { txnums, coins, spends, inner, uncounted };
            let summary = Summary::of(&part);
            let rows: Vec<_> = rows(SCRIPT, &summary, part.slices()).collect();
            prop_assert!(rows.is_sorted());
            prop_assert_eq!(decode_summary(&rows[0].1).unwrap(), summary);
            let mut decoded = Part::default();
            for (key, value) in &rows {
                let (script, kind) = decode_key(key).unwrap();
                prop_assert_eq!(script, SCRIPT);
                decode_into(kind, key, value, &mut decoded).unwrap();
            }
            prop_assert_eq!(decoded, part);
        }

        #[test]
        fn any_bytes_are_read_or_refused(key: Vec<u8>, value: Vec<u8>) {
            if let Ok((_, kind)) = decode_key(&key) {
                let _ = decode_into(kind, &key, &value, &mut Part::default());
            }
        }
    }
}
