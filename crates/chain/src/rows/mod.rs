//! The tables. One file per table draws, encodes and decodes its rows.
//!
//! | table | key | value |
//! |---|---|---|
//! | [`header`] | first txnum | header, height, transactions, size, weight, file position |
//! | [`txid`] (array) | txnum | 32 bytes; the full profile only |
//! | [`txpos`] | first txnum of a chunk | offsets of up to 64 transactions in their block |
//! | [`txnum`]`.0` to `.7` | bucket of txid hashes | txnums of the bucket's transactions |
//! | [`script`]`.0` to `.7` | bucket of script keys | history, unspent outputs and spends of the bucket's scripts |
//! | [`long`]`.0` to `.7` | script key, kind, position | the same for scripts too long for their bucket, in chunks |
//! | [`recent`]`.0` to `.5` | script key, txnum | outputs of one script that one transaction funds and spends |
//! | [`recent_txnum`]`.0` to `.5` | txid hash, txnum | empty; the key is a transaction |
//! | [`stale`] | script key, txnum | a row of `recent` for a transaction that a pack has and a reorg made stale |
//!
//! Tables with a number belong to the [pack](pack::Pack) or the [delta](pack::Delta) in that slot.
//!
//! Invariants: `a < b` exactly when `encode(a) < encode(b)`; decoding rejects bytes that encoding cannot produce. Rows
//! are only inserted: a key holds a txnum, or its table belongs to a slot. The tables of a slot are emptied when no
//! snapshot reads them.

mod key_filter;
mod part;
mod share;

pub(crate) mod header;
pub(crate) mod long;
mod pack;
pub(crate) mod recent;
pub(crate) mod recent_txnum;
mod remainders;
pub(crate) mod script;
pub(crate) mod stale;
pub(crate) mod txid;
pub(crate) mod txnum;
pub(crate) mod txpos;

pub(crate) use self::header::HeaderRow;
pub(crate) use self::key_filter::{FilterShare, FilterShares, Filters};
pub(crate) use self::long::{Kind, Summary};
pub(crate) use self::pack::{DELTA_SLOTS, Delta, PACK_SLOTS, Pack};
pub(crate) use self::part::{Part, PartSlices, Tally};
pub(crate) use self::recent::Recent;
pub(crate) use self::script::{Bucket, Found};
pub(crate) use self::share::{SHARE_BITS_MAX, Share};

use birdhouse_store::Table;

use crate::names::TxNum;

const TABLES_LEN: usize = 3 + 3 * pack::PACK_SLOTS + 2 * pack::DELTA_SLOTS;

/// Every table of the index.
pub const TABLES: [Table; TABLES_LEN] = all_tables();

const fn all_tables() -> [Table; TABLES_LEN] {
    let mut all = [header::TABLE; TABLES_LEN];
    all[1] = txpos::TABLE;
    all[2] = stale::TABLE;
    let mut slot = 0;
    while slot < pack::PACK_SLOTS {
        all[3 + 3 * slot] = script::TABLES[slot];
        all[4 + 3 * slot] = txnum::TABLES[slot];
        all[5 + 3 * slot] = long::TABLES[slot];
        slot += 1;
    }
    let mut slot = 0;
    while slot < pack::DELTA_SLOTS {
        all[3 + 3 * pack::PACK_SLOTS + 2 * slot] = recent::TABLES[slot];
        all[4 + 3 * pack::PACK_SLOTS + 2 * slot] = recent_txnum::TABLES[slot];
        slot += 1;
    }
    all
}

/// Tables of one kind, one per slot, which differ in their names alone.
const fn in_slots<const N: usize>(names: [&'static str; N], kind: Table) -> [Table; N] {
    let mut tables = [kind; N];
    let mut slot = 0;
    while slot < N {
        tables[slot].name = names[slot];
        slot += 1;
    }
    tables
}

/// An output, named by txnum instead of txid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TxOutNum {
    pub(crate) txnum: TxNum,
    pub(crate) vout: u32,
}

/// An unspent output and its value in satoshis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Coin {
    pub(crate) out: TxOutNum,
    pub(crate) value: u64,
}

/// The key of a bucket: its number, big-endian.
pub(crate) fn bucket_key(bucket: u32) -> [u8; 4] {
    bucket.to_be_bytes()
}

/// The bucket of a keyed hash: its first `bits` bits.
pub(crate) fn bucket_of(hash: u64, bits: u32) -> u32 {
    debug_assert!(bits <= BUCKET_BITS_MAX);
    if bits == 0 { 0 } else { u32::try_from(hash >> (64 - bits)).expect("at most 24 bits") }
}

/// The most bits of a bucket's number.
pub(crate) const BUCKET_BITS_MAX: u32 = 24;

/// The bits of a bucket's number when each bucket is to hold about `per_bucket` of `entries`.
pub(crate) fn bucket_bits(entries: u64, per_bucket: u64) -> u32 {
    (entries / per_bucket).max(1).ilog2().min(BUCKET_BITS_MAX)
}

/// The rows that every block has besides those of its scripts and txids: table, key and value each. `offsets` holds the
/// start of each transaction and the end of the block.
pub(crate) fn of_block(
    row: &header::HeaderRow,
    offsets: &[u32],
) -> impl Iterator<Item = (Table, [u8; TxNum::LEN], Vec<u8>)> {
    let positions = txpos::rows(row.first_txnum, offsets);
    let positions = positions.map(|(first, value)| (txpos::TABLE, txnum_bytes(first), value));
    std::iter::once((header::TABLE, header::key(row.first_txnum), header::value(row))).chain(positions)
}

/// A txnum in a key: 5 bytes, big-endian.
pub(crate) fn txnum_bytes(txnum: TxNum) -> [u8; TxNum::LEN] {
    debug_assert!(txnum.0 < TxNum::LIMIT);
    txnum.0.to_be_bytes()[8 - TxNum::LEN..].try_into().expect("five bytes")
}

/// The reverse of [`txnum_bytes`].
fn txnum_from(bytes: [u8; TxNum::LEN]) -> TxNum {
    let mut wide = [0; 8];
    wide[8 - TxNum::LEN..].copy_from_slice(&bytes);
    TxNum(u64::from_be_bytes(wide))
}

/// Appends an amount in Core's compressed form or plainly, whichever is smaller; the last bit says which.
pub(crate) fn put_amount(out: &mut Vec<u8>, satoshis: u64) {
    let compressed = crate::block::compress_amount(satoshis);
    let code = if compressed < satoshis { compressed << 1 | 1 } else { satoshis << 1 };
    crate::block::put_leb128(out, code);
}

/// The reverse of [`put_amount`].
pub(crate) fn amount(cursor: &mut crate::block::Cursor<'_>) -> Result<u64, crate::block::Malformed> {
    let code = cursor.leb128("amount")?;
    if code & 1 == 0 {
        return Ok(code >> 1);
    }
    crate::block::decompress_amount(code >> 1).ok_or_else(|| cursor.malformed("amount"))
}

#[cfg(test)]
mod format_tests;
