//! The first build: sort, do not look up.
//!
//! Pass 0 (the source's `chain`) gives every block its first txnum, so blocks may be read in any order. Pass 1
//! ([`emit`]) turns blocks into small records, partitioned by script prefix on disk. Pass 2 ([`merge`]) takes one
//! partition at a time, sorts it in memory and writes all rows of each script together ([`row_writer`]). These rows are
//! bulk-loaded: the build looks nothing up and leaves nothing to merge. They are one pack, and one delta of the last
//! blocks, which a reorg may replace.
//!
//! A chain whose records exceed the bound on temporary disk is built in *generations*: each leaves sorted runs
//! ([`runs`]) that the next one merges with; the last one writes rows. The manifest names the last finished
//! generation, so a kill costs at most the current one. Before the end, only the txid array is written to the store; a
//! repeated generation writes its part of that again.

mod context;
pub(crate) mod emit;
mod generation;
pub(crate) mod merge;
mod options;
pub(crate) mod parallel;
mod progress;
pub(crate) mod record;
pub(crate) mod row_writer;
pub(crate) mod run_set;
mod runs;
pub(crate) mod script_state;
pub(crate) mod spool;
mod temp_files;

use std::fs;

use crate::build::generation::{Generation, SCRIPT_PARTITIONS, TXID_PARTITIONS};
use crate::build::spool::{Positions, Spool};
use crate::error::{Error, Result};
use crate::manifest::{Manifest, Profile, State};
use crate::prefix::Keyer;
use crate::rows::txid;
use crate::source::BlockMeta;
use crate::txnum::{Height, TxNum};

pub(crate) use context::Build;
pub use options::{BuildOptions, BuildReport};
pub use progress::{Phase, Progress};
pub(crate) use temp_files::remove_leftovers;

impl Build<'_> {
    /// Builds from the last generation that `manifest` names. Returns the manifest of the finished index.
    pub(crate) fn run(&self, manifest: Manifest) -> Result<(Manifest, BuildReport)> {
        fs::create_dir_all(&self.options.temp_dir).map_err(Error::io("create", &self.options.temp_dir))?;
        let mut manifest = self.resume(manifest)?;
        let first_txnums = first_txnums(self.chain);
        let keyer = Keyer::new(manifest.secret, manifest.key_length);
        let bytes: u64 = self.chain.iter().map(|block| u64::from(block.bytes)).sum();
        let array = self.store.array(txid::ARRAY)?;
        loop {
            remove_leftovers(&self.options.temp_dir, manifest.built)?;
            let start = start_of(&manifest);
            array.truncate(array.len().min(first_txnums[start.0 as usize].0))?;
            // An array that was cut takes no records before.
            self.store.publish(&manifest.encode())?;
            let done: u64 = self.chain[..start.0 as usize].iter().map(|block| u64::from(block.bytes)).sum();
            self.progress.start_blocks(start.0.into(), self.chain.len() as u64);
            self.progress.start(Phase::Reading, done, bytes);
            let generation = Generation {
                build: self,
                number: manifest.built + 1,
                start,
                first_txnums: &first_txnums,
                keyer: &keyer,
                array: (manifest.profile == Profile::Full).then_some(&*array),
                scripts: Spool::create(&self.options.temp_dir, "scripts", SCRIPT_PARTITIONS)?,
                txids: Spool::create(&self.options.temp_dir, "txids", TXID_PARTITIONS)?,
                positions: Positions::create(self.block_file("positions", manifest.built + 1))?,
            };
            let end = generation.read(start)?;
            manifest.built += 1;
            manifest.next = first_txnums[end.0 as usize];
            if end.0 as usize == self.chain.len() {
                let report = generation.merge_into_rows(&mut manifest)?;
                remove_leftovers(&self.options.temp_dir, u32::MAX)?;
                return Ok((manifest, report));
            }
            generation.merge_into_runs()?;
            manifest.state = State::Building(self.id(Height(end.0 - 1)));
            self.store.publish(&manifest.encode())?;
            tracing::info!(generation = manifest.built, blocks = end.0, "finished a generation of the build");
        }
    }

    /// The manifest to build from: a build whose last generation is of another chain, or has lost its files, starts
    /// anew.
    fn resume(&self, manifest: Manifest) -> Result<Manifest> {
        let State::Building(tip) = manifest.state else {
            return Ok(Manifest::new(manifest.profile, manifest.secret, manifest.genesis));
        };
        let in_chain = self.chain.get(tip.height.0 as usize).is_some_and(|block| block.hash == tip.hash);
        let has_txids = manifest.profile == Profile::Lean || self.store.array(txid::ARRAY)?.len() >= manifest.next.0;
        if in_chain && has_txids && self.has_runs(manifest.built) {
            tracing::info!(blocks = tip.height.0 + 1, "resuming the build");
            return Ok(manifest);
        }
        let lost = match (in_chain, has_txids) {
            (false, _) => "the chain has changed below it",
            (true, false) => "the array of txids is shorter than it was",
            (true, true) => "its temporary files are gone",
        };
        tracing::warn!(reason = lost, "restarting the build from the first block");
        let manifest = Manifest::new(manifest.profile, manifest.secret, manifest.genesis);
        // Published before the files are removed, so that no manifest names files that are gone.
        self.store.publish(&manifest.encode())?;
        Ok(manifest)
    }

    /// True if all files of the earlier generations are there that the next one needs.
    fn has_runs(&self, last: u32) -> bool {
        let blocks = (1..=last).flat_map(|number| ["positions", "blocks"].map(|kind| self.block_file(kind, number)));
        let run = |kind, partitions| (0..partitions).map(move |partition| self.run_file(kind, last, partition));
        blocks.chain(run("scripts", SCRIPT_PARTITIONS)).chain(run("txids", TXID_PARTITIONS)).all(|path| path.is_file())
    }
}

/// The first block that no finished generation holds.
fn start_of(manifest: &Manifest) -> Height {
    match manifest.state {
        State::Building(tip) => Height(tip.height.0 + 1),
        State::Empty | State::Ready(_) => Height(0),
    }
}

/// First txnum of every block, and the end.
fn first_txnums(chain: &[BlockMeta]) -> Vec<TxNum> {
    let ends = chain.iter().scan(0, |end, block| {
        *end += u64::from(block.tx_count);
        Some(TxNum(*end))
    });
    std::iter::once(TxNum(0)).chain(ends).collect()
}
