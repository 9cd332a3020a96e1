//! `history`: the packed transactions of a long script.
//!
//! ```text
//! key    script prefix 8 BE | check 2 BE | first txnum of the chunk 5 BE
//! value  differences to the following txnums, LEB128 each
//! ```

use birdhouse_store::Table;

use crate::bytes::{Cursor, Malformed, put_leb128};
use crate::prefix::ScriptKey;
use crate::rows::{txnum_bytes, txnum_from};
use crate::txnum::TxNum;

pub(crate) const TABLE: Table = Table { name: "history", partition_bytes: ScriptKey::LEN, compress: false };

/// Transactions in a row.
const CHUNK: usize = 1000;

/// The rows of one script, ascending.
pub(crate) fn rows(script: ScriptKey, txnums: &[TxNum]) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    txnums.chunks(CHUNK).map(move |chunk| {
        let mut value = Vec::with_capacity(3 * chunk.len());
        chunk.windows(2).for_each(|pair| put_leb128(&mut value, pair[1].0 - pair[0].0));
        ([&script.to_bytes()[..], &txnum_bytes(chunk[0])].concat(), value)
    })
}

/// Appends the txnums of one row.
pub(crate) fn decode(key: &[u8], value: &[u8], out: &mut Vec<TxNum>) -> Result<(), Malformed> {
    let mut key = Cursor::new(key);
    key.take(ScriptKey::LEN, "script key")?;
    let mut last = txnum_from(*key.array("first txnum")?);
    out.push(last);
    let mut cursor = Cursor::new(value);
    while !cursor.is_at_end() {
        last = TxNum(last.0.saturating_add(cursor.leb128("txnum")?));
        out.push(last);
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
        fn rows_hold_all_txnums_in_order(txnums in prop::collection::btree_set(0..1_u64 << 30, 1..2500)) {
            let txnums: Vec<TxNum> = txnums.into_iter().map(TxNum).collect();
            let rows: Vec<_> = rows(ScriptKey { prefix: 1, check: 2 }, &txnums).collect();
            prop_assert!(rows.is_sorted());
            let mut decoded = Vec::new();
            for (key, value) in &rows {
                decode(key, value, &mut decoded).unwrap();
            }
            prop_assert_eq!(decoded, txnums);
        }
    }

    #[test]
    fn golden_bytes() {
        let script = ScriptKey { prefix: 0x0102_0304_0506_0708, check: 0x0910 };
        let rows: Vec<_> = rows(script, &[TxNum(1), TxNum(3), TxNum(203)]).collect();
        assert_eq!(rows, [(vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 0x10, 0, 0, 0, 0, 1], vec![2, 0xc8, 1])]);
    }
}
