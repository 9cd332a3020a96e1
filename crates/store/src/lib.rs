//! Ordered tables and arrays on an engine, published by a mark.
//!
//! The contract every engine keeps, and that nothing above it needs more than:
//!
//! - A *table* holds rows, key bytes -> value bytes; keys compare as unsigned bytes.
//! - An *array* holds fixed-size records addressed by number.
//! - Rows and records may be written in any order; one durable [`Store::publish`] of the *mark* is the
//!   only commit point: after it returns, everything written before it survives a power cut. What a mark
//!   means (which rows are live) is the caller's affair: a snapshot is a published mark, not an engine
//!   feature, so callers use keys that are never reused.
//! - Writing the same row twice changes nothing.
//! - Every verb is batch-first, so that a remote engine can pipeline.

// The contract.
mod batch;
mod error;
mod range;
mod store;
mod table;

// The engines.
mod array;
mod journal;
mod memory;
mod rocks;

// The suite that every engine passes.
#[cfg(test)]
mod contract;

pub use batch::Batch;
pub use error::{Error, Result};
pub use memory::MemoryStore;
pub use range::{Direction, KeyRange, Page, PageLimit, Row};
pub use rocks::{RocksOptions, RocksStore};
pub use store::{Array, BulkRun, SealedRun, Store};
pub use table::{ArraySpec, Table};
