//! Changes of a store for replicas on other machines: kept by the one that writes, applied by those that follow.
//!
//! A [`FeedStore`] stands before a [`SegmentStore`](crate::SegmentStore) and keeps what each publish made visible:
//! rows, records, and the files of bulk runs. Bytes, numbers and files alone leave it, so any transport carries them.
//! A [`FileReplica`] began as a backup of that store, and applies the changes after the manifest that it has.
//! Manifests tell the place of a replica, so it needs no record of its progress beside its own publishes.
//!
//! A replica flushes and merges by itself. What it writes beside the changes costs the primary nothing, and its
//! segments are not those of the primary, except for bulk runs, which are most of an index. Copying the files that
//! differ at every publish was rejected: flushes and merges rewrite rows that the replica has, and each state would
//! open a store anew.

mod change;
mod kept;
mod recorder;
mod replica;

#[cfg(test)]
mod tests;

pub use self::change::{Change, RunFile};
pub use self::kept::{FeedBounds, Fetched};
pub use self::recorder::FeedStore;
pub use self::replica::FileReplica;
