//! Bitcoin Core behind the traits that `chain` defines: its files, REST and RPC.
//!
//! Start with [`NodeConf::find`] (where is the node?), then [`check_node`] (is it the right one, and ready?), then
//! [`open_source`]. A running node is a [`CoreNode`].

mod blk;
mod check;
mod conf;
mod core_node;
mod error;
mod header_json;
mod http;
mod open;
pub mod record;
mod remote;
mod rest;
mod rpc;
mod rpc_source;
mod text;
mod xor;

pub use blk::{BlockFiles, BlockHead};
pub use check::{NodeFacts, check_node};
pub use conf::{Auth, Conf, NodeConf, NodeOptions};
pub use core_node::CoreNode;
pub use open::open_source;
pub use rest::RestSource;
pub use rpc::Rpc;
pub use rpc_source::RpcSource;
pub use xor::XorKey;
