//! The rows of the manifest's column family: the manifest itself, and beside it the leaves of the arrays' journal.
//!
//! ```text
//! "mark"                    the manifest
//! "leaf" | number u64 BE    a leaf of the journal (see `journal`)
//! ```

use rust_rocksdb::IteratorMode;

use super::engine::{Db, engine_error};
use crate::error::Result;

/// Column family of the manifest. `RocksDB` always has it; no table may take its name.
pub(super) const MANIFEST_FAMILY: &str = rust_rocksdb::DEFAULT_COLUMN_FAMILY_NAME;
/// Key of the manifest.
pub(super) const MANIFEST_KEY: &[u8] = b"mark";
/// First bytes of the keys of leaves.
const LEAF_KEYS: &[u8] = b"leaf";

/// Returns the key of leaf `number`.
pub(super) fn leaf_key(number: u64) -> Vec<u8> {
    [LEAF_KEYS, &number.to_be_bytes()].concat()
}

/// Reads all leaves, oldest first.
pub(super) fn leaves(db: &Db) -> Result<Vec<Vec<u8>>> {
    let from = IteratorMode::From(&leaf_key(0), rust_rocksdb::Direction::Forward);
    let rows = db
        .iterator(from)
        .take_while(|row| row.as_ref().is_ok_and(|(key, _)| key.starts_with(LEAF_KEYS)) || row.is_err());
    rows.map(|row| row.map(|(_, leaf)| leaf.into_vec()))
        .collect::<Result<_, _>>()
        .map_err(|error| engine_error("read", "(journal)", error))
}
