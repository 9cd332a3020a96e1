//! The list of derived indexes: whatever concerns all of them goes over [`KINDS`], or over those that are open.
//!
//! One that is on is opened with the index, follows it, is verified by `birdhouse verify`, and is shown by status,
//! health and metrics. Those that are on the disk are checked and backed up with the index.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use birdhouse_chain::{Derived, DerivedIndex, FilterHeaders};
use birdhouse_store::{SegmentOptions, SegmentStore};
use bitcoin::Network;

use crate::config::{Options, Switch};
use crate::process::private;

/// A store of arrays alone needs no cache.
const CACHE_BYTES: u64 = 1 << 20;

/// A derived index that the settings can enable.
pub(crate) struct Kind {
    /// The name of its computation, [`Derived::name`]: of its folder in that of the index, in metrics and reports.
    pub(crate) name: &'static str,
    /// Returns true if the settings enable it.
    is_on: fn(&Options) -> bool,
    /// Returns its computation on a network.
    derived: fn(Network) -> Arc<dyn Derived>,
}

/// Every derived index.
pub(crate) const KINDS: &[Kind] = &[Kind {
    name: FilterHeaders::NAME,
    is_on: |options| options.block_filters == Some(Switch::On),
    derived: |_| FilterHeaders::derived(),
}];

/// A derived index that is on.
pub(crate) struct Opened {
    pub(crate) name: &'static str,
    pub(crate) folder: PathBuf,
    pub(crate) store: Arc<SegmentStore>,
    pub(crate) index: Arc<DerivedIndex>,
}

/// Opens those that the settings enable, in folders of the index's.
pub(super) fn open(options: &Options, network: Network, index_dir: &Path) -> Result<Vec<Opened>> {
    let wanted = KINDS.iter().filter(|kind| (kind.is_on)(options));
    wanted.map(|kind| kind.open(network, index_dir)).collect()
}

impl Kind {
    /// Returns its folder.
    pub(crate) fn folder(&self, index_dir: &Path) -> PathBuf {
        index_dir.join(self.name)
    }

    fn open(&self, network: Network, index_dir: &Path) -> Result<Opened> {
        let folder = self.folder(index_dir);
        private::folder(&folder)?;
        let advice = || format!("failed to open {}; remove this folder, and it is made again", folder.display());
        let store_options = SegmentOptions { cache_bytes: CACHE_BYTES, ..SegmentOptions::default() };
        let store = Arc::new(SegmentStore::open(&folder, &[], store_options).with_context(advice)?);
        let index = Arc::new(self.open_in(Arc::clone(&store), network).with_context(advice)?);
        Ok(Opened { name: self.name, folder, store, index })
    }

    /// Opens it in an open store.
    pub(crate) fn open_in(&self, store: Arc<SegmentStore>, network: Network) -> Result<DerivedIndex> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from) / 2;
        Ok(DerivedIndex::open(store, (self.derived)(network), threads)?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_kind_has_the_name_of_its_computation_and_shares_it_with_none() {
        let names: BTreeSet<&str> = KINDS.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), KINDS.len());
        for kind in KINDS {
            assert_eq!((kind.derived)(Network::Regtest).name(), kind.name);
        }
    }
}
