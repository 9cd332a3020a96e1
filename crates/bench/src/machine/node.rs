//! The node of the chain, with those of its own indexes that the measured servers need.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use birdhouse_testkit::{Bitcoind, Options};
use serde_json::{Value, json};

use crate::machine::server::{Server, Setup};

const POLL: Duration = Duration::from_millis(500);

/// Starts the node and waits until its own indexes are complete; the first time this takes minutes.
pub(crate) fn start(setup: &Setup) -> Result<Bitcoind> {
    let mut options = Options::default().in_datadir(&setup.chain);
    if setup.servers.iter().any(|server| Server::needs_node_indexes(*server)) {
        options = options.with_indexes();
    }
    let node = Bitcoind::start(options).context("failed to start the node of the chain")?;
    while !indexes_are_complete(&node)? {
        thread::sleep(POLL);
    }
    Ok(node)
}

fn indexes_are_complete(node: &Bitcoind) -> Result<bool> {
    let indexes = node.rpc("getindexinfo", json!([]))?;
    let indexes = indexes.as_object().context("getindexinfo returned no object")?;
    Ok(indexes.values().all(|index| index["synced"] == Value::Bool(true)))
}
