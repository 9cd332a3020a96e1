//! CPU time, memory and metrics of a process.

pub(crate) mod metrics;
pub(crate) mod usage;
