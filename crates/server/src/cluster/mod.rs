//! More than one process: an index or events on a cluster (`cql`, feature `cluster`), a copy that follows the index of
//! another process (`follow`), the listener that serves such copies (`replicas`), and the events that a front end of a
//! relay passes on (`relay_writer`).
//!
//! May use `storage`, `sockets` and `config`.

#[cfg(feature = "cluster")]
pub(crate) mod cql;
#[cfg(not(feature = "cluster"))]
#[path = "no_cql.rs"]
pub(crate) mod cql;
pub(crate) mod follow;
mod relay_writer;
pub(crate) mod replicas;

pub(crate) use self::relay_writer::RemoteWriter;
