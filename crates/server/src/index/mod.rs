//! The index of the chain and its sources: the node is found, the store opened, the first build run.
//! `derived` lists what is computed from blocks and kept beside it.
//!
//! May use `cluster` and what that uses.

pub(crate) mod build_space;
pub(crate) mod derived;
mod progress;
mod prune;
pub(crate) mod setup;

pub(crate) use self::build_space::BuildSpace;
pub(crate) use self::prune::{NodeBlocks, Offer, Pruned, Pruner, lean_refusal};
pub(crate) use self::setup::{NodePorts, Setup, node_conf};
