//! `recent_txnum`: txid -> txnum for the transactions of blocks at the tip.
//!
//! ```text
//! key    keyed hash of the txid 8 BE | txnum 5 BE
//! value  empty
//! ```

use birdhouse_store::Table;

use crate::bytes::{Cursor, Malformed};
use crate::rows::{txnum_bytes, txnum_from};
use crate::txnum::TxNum;

pub(crate) const TABLE: Table = Table { name: "recent_txnum", partition_bytes: 8, compress: true };

pub(crate) fn key(hash: u64, txnum: TxNum) -> Vec<u8> {
    [&hash.to_be_bytes()[..], &txnum_bytes(txnum)].concat()
}

pub(crate) fn decode_key(key: &[u8]) -> Result<TxNum, Malformed> {
    let mut cursor = Cursor::new(key);
    cursor.take(8, "hash")?;
    let txnum = txnum_from(*cursor.array("txnum")?);
    if cursor.is_at_end() { Ok(txnum) } else { Err(cursor.malformed("recent_txnum key")) }
}
