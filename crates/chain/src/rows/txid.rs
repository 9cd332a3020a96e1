//! `txid`: the array of txids by txnum, 32 bytes each, in the byte order of the hash function.
//!
//! Only the full profile has it; the lean one hashes transactions from the block files instead.

use birdhouse_store::ArraySpec;

pub(crate) const ARRAY: ArraySpec = ArraySpec { name: "txid", record_bytes: 32 };
