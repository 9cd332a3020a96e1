//! `recent`: outputs of one script that one transaction of a delta funds and spends.
//!
//! ```text
//! key    script key 9 | txnum 5 BE
//! value  outputs that pay the script: count LEB128, then vout LEB128 | amount each
//!        | its outputs that are spent: count LEB128, then funding txnum LEB128 | vout LEB128 | amount each
//! ```

use birdhouse_store::Table;

use crate::block::{Cursor, Malformed, put_leb128};
use crate::names::{ScriptKey, TxNum};
use crate::rows::pack::{DELTA_SLOTS, Delta};
use crate::rows::{Coin, TxOutNum, amount, in_slots, put_amount, txnum_bytes, txnum_from};

pub(crate) const TABLES: [Table; DELTA_SLOTS] = in_slots(
    ["recent.0", "recent.1", "recent.2", "recent.3", "recent.4", "recent.5"],
    Table { name: "", partition_bytes: ScriptKey::LEN, compress: true },
);

/// The table of the scripts of a delta.
pub(crate) fn table(delta: &Delta) -> Table {
    TABLES[usize::from(delta.slot)]
}

/// The content of one row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Recent {
    /// Outputs that pay the script: vout and satoshis.
    pub(crate) funded: Vec<(u32, u64)>,
    /// Outputs of the script that the transaction spends.
    pub(crate) spent: Vec<Coin>,
}

pub(crate) fn key(script: ScriptKey, txnum: TxNum) -> Vec<u8> {
    [&script.to_bytes()[..], &txnum_bytes(txnum)].concat()
}

/// The script and the transaction of a row.
pub(crate) fn decode_key(key: &[u8]) -> Result<(ScriptKey, TxNum), Malformed> {
    let mut cursor = Cursor::new(key);
    let script = ScriptKey::from_bytes(*cursor.array("script key")?);
    let txnum = txnum_from(*cursor.array("txnum")?);
    if cursor.is_at_end() { Ok((script, txnum)) } else { Err(cursor.malformed("recent key")) }
}

pub(crate) fn value(recent: &Recent) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + 12 * (recent.funded.len() + recent.spent.len()));
    put_leb128(&mut out, recent.funded.len() as u64);
    for (vout, value) in &recent.funded {
        put_leb128(&mut out, (*vout).into());
        put_amount(&mut out, *value);
    }
    put_leb128(&mut out, recent.spent.len() as u64);
    for spent in &recent.spent {
        put_leb128(&mut out, spent.out.txnum.0);
        put_leb128(&mut out, spent.out.vout.into());
        put_amount(&mut out, spent.value);
    }
    out
}

pub(crate) fn decode(value: &[u8]) -> Result<Recent, Malformed> {
    let mut cursor = Cursor::new(value);
    let mut recent = Recent::default();
    for _ in 0..cursor.leb128("funded count")? {
        recent.funded.push((vout(&mut cursor)?, amount(&mut cursor)?));
    }
    for _ in 0..cursor.leb128("spent count")? {
        let out = TxOutNum { txnum: TxNum(cursor.leb128("funding txnum")?), vout: vout(&mut cursor)? };
        recent.spent.push(Coin { out, value: amount(&mut cursor)? });
    }
    if cursor.is_at_end() { Ok(recent) } else { Err(cursor.malformed("recent row")) }
}

fn vout(cursor: &mut Cursor<'_>) -> Result<u32, Malformed> {
    let vout = cursor.leb128("vout")?;
    u32::try_from(vout).map_err(|_| cursor.malformed("vout"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_and_back() {
        let script = ScriptKey { prefix: 0x0102_0304_0506_0708, check: 9 };
        let coin = Coin { out: TxOutNum { txnum: TxNum(300), vout: 0 }, value: 2_000_000 };
        let recent = Recent { funded: vec![(1, 1_000_000)], spent: vec![coin] };
        let key = key(script, TxNum(9));
        assert_eq!(key, [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 0, 9]);
        assert_eq!(value(&recent), [1, 1, 15, 1, 0xac, 2, 0, 35]);
        assert_eq!(decode_key(&key).unwrap(), (script, TxNum(9)));
        assert_eq!(decode(&value(&recent)).unwrap(), recent);
    }
}
