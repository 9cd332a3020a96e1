//! `recent_txnum`: txid -> txnum for the transactions of a delta.
//!
//! ```text
//! key    keyed hash of the txid 8 BE | txnum 5 BE
//! value  empty
//! ```
//! Hashes do not compress, so the table is not compressed.

use birdhouse_store::Table;

use crate::block::{Cursor, Malformed};
use crate::names::TxNum;
use crate::rows::pack::{DELTA_SLOTS, Delta};
use crate::rows::{in_slots, txnum_bytes, txnum_from};

pub(crate) const TABLES: [Table; DELTA_SLOTS] = in_slots(
    ["recent_txnum.0", "recent_txnum.1", "recent_txnum.2", "recent_txnum.3", "recent_txnum.4", "recent_txnum.5"],
    Table { name: "", partition_bytes: 8, compress: false },
);

/// The table of the transactions of a delta.
pub(crate) fn table(delta: &Delta) -> Table {
    TABLES[usize::from(delta.slot)]
}

pub(crate) fn key(hash: u64, txnum: TxNum) -> Vec<u8> {
    [&hash.to_be_bytes()[..], &txnum_bytes(txnum)].concat()
}

/// The hash and the transaction of a row.
pub(crate) fn decode_key(key: &[u8]) -> Result<(u64, TxNum), Malformed> {
    let mut cursor = Cursor::new(key);
    let hash = u64::from_be_bytes(*cursor.array("hash")?);
    let txnum = txnum_from(*cursor.array("txnum")?);
    if cursor.is_at_end() { Ok((hash, txnum)) } else { Err(cursor.malformed("recent_txnum key")) }
}
