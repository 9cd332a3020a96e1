//! `stale`: rows of transactions that a pack has and a reorg made stale, in the form of [`recent`](super::recent).
//!
//! A pack does not keep which transaction spent an output, so a rollback below the end of the packs writes what each
//! stale transaction did. A row counts while its txnum is in a stale range of the manifest: the outputs that the
//! transaction spent are unspent again. A snapshot from before the reorg still sees them as spent. The next merge takes
//! the stale transactions out of the packs, and the rows count for nothing from then on.

use birdhouse_store::Table;

use crate::names::ScriptKey;

pub(crate) const TABLE: Table = Table { name: "stale", partition_bytes: ScriptKey::LEN, compress: true };
