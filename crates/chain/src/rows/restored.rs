//! `restored`: outputs whose spender the build packed and a reorg made stale.
//!
//! ```text
//! key    script prefix 8 BE | funding txnum 5 BE | vout 4 BE | spending txnum 5 BE | check 2 BE
//! value  amount
//! ```
//! The build keeps no spent output, so a rollback below its end restores those that stale blocks spent. A row counts
//! where the spender is not live; a snapshot from before the reorg still sees the output as spent.

use birdhouse_store::Table;

use crate::bytes::{Cursor, Malformed};
use crate::prefix::ScriptKey;
use crate::rows::{Coin, TxOutNum, amount, put_amount, txnum_bytes, txnum_from};
use crate::txnum::TxNum;

pub(crate) const TABLE: Table = Table { name: "restored", partition_bytes: 8, compress: true };

/// One restored output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Restored {
    pub(crate) script: ScriptKey,
    pub(crate) coin: Coin,
    /// The stale transaction that spent it.
    pub(crate) spender: TxNum,
}

pub(crate) fn key(restored: &Restored) -> Vec<u8> {
    [
        &restored.script.prefix.to_be_bytes()[..],
        &txnum_bytes(restored.coin.out.txnum),
        &restored.coin.out.vout.to_be_bytes(),
        &txnum_bytes(restored.spender),
        &restored.script.check.to_be_bytes(),
    ]
    .concat()
}

pub(crate) fn value(restored: &Restored) -> Vec<u8> {
    let mut out = Vec::with_capacity(8);
    put_amount(&mut out, restored.coin.value);
    out
}

pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Restored, Malformed> {
    let mut cursor = Cursor::new(key);
    let prefix = u64::from_be_bytes(*cursor.array("prefix")?);
    let txnum = txnum_from(*cursor.array("funding txnum")?);
    let vout = u32::from_be_bytes(*cursor.array("vout")?);
    let spender = txnum_from(*cursor.array("spending txnum")?);
    let check = u16::from_be_bytes(*cursor.array("check")?);
    let mut value = Cursor::new(value);
    let coin = Coin { out: TxOutNum { txnum, vout }, value: amount(&mut value)? };
    if !cursor.is_at_end() || !value.is_at_end() {
        return Err(cursor.malformed("restored row"));
    }
    Ok(Restored { script: ScriptKey { prefix, check }, coin, spender })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_a_round_trip() {
        let restored = Restored {
            script: ScriptKey { prefix: 1 << 60, check: 0x0102 },
            coin: Coin { out: TxOutNum { txnum: TxNum(5), vout: 6 }, value: 700 },
            spender: TxNum(9),
        };
        let key = key(&restored);
        assert_eq!(key, [16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 0, 9, 1, 2]);
        assert_eq!(decode(&key, &value(&restored)).unwrap(), restored);
    }
}
