//! The index of the chain and its sources: the node is found, the store opened, the first build run.
//!
//! May use `cluster` and what that uses.

pub(crate) mod build_space;
mod progress;
pub(crate) mod setup;

pub(crate) use self::build_space::BuildSpace;
pub(crate) use self::setup::Setup;
