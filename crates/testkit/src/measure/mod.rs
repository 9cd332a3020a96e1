//! CPU time, memory and metrics of a process.

pub mod metrics;
pub mod usage;
