//! `txid`: the array of txids by txnum, 32 bytes each, in the hash function's order.
//!
//! The full profile keeps it; the lean one hashes transactions from the block files instead.

use birdhouse_store::ArraySpec;

pub(crate) const ARRAY: ArraySpec = ArraySpec { name: "txid", record_bytes: 32 };
