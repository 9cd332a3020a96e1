//! `recent`: outputs of one script that one transaction of a block at the tip funds and spends.
//!
//! ```text
//! key    script prefix 8 BE | txnum 5 BE | check 2 BE
//! value  outputs that pay the script: count LEB128, then vout LEB128 | amount each
//!        | its outputs that are spent: count LEB128, then funding txnum LEB128 | vout LEB128 each
//! ```

use birdhouse_store::Table;

use crate::bytes::{Cursor, Malformed, put_leb128};
use crate::prefix::ScriptKey;
use crate::rows::{TxOutNum, amount, put_amount, txnum_bytes, txnum_from};
use crate::txnum::TxNum;

pub(crate) const TABLE: Table = Table { name: "recent", partition_bytes: 8, compress: true };

/// The content of one row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Recent {
    /// Outputs that pay the script: vout and satoshis.
    pub(crate) funded: Vec<(u32, u64)>,
    /// Outputs of the script that the transaction spends.
    pub(crate) spent: Vec<TxOutNum>,
}

pub(crate) fn key(script: ScriptKey, txnum: TxNum) -> Vec<u8> {
    [&script.prefix.to_be_bytes()[..], &txnum_bytes(txnum), &script.check.to_be_bytes()].concat()
}

/// The script and the transaction of a row.
pub(crate) fn decode_key(key: &[u8]) -> Result<(ScriptKey, TxNum), Malformed> {
    let mut cursor = Cursor::new(key);
    let prefix = u64::from_be_bytes(*cursor.array("prefix")?);
    let txnum = txnum_from(*cursor.array("txnum")?);
    let check = u16::from_be_bytes(*cursor.array("check")?);
    if cursor.is_at_end() { Ok((ScriptKey { prefix, check }, txnum)) } else { Err(cursor.malformed("recent key")) }
}

pub(crate) fn value(recent: &Recent) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + 8 * (recent.funded.len() + recent.spent.len()));
    put_leb128(&mut out, recent.funded.len() as u64);
    for (vout, value) in &recent.funded {
        put_leb128(&mut out, (*vout).into());
        put_amount(&mut out, *value);
    }
    put_leb128(&mut out, recent.spent.len() as u64);
    for spent in &recent.spent {
        put_leb128(&mut out, spent.txnum.0);
        put_leb128(&mut out, spent.vout.into());
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
        let txnum = TxNum(cursor.leb128("funding txnum")?);
        recent.spent.push(TxOutNum { txnum, vout: vout(&mut cursor)? });
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
        let script = ScriptKey { prefix: 0x0102_0304_0506_0708, check: 0x0a0b };
        let recent = Recent { funded: vec![(1, 1_000_000)], spent: vec![TxOutNum { txnum: TxNum(300), vout: 0 }] };
        let key = key(script, TxNum(9));
        assert_eq!(key, [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 9, 0x0a, 0x0b]);
        assert_eq!(value(&recent), [1, 1, 15, 1, 0xac, 2, 0]);
        assert_eq!(decode_key(&key).unwrap(), (script, TxNum(9)));
        assert_eq!(decode(&value(&recent)).unwrap(), recent);
    }
}
