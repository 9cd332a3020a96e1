//! `unspent`: the packed unspent outputs of a long script.
//!
//! ```text
//! key    script prefix 8 BE | check 2 BE | first coin's txnum 5 BE | first coin's vout 4 BE
//! value  per coin: difference to the txnum before LEB128 | vout LEB128 | amount
//! ```

use birdhouse_store::Table;

use crate::bytes::{Cursor, Malformed, put_leb128};
use crate::prefix::ScriptKey;
use crate::rows::{Coin, TxOutNum, amount, put_amount, txnum_bytes, txnum_from};
use crate::txnum::TxNum;

pub(crate) const TABLE: Table = Table { name: "unspent", partition_bytes: ScriptKey::LEN, compress: false };

/// Coins in a row.
const CHUNK: usize = 500;

/// The rows of one script; `coins` ascend.
pub(crate) fn rows(script: ScriptKey, coins: &[Coin]) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    coins.chunks(CHUNK).map(move |chunk| {
        let first = chunk[0].out;
        let mut value = Vec::with_capacity(8 * chunk.len());
        let mut last = first.txnum;
        for coin in chunk {
            put_leb128(&mut value, coin.out.txnum.0 - last.0);
            put_leb128(&mut value, coin.out.vout.into());
            put_amount(&mut value, coin.value);
            last = coin.out.txnum;
        }
        ([&script.to_bytes()[..], &txnum_bytes(first.txnum), &first.vout.to_be_bytes()].concat(), value)
    })
}

/// Appends the coins of one row.
pub(crate) fn decode(key: &[u8], value: &[u8], out: &mut Vec<Coin>) -> Result<(), Malformed> {
    let mut key = Cursor::new(key);
    key.take(ScriptKey::LEN, "script key")?;
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_hold_all_coins_in_order(
            coins in prop::collection::btree_map((0..1_u64 << 30, 0..9_u32), 0..21_000_000_u64 * 100_000_000, 1..1200)
        ) {
            let coins: Vec<Coin> = coins
                .into_iter()
                .map(|((txnum, vout), value)| Coin { out: TxOutNum { txnum: TxNum(txnum), vout }, value })
                .collect();
            let rows: Vec<_> = rows(ScriptKey { prefix: 1, check: 2 }, &coins).collect();
            prop_assert!(rows.is_sorted());
            let mut decoded = Vec::new();
            for (key, value) in &rows {
                decode(key, value, &mut decoded).unwrap();
            }
            prop_assert_eq!(decoded, coins);
        }
    }
}
