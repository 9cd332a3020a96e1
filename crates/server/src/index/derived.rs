//! The list of derived indexes: whatever concerns all of them goes over [`KINDS`], or over those that are open.
//!
//! One that is on is opened with the index, follows it, is verified by `birdhouse verify`, and is shown by status,
//! health and metrics. Those that are on the disk are checked and backed up with the index.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use birdhouse_chain::{Derived, DerivedIndex, Error, FilterHeaders, TweakDetail, Tweaks};
use birdhouse_node::{KeptBlocks, Rpc};
use birdhouse_store::{SegmentOptions, SegmentStore};
use bitcoin::Network;

use crate::config::{Options, SilentPayments, Switch};
use crate::process::private;

/// A store of arrays alone needs no cache.
const CACHE_BYTES: u64 = 1 << 20;

/// A derived index that the settings can enable.
pub(crate) struct Kind {
    /// The name of its computations, [`Derived::name`]: of its folder in that of the index, in metrics and reports.
    pub(crate) name: &'static str,
    /// Returns what the settings say of it.
    wanted: fn(&Options) -> Wanted,
    /// Returns its computation on a network, in each form in which it may be on the disk.
    forms: fn(Network) -> Vec<Arc<dyn Derived>>,
}

/// The state of a derived index that the settings ask for.
enum Wanted {
    /// Nothing: it is off, and stays on the disk if it is there.
    Unset,
    /// It is off, and gives its disk back.
    Off,
    /// It is on, in the form with this number.
    Form(usize),
}

/// Every derived index.
pub(crate) const KINDS: &[Kind] = &[
    Kind {
        name: FilterHeaders::NAME,
        wanted: |options| match options.block_filters {
            None => Wanted::Unset,
            Some(Switch::Off) => Wanted::Off,
            Some(Switch::On) => Wanted::Form(0),
        },
        forms: |_| vec![FilterHeaders::derived()],
    },
    Kind {
        name: Tweaks::NAME,
        wanted: |options| match options.silent_payments {
            None => Wanted::Unset,
            Some(SilentPayments::Off) => Wanted::Off,
            Some(SilentPayments::Scan) => Wanted::Form(0),
            Some(SilentPayments::Full) => Wanted::Form(1),
        },
        forms: |network| [TweakDetail::Scan, TweakDetail::Full].map(|detail| Tweaks::derived(network, detail)).into(),
    },
];

/// A derived index that is on.
pub(crate) struct Opened {
    pub(crate) name: &'static str,
    pub(crate) folder: PathBuf,
    pub(crate) store: Arc<SegmentStore>,
    pub(crate) index: Arc<DerivedIndex>,
}

/// Opens those that the settings enable, in folders of the index's, and removes those that they switch off. `rpc` is
/// that of the node that has the blocks; `None` where a folder of blocks is read.
pub(super) fn open(options: &Options, network: Network, index_dir: &Path, rpc: Option<&Rpc>) -> Result<Vec<Opened>> {
    let mut opened = Vec::new();
    for kind in KINDS {
        let folder = kind.folder(index_dir);
        remove_rest(&folder)?;
        match (kind.wanted)(options) {
            Wanted::Form(number) => opened.push(kind.open(&(kind.forms)(network), number, folder, rpc)?),
            Wanted::Off if folder.exists() => kind.remove(&folder, "it is switched off")?,
            Wanted::Unset if folder.exists() => {
                tracing::info!(index = kind.name, folder = %folder.display(), "a derived index is kept and not updated");
            }
            Wanted::Off | Wanted::Unset => {}
        }
    }
    Ok(opened)
}

impl Kind {
    /// Returns its folder.
    pub(crate) fn folder(&self, index_dir: &Path) -> PathBuf {
        index_dir.join(self.name)
    }

    /// Opens it in the form with this number. One of another form, or of an older version, is removed and made again,
    /// if the node has the blocks for that.
    fn open(&self, forms: &[Arc<dyn Derived>], wanted: usize, folder: PathBuf, rpc: Option<&Rpc>) -> Result<Opened> {
        let derived = &forms[wanted];
        let advice = || format!("failed to open {}; remove this folder, and it is made again", folder.display());
        let (store, index) = match open_form(derived, &folder).with_context(advice)? {
            Found::Wanted(store, index) => (store, index),
            Found::Other { format } => {
                self.check_replaceable(forms, wanted, format, rpc)?;
                self.remove(&folder, "the settings ask for other records, which are made from the blocks")?;
                match open_form(derived, &folder).with_context(advice)? {
                    Found::Wanted(store, index) => (store, index),
                    Found::Other { .. } => bail!("a new folder has another format"),
                }
            }
        };
        Ok(Opened { name: self.name, folder, store, index })
    }

    /// Checks that records of another format may be removed.
    ///
    /// # Errors
    /// A newer version made them, or the node lacks blocks from which they are made again.
    fn check_replaceable(&self, forms: &[Arc<dyn Derived>], wanted: usize, found: u8, rpc: Option<&Rpc>) -> Result<()> {
        let known = forms.iter().map(|form| form.format()).max().expect("a kind has a form");
        if found > known {
            return Err(Error::OtherFormat { found, known }).with_context(|| format!("failed to open {}", self.name));
        }
        let Some(rpc) = rpc else { return Ok(()) };
        let start = forms[wanted].start();
        let kept = KeptBlocks::of(rpc).with_context(|| {
            format!("failed to make {} again, as the settings ask: the node must say which blocks it has", self.name)
        })?;
        ensure!(
            kept.first <= start,
            "failed to make {0} again, as the settings ask: that needs the blocks from {start} on, and the node has \
             lost those below {1}; set {0} back to what it was, or leave the setting out to keep what is there",
            self.name,
            kept.first
        );
        Ok(())
    }

    fn remove(&self, folder: &Path, reason: &str) -> Result<()> {
        // Under another name first: a crash must not leave a part of a store where one is opened.
        let renamed = fs::rename(folder, removed(folder));
        renamed.with_context(|| format!("failed to rename {}", folder.display()))?;
        remove_rest(folder)?;
        tracing::warn!(index = self.name, folder = %folder.display(), reason, "removed a derived index");
        Ok(())
    }

    /// Opens it in an open store, in whichever form that has.
    pub(crate) fn open_in(&self, store: &Arc<SegmentStore>, network: Network) -> Result<DerivedIndex, Error> {
        let mut opened = (self.forms)(network).into_iter().map(|form| with(store, form));
        let first = opened.next().expect("a kind has a form");
        opened.fold(first, |found, next| if matches!(found, Err(Error::OtherFormat { .. })) { next } else { found })
    }
}

/// Returns the name of a folder while it is removed.
fn removed(folder: &Path) -> PathBuf {
    folder.with_extension("removed")
}

/// Removes what is left of a folder whose removal has begun.
fn remove_rest(folder: &Path) -> Result<()> {
    let rest = removed(folder);
    if !rest.exists() {
        return Ok(());
    }
    fs::remove_dir_all(&rest).with_context(|| format!("failed to remove {}", rest.display()))
}

/// The content of a folder.
enum Found {
    /// Records of the wanted form, or none.
    Wanted(Arc<SegmentStore>, Arc<DerivedIndex>),
    /// Those of another format.
    Other { format: u8 },
}

/// Opens a derived index in a folder.
fn open_form(derived: &Arc<dyn Derived>, folder: &Path) -> Result<Found> {
    private::folder(folder)?;
    let options = SegmentOptions { cache_bytes: CACHE_BYTES, ..SegmentOptions::default() };
    let store = Arc::new(SegmentStore::open(folder, &[], options)?);
    match with(&store, Arc::clone(derived)) {
        Ok(index) => Ok(Found::Wanted(store, Arc::new(index))),
        Err(Error::OtherFormat { found, .. }) => Ok(Found::Other { format: found }),
        Err(error) => Err(error.into()),
    }
}

fn with(store: &Arc<SegmentStore>, derived: Arc<dyn Derived>) -> Result<DerivedIndex, Error> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) / 2;
    DerivedIndex::open(Arc::clone(store) as _, derived, threads)
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
            assert!((kind.forms)(Network::Regtest).iter().all(|form| form.name() == kind.name));
        }
    }
}
