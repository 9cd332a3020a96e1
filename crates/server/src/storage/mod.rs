//! Stores of the index and of the relay's events: files of this machine, or a cluster.
//!
//! May use `config` and `sockets`; does not know how a cluster or another process is reached.

mod event_store;
pub(crate) mod index_store;

pub(crate) use self::event_store::EventStore;
pub(crate) use self::index_store::{CopiedIndex, IndexStore, open_files};
