//! Chains and nodes: large ones for benchmarks, ones that change as a test wants, and the naive model of both.

pub mod bench_chain;
pub mod core_coding;
pub mod ledger;
pub mod live;
pub mod sequence;
pub(crate) mod zmtp;
