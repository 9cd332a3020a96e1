//! Ordered tables and arrays on an engine, published by a manifest.
//!
//! Every engine keeps this contract, and nothing above it needs more:
//!
//! - A *table* holds rows, key bytes -> value bytes; keys compare as unsigned bytes, and integers in keys are
//!   big-endian.
//! - An *array* holds fixed-size records addressed by number.
//! - Rows and records may be written in any order. One durable [`Store::publish`] of the *manifest* is the only commit
//!   point: after it returns, everything written before it survives a power cut. The caller decides what a manifest
//!   means (which rows are live). A snapshot is a published manifest and not a feature of the engine, so callers never
//!   reuse a key.
//! - Writing the same row twice changes nothing.
//! - Every verb takes a batch, so that a remote engine can pipeline. Methods are synchronous: callers that must not
//!   block use threads of their own.
//!
//! # Files
//!
//! | file | what lives there |
//! |---|---|
//! | `store`, `table`, `range`, `batch` | the contract: traits, names and shapes, ranges of keys and pages, rows to write |
//! | `contract` | the suite that every engine passes |
//! | `segments` | the embedded engine: write-ahead log, memtable, segments, merges, backups |
//! | `array`, `journal` | its arrays as plain files with checksums, and their redo log |
//! | `memory` | the reference engine, which simulates power cuts |
//! | `cql` | the engine on a cluster of Cassandra (feature `cql`) |
//! | `read_only`, `feed` | the published states of another process, and the changes that replicas apply |
//! | `folder`, `sync` | the folder of a store: its lock, its format, durable names |
//!
//! Deliberately absent: iterators (a scan returns pages), transactions, snapshots of the engine.
//!
//! # Example
//!
//! The memory engine is the reference. It also simulates power cuts:
//!
//! ```
//! use birdhouse_store::{ArraySpec, Batch, Direction, KeyRange, MemoryStore, PageLimit, Store, Table};
//!
//! const COLOURS: Table = Table { name: "colours", partition_bytes: 0, compress: false };
//! const WEIGHTS: ArraySpec = ArraySpec { name: "weights", record_bytes: 2 };
//!
//! let store = MemoryStore::new();
//! let mut batch = Batch::new();
//! batch.put(COLOURS, "apple", "red");
//! batch.put(COLOURS, "pear", "green");
//! store.write(batch)?;
//! store.array(WEIGHTS)?.write(0, &[0, 150, 0, 180])?;
//! store.publish(b"two fruits")?;
//!
//! let found = store.crash(7);
//! assert_eq!(found.manifest()?, Some(b"two fruits".to_vec()));
//! assert_eq!(found.get_many(COLOURS, &[b"pear"])?, [Some(b"green".to_vec())]);
//! let all = KeyRange::prefix(b"", Direction::Forward);
//! let pages = found.scan_many(COLOURS, &[all], PageLimit { rows: 10, bytes: 1000 })?;
//! assert_eq!(pages[0].rows.len(), 2);
//! assert_eq!(found.array(WEIGHTS)?.read_run(1, 1)?, [0, 180]);
//! # Ok::<(), birdhouse_store::Error>(())
//! ```

// The contract.
mod batch;
mod cursor;
mod error;
mod range;
mod store;
mod table;

// The engines.
mod array;
#[cfg(feature = "cql")]
mod cql;
mod feed;
mod folder;
mod journal;
mod memory;
mod read_only;
mod segments;
mod sync;

// The suite that every engine passes.
#[cfg(test)]
mod contract;

pub use batch::Batch;
#[cfg(feature = "cql")]
pub use cql::{CqlAccess, CqlAddress, CqlOptions, CqlReplica, CqlStore};
#[cfg(feature = "cql")]
pub use error::AccessFault;
pub use error::{Error, Result};
pub use feed::{Change, FeedBounds, FeedStore, Fetched, FileReplica, RunFile};
pub use folder::disk_free_bytes;
pub use memory::{MemoryReplica, MemoryStore};
pub use range::{Direction, KeyRange, Page, PageLimit, Row};
pub use segments::{SegmentOptions, SegmentStore};
pub use store::{Array, BulkRun, FinishedRun, Prove, Replica, Scrub, Store};
pub use table::{ArraySpec, Table};
