//! A running node and a client of it.

use std::sync::Arc;

use birdhouse_node::{Auth, Rpc};
use birdhouse_testkit::{Bitcoind, Options};

pub(crate) fn address(node: &Bitcoind) -> String {
    format!("127.0.0.1:{}", node.rpc_port())
}

pub(crate) fn rpc(node: &Bitcoind) -> Arc<Rpc> {
    Arc::new(Rpc::new(&address(node), Auth::Cookie(node.cookie())))
}

pub(crate) fn start() -> Bitcoind {
    Bitcoind::start(Options::default()).unwrap()
}
