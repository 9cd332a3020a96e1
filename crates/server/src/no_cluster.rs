//! The answer of a program that was compiled without the engine for clusters.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use birdhouse_chain::Index;
use birdhouse_chain::source::BlockSource;
use bitcoin::Network;

use crate::config::Options;
use crate::index_store::IndexStore;

pub(crate) fn open(
    _options: &Options,
    address: &str,
    _network: Network,
    _folder: &Path,
    _source: &Arc<dyn BlockSource>,
) -> Result<(IndexStore, Index)> {
    bail!("failed to open {address}: this program has no engine for clusters; build it with --features cluster")
}
