//! The answer of a program that was compiled without the engine for clusters.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use birdhouse_chain::Index;
use birdhouse_chain::source::BlockSource;
use bitcoin::Network;

use crate::config::Options;
use crate::storage::{EventStore, IndexStore};

pub(crate) fn open(
    _options: &Options,
    address: &str,
    _network: Network,
    _folder: &Path,
    _source: &Arc<dyn BlockSource>,
) -> Result<(IndexStore, Index)> {
    Err(missing(address))
}

pub(crate) fn open_events(_options: &Options, address: &str, _folder: &Path) -> Result<EventStore> {
    Err(missing(address))
}

fn missing(address: &str) -> anyhow::Error {
    anyhow!("failed to open {address}: this program has no engine for clusters; build it with --features cluster")
}
