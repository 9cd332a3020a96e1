//! Measurements of what wallets and explorers ask, over the Electrum protocol and REST.

pub(crate) mod beside_scan;
pub(crate) mod electrum;
pub(crate) mod funding;
pub(crate) mod idle;
pub(crate) mod latency;
pub(crate) mod rest;
pub(crate) mod samples;
pub(crate) mod throughput;
pub(crate) mod tip;
pub(crate) mod wallet;
