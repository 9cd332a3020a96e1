//! The tables. One file per table draws, encodes and decodes its rows.
//!
//! | table | key | value |
//! |---|---|---|
//! | [`header`] | first txnum | header, height, transactions, file position |
//! | [`txid`] (array) | txnum | 32 bytes; the full profile only |
//! | [`txpos`] | first txnum of a chunk | offsets of up to 64 transactions in their block |
//! | [`txnum`] | generation, bucket of txid hashes | txnums of the bucket's transactions (packed by the build) |
//! | [`script`] | generation, bucket of script prefixes | history and unspent outputs of the bucket's scripts (packed by the build) |
//! | [`history`] | script key, first txnum | up to 1000 txnums of a script too long for its bucket |
//! | [`unspent`] | script key, first txnum and vout | up to 500 unspent outputs of such a script |
//! | [`summary`] | script key | counts and sums of such a script |
//! | [`recent`] | script prefix, txnum | outputs of one script that one transaction of a block at the tip funds and spends |
//! | [`recent_txnum`] | txid hash, txnum | empty; the key is a transaction of a block at the tip |
//! | [`restored`] | script prefix, txnum, vout, spender | an output that only a stale block spent |
//!
//! Invariants: `a < b` exactly when `encode(a) < encode(b)`; decoding rejects bytes that encoding cannot produce. Rows
//! are only inserted: a key holds a txnum or a generation, and neither is used twice.

pub(crate) mod header;
pub(crate) mod history;
pub(crate) mod recent;
pub(crate) mod recent_txnum;
pub(crate) mod restored;
pub(crate) mod script;
pub(crate) mod summary;
pub(crate) mod txid;
pub(crate) mod txnum;
pub(crate) mod txpos;
pub(crate) mod unspent;

use birdhouse_store::Table;

use crate::txnum::TxNum;

/// Every table of the index.
pub const TABLES: [Table; 10] = [
    header::TABLE,
    txpos::TABLE,
    txnum::TABLE,
    script::TABLE,
    history::TABLE,
    unspent::TABLE,
    summary::TABLE,
    recent::TABLE,
    recent_txnum::TABLE,
    restored::TABLE,
];

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

/// The key of a generation's bucket: both numbers big-endian.
pub(crate) fn bucket_key(generation: u32, bucket: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&generation.to_be_bytes());
    key[4..].copy_from_slice(&bucket.to_be_bytes());
    key
}

/// The bucket of a keyed hash: its first `bits` bits.
pub(crate) fn bucket_of(hash: u64, bits: u32) -> u32 {
    debug_assert!(bits <= BUCKET_BITS_MAX);
    if bits == 0 { 0 } else { u32::try_from(hash >> (64 - bits)).expect("at most 24 bits") }
}

/// The most bits of a bucket's number, so that a 40-bit remainder still fits a 64-bit hash.
pub(crate) const BUCKET_BITS_MAX: u32 = 24;

/// The bits of a bucket's number when each bucket is to hold about `per_bucket` of `entries`.
pub(crate) fn bucket_bits(entries: u64, per_bucket: u64) -> u32 {
    (entries / per_bucket).max(1).ilog2().min(BUCKET_BITS_MAX)
}

/// A txnum in a key: 5 bytes, big-endian.
pub(crate) fn txnum_bytes(txnum: TxNum) -> [u8; TxNum::LEN] {
    debug_assert!(txnum.0 < TxNum::LIMIT);
    txnum.0.to_be_bytes()[8 - TxNum::LEN..].try_into().expect("five bytes")
}

/// The reverse of [`txnum_bytes`].
pub(crate) fn txnum_from(bytes: [u8; TxNum::LEN]) -> TxNum {
    let mut wide = [0; 8];
    wide[8 - TxNum::LEN..].copy_from_slice(&bytes);
    TxNum(u64::from_be_bytes(wide))
}

/// Appends an amount in Core's compressed form or plainly, whichever is smaller; the last bit says which.
pub(crate) fn put_amount(out: &mut Vec<u8>, satoshis: u64) {
    let compressed = crate::bytes::compress_amount(satoshis);
    let code = if compressed < satoshis { compressed << 1 | 1 } else { satoshis << 1 };
    crate::bytes::put_leb128(out, code);
}

/// The reverse of [`put_amount`].
pub(crate) fn amount(cursor: &mut crate::bytes::Cursor<'_>) -> Result<u64, crate::bytes::Malformed> {
    let code = cursor.leb128("amount")?;
    if code & 1 == 0 {
        return Ok(code >> 1);
    }
    crate::bytes::decompress_amount(code >> 1).ok_or_else(|| cursor.malformed("amount"))
}

#[cfg(test)]
mod format_tests;
