//! One file per command.
//!
//! May use every folder but `doctor`.

mod beside;

pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod config;
pub(crate) mod connect;
pub(crate) mod ctl;
#[cfg(feature = "demo")]
pub(crate) mod demo;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod man;
pub(crate) mod migrate;
pub(crate) mod prune;
pub(crate) mod run;
pub(crate) mod sync;
#[cfg(feature = "top")]
pub(crate) mod top;
pub(crate) mod verify;
pub(crate) mod watch;

/// Forms of what a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Text,
}
