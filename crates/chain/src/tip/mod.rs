//! The writer: the index, and the node that it follows.
//!
//! `index` opens the index and hands out snapshots; `follow` is the loop at the node's tip, and `fork` its decisions.
//! `ingest` appends blocks one by one, `bulk_append` many at once, of which `bulk_read` reads the next meanwhile.
//! `adopt` begins merges and publishes them. `mirror` keeps the mempool equal to the node's, and `admit` adds what a
//! client sends. `silence` is that of a node that is watched. `derived` brings derived indexes to the tip. `front`
//! follows an index that another process publishes.
//!
//! The locks of [`Index`] are private to this folder; their order stands at the struct. This folder may use all others.

mod admit;
mod adopt;
mod bulk_append;
mod bulk_read;
mod bulk_spool;
mod derived;
mod follow;
mod following;
mod fork;
mod front;
mod index;
mod ingest;
mod merge_state;
mod mirror;
mod silence;
mod spool_state;
mod spooled_txids;
mod unannounced;

pub use self::front::is_same_index;
pub use self::index::{Index, Syncing, Update};
pub use self::merge_state::{MergeState, PackSize};
