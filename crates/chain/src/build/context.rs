//! Inputs of a build.

use std::path::PathBuf;
use std::sync::Arc;

use birdhouse_store::Store;
use parking_lot::Mutex;

use crate::build::options::BuildOptions;
use crate::build::progress::Progress;
use crate::build::temp_files;
use crate::derived::DerivedIndex;
use crate::error::Result;
use crate::names::Height;
use crate::outside::{BlockId, BlockMeta, BlockSource};
use crate::state::{Manifest, Slots};

/// One build of `chain` into `store`.
pub(crate) struct Build<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) source: &'a dyn BlockSource,
    pub(crate) chain: &'a [BlockMeta],
    pub(crate) options: &'a BuildOptions,
    /// Blocks up to the tip whose rows are not packed: a reorg may replace them.
    pub(crate) tip_blocks: u32,
    pub(crate) progress: &'a Progress,
    /// Derived indexes that take the blocks which the build reads.
    pub(crate) derived: &'a [Arc<DerivedIndex>],
    /// The slots of what readers see.
    pub(crate) slots: &'a Mutex<Slots>,
    /// Shows readers the early rows of a published manifest, or none.
    pub(crate) answer: &'a (dyn Fn(&Manifest) -> Result<()> + Sync),
}

impl Build<'_> {
    pub(super) fn id(&self, height: Height) -> BlockId {
        BlockId { height, hash: self.chain[height.0 as usize].hash }
    }

    /// The file of a generation's blocks.
    pub(super) fn block_file(&self, kind: &str, generation: u32) -> PathBuf {
        temp_files::block_file(&self.options.temp_dir, kind, generation)
    }

    /// The run of one partition of a generation.
    pub(super) fn run_file(&self, kind: &str, generation: u32, partition: usize) -> PathBuf {
        temp_files::run_file(&self.options.temp_dir, kind, generation, partition)
    }
}
