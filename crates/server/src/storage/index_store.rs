//! The store of the index: files of this machine, or a cluster that this process writes or reads.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use birdhouse_chain::source::BlockSource;
use birdhouse_chain::{Index, MergeOptions, Profile, Secret, TABLES, rebuild_advice};
use birdhouse_store::{FeedBounds, FeedStore, Replica, SegmentOptions, SegmentStore, Store};
use bitcoin::Network;
use bitcoin::blockdata::constants::genesis_block;

use crate::config::Options;
use crate::process::random;
use crate::sockets::listeners;
use crate::sockets::protocols::REPLICAS;

/// The store of the index.
#[derive(Clone)]
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "without the engine there is no cluster"))]
pub(crate) enum IndexStore {
    /// Files of this machine; with their changes where replicas may follow.
    Files { store: Arc<SegmentStore>, feed: Option<Arc<FeedStore>> },
    /// A cluster that this process writes.
    Written(Arc<dyn Store>),
    /// A cluster that another process writes.
    Followed(Arc<dyn Replica>),
    /// A copy, in files, of the index of another process.
    Copied(Arc<dyn CopiedIndex>),
}

/// A copy of the index of another process, which follows that process.
pub(crate) trait CopiedIndex: Replica {
    /// Returns why the other process cannot be followed, if that has lasted.
    fn failure(&self) -> Option<String>;
}

impl IndexStore {
    /// Returns the store if it lies in files.
    pub(crate) fn files(&self) -> Option<&Arc<SegmentStore>> {
        match self {
            Self::Files { store, .. } => Some(store),
            Self::Written(_) | Self::Followed(_) | Self::Copied(_) => None,
        }
    }

    /// Returns the states that another process publishes, if it writes the index.
    pub(crate) fn replica(&self) -> Option<&dyn Replica> {
        match self {
            Self::Followed(replica) => Some(&**replica),
            Self::Copied(copied) => Some(&**copied),
            Self::Files { .. } | Self::Written(_) => None,
        }
    }

    /// Returns why the index of another process cannot be followed.
    pub(crate) fn failure(&self) -> Option<String> {
        match self {
            Self::Copied(copied) => copied.failure(),
            Self::Files { .. } | Self::Written(_) | Self::Followed(_) => None,
        }
    }

    /// Returns the bytes of cached blocks of rows.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.files().map_or(0, |store| store.cache_bytes())
    }

    /// Returns the name and the bytes of every table and array.
    pub(crate) fn sizes(&self) -> Result<Vec<(String, u64)>> {
        Ok(match self {
            Self::Files { store, .. } => store.sizes()?,
            Self::Written(store) => store.sizes()?,
            Self::Followed(replica) => replica.newest()?.context("nothing is published")?.sizes()?,
            Self::Copied(copied) => copied.newest()?.context("nothing is published")?.sizes()?,
        })
    }
}

/// Opens the index of a network in the files of a folder.
pub(crate) fn open_files(
    options: &Options,
    network: Network,
    folder: &Path,
    source: Arc<dyn BlockSource>,
) -> Result<(IndexStore, Index)> {
    let cache_bytes = options.sizes().cache;
    let store = SegmentStore::open(folder, &TABLES, SegmentOptions { cache_bytes, ..SegmentOptions::default() });
    let store = store.map_err(|error| match error {
        birdhouse_store::Error::Corrupt { .. } => {
            anyhow!("failed to open the index: {error}; {}", rebuild_advice(folder))
        }
        error => error.into(),
    })?;
    let store = Arc::new(store);
    let feed = if listeners::plan_of(options, &REPLICAS)?.is_empty() {
        None
    } else {
        Some(Arc::new(FeedStore::new(Arc::clone(&store), FeedBounds::default())?))
    };
    let written: Arc<dyn Store> = match &feed {
        Some(feed) => Arc::clone(feed) as _,
        None => Arc::clone(&store) as _,
    };
    let index = open_index(options, network, written, source)?;
    Ok((IndexStore::Files { store, feed }, index))
}

/// Opens the index in a store.
pub(crate) fn open_index(
    options: &Options,
    network: Network,
    store: Arc<dyn Store>,
    source: Arc<dyn BlockSource>,
) -> Result<Index> {
    let genesis = genesis_block(network).block_hash();
    let folder = options.index_dir(network)?;
    let profile = options.profile.map_or_else(Profile::default, Profile::from);
    // Blocks that are appended together come while wallets are served, unlike those of the first build.
    let merging = MergeOptions::default().with_bulk_memory(options.sizes().build_memory / 2);
    let index = Index::open_with(store, source, genesis, profile, Secret(random::bytes()?), merging);
    let index = index.map_err(|error| anyhow!(error.advised(&folder)))?;
    index.set_folder(&folder);
    index.set_reorg_depth_max(options.reorg_depth_max.unwrap_or(Index::REORG_DEPTH_MAX));
    if let Some(seconds) = options.rpc_poll_secs {
        index.set_look_interval(Duration::from_secs(seconds.get().into()));
    }
    Ok(index)
}
