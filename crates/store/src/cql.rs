//! The engine on a cluster that speaks CQL: Apache Cassandra, and servers of the same protocol.
//!
//! `docs/cluster.md` draws the tables; `layout.rs` is their home in the code. The rules:
//!
//! - One process writes. It holds the *lease* of the place, an epoch in the manifest's row, and every publish is a
//!   conditional update of that epoch. A process that lost the lease can publish nothing.
//! - Every write has a timestamp that begins with the epoch, so an older epoch never overwrites what a later one wrote,
//!   however late its writes arrive.
//! - Tables have *generations*. Clearing a table begins a new one, and so does taking over an empty table, so rows that
//!   an older epoch still writes into an emptied table are in no generation that a manifest names.
//! - One row holds manifest, generations and lengths of arrays, so a reader that has it has one state of everything.
//!   [`CqlReplica`] gives such states; what one of them names is not deleted before it has expired.

mod access;
mod address;
mod array;
mod chunk_cache;
mod cluster;
mod epoch;
mod layout;
mod lease;
mod options;
mod published;
mod replica;
mod rows;
mod runs;
mod scan;
mod sweep;
mod tables;
mod writer;

pub use self::access::CqlAccess;
pub use self::address::CqlAddress;
pub use self::options::CqlOptions;
pub use self::replica::CqlReplica;
pub use self::writer::CqlStore;

#[cfg(test)]
mod access_tests;
#[cfg(test)]
mod tests;
