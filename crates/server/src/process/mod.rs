//! This process in its operating system: signals, systemd, limits, the log, users, and who may read what it
//! writes.
//!
//! Uses no other folder.

pub(crate) mod container;
pub(crate) mod file_limit;
pub(crate) mod log;
pub(crate) mod private;
pub(crate) mod random;
mod shutdown;
mod signals;
pub(crate) mod systemd;
pub(crate) mod usage;
pub(crate) mod users;

pub(crate) use self::log::Level;
pub(crate) use self::shutdown::Shutdown;
pub(crate) use self::signals::Signals;
pub(crate) use self::usage::Usage;
