//! Chains and nodes: large ones for benchmarks, ones that change as a test wants, and the naive model of both.

pub(crate) mod bench_chain;
pub(crate) mod ledger;
pub(crate) mod live;
pub(crate) mod sequence;
pub(crate) mod zmtp;
