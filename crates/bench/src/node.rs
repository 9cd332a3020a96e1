//! The node of the chain, with the indexes of its own that the servers to measure need.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use birdhouse_testkit::{Bitcoind, Options};
use serde_json::{Value, json};

use crate::Common;
use crate::server::Server;

const POLL: Duration = Duration::from_millis(500);

/// Starts the node, and waits until its own indexes are complete (the first time, that takes minutes).
pub(crate) fn start(common: &Common) -> Result<Bitcoind> {
    let mut options = Options::default().in_datadir(&common.chain);
    if common.servers.iter().any(|server| Server::needs_node_indexes(*server)) {
        options = options.with_indexes();
    }
    let node = Bitcoind::start(options).context("start the chain's node")?;
    while !indexes_are_complete(&node)? {
        thread::sleep(POLL);
    }
    Ok(node)
}

fn indexes_are_complete(node: &Bitcoind) -> Result<bool> {
    let indexes = node.rpc("getindexinfo", json!([]))?;
    let indexes = indexes.as_object().context("an object of indexes")?;
    Ok(indexes.values().all(|index| index["synced"] == Value::Bool(true)))
}
