//! The first build: sort, do not look up.
//!
//! Pass 0 (the source's `chain`) gives every block its first txnum, so blocks may be read in any order. Pass 1
//! ([`emit`]) turns blocks into small records, partitioned by script prefix on disk. Pass 2 ([`merge`]) takes one
//! partition at a time, sorts it in memory and writes all rows of each script together ([`row_writer`]). These rows are
//! bulk-loaded: the build looks nothing up and leaves nothing to merge. They are one pack, and one delta of the last
//! blocks, which a reorg may replace.
//!
//! A chain whose records exceed the bound on temporary disk is built in *generations*. Each sorts its records into runs
//! ([`runs`]), in which a script has its transactions and the outputs that it did not spend. At the end the runs of all
//! generations are merged once ([`rows`]), so no run is written twice. The last generations are smaller than the first,
//! so that their records take the place on the disk that their runs will take. The manifest names the last finished
//! generation, then the merged partitions, so a kill costs at most a generation or a round of the merge.
//!
//! Txids go to the array of the full profile, or to a temporary file; the rows that find them are sorted last, when the
//! records of scripts are gone from the disk.
//!
//! The first generation spools up to `build-temp-mib`. Each later one spools as many bytes as the final sorted files
//! will take, at least an eighth of the first, so the disk is at its fullest at the end. Generations are few, because
//! each one repeats the keys of the scripts that it touches: two fifths of the bytes of a run. A chain in one
//! generation needs no runs. A reorg during the merge is followed after the build.
//!
//! The first blocks of a chain that takes several generations answer early ([`early`]).

mod context;
mod early;
mod emit;
mod funding;
mod generation;
mod merge;
mod merged_runs;
mod options;
mod parallel;
mod progress;
mod record;
mod row_writer;
mod rows;
mod run_set;
mod runs;
mod script_state;
mod sort;
mod spool;
mod temp_files;
mod txids;

pub(crate) use self::emit::{NumberedBlock, each_record};
pub(crate) use self::funding::{NUMBERS_END, Naming};
pub(crate) use self::generation::RECORDS_PER_SCRIPT;
pub(crate) use self::merge::{by_key, by_script};
pub(crate) use self::parallel::in_parallel;
pub(crate) use self::record::{PARTITION_BITS, Record, Side, TxRecord};
pub(crate) use self::row_writer::{ScriptRowWriter, TxnumRowWriter};
pub(crate) use self::run_set::RunSet;
pub(crate) use self::script_state::{ScriptState, Unknown};
pub(crate) use self::sort::{Partitioned, partitioned, sorted};
pub(crate) use self::spool::{Spool, SpoolWriter};

use std::fs;

use crate::build::early::{first_unanswered, start_of};
use crate::build::generation::{Generation, RUNS, SCRIPT_PARTITIONS, TIP, bytes};
use crate::build::rows::{Rows, STEPS, layout};
use crate::build::runs::{RUN_BYTES_PER_SCRIPT, RunHead};
use crate::build::spool::Positions;
use crate::build::txids::{TxHashes, Txids};
use crate::error::{Error, Result};
use crate::names::{Height, Keyer, Profile, TxNum};
use crate::outside::BlockMeta;
use crate::rows::txid;
use crate::state::{Manifest, Merging, Slot, State};

pub(crate) use context::Build;
pub use options::{BuildOptions, BuildReport};
pub use progress::{Phase, Progress};
pub(crate) use temp_files::{remove_leftovers, unnamed_file};

impl Build<'_> {
    /// Builds from the last generation that `manifest` names. Returns the manifest of the finished index.
    pub(crate) fn run(&self, manifest: Manifest) -> Result<(Manifest, BuildReport)> {
        fs::create_dir_all(&self.options.temp_dir).map_err(Error::io("create", &self.options.temp_dir))?;
        let array = self.store.array(txid::ARRAY)?;
        let first_txnums = first_txnums(self.chain);
        let tip_start = first_txnums[self.chain.len().saturating_sub(self.tip_blocks as usize)];
        let txids = match manifest.profile {
            Profile::Full => Txids::Array(&*array),
            Profile::Lean => Txids::Hashes(TxHashes::open(self, manifest.key_length, tip_start)?),
        };
        let mut manifest = self.resume(manifest, &txids)?;
        (self.answer)(&manifest)?;
        let keyer = Keyer::new(manifest.secret, manifest.key_length);
        remove_leftovers(&self.options.temp_dir, manifest.built)?;
        let scripts = Spool::create(&self.options.temp_dir, "scripts", SCRIPT_PARTITIONS)?;
        let early_ends = early::ends(&first_txnums, bytes(self.chain), self.options);
        let rows = |pack, delta, heights| Rows {
            build: self,
            first_txnums: &first_txnums,
            keyer: &keyer,
            txids: &txids,
            pack,
            delta,
            heights,
        };
        let chain_end = Height(u32::try_from(self.chain.len()).expect("heights fit 32 bits"));
        loop {
            let unanswered = |manifest: &Manifest| first_unanswered(manifest)..chain_end;
            if let State::Merging(merging) = manifest.state {
                self.progress.start_rows(merging.partitions.into(), STEPS as u64);
                let pack = *manifest.packs.first().expect("a build that merges has a pack");
                let delta = *manifest.deltas.first().expect("a build that merges has a delta");
                let report = rows(pack, delta, unanswered(&manifest)).of_runs(merging, &mut manifest)?;
                return self.end(manifest, report);
            }
            if early::is_due(&early_ends, &manifest) {
                self.publish_early(&mut manifest, rows)?;
            }
            let generation = self.begin(&manifest, &first_txnums, &keyer, &txids, &scripts)?;
            let next_early = early_ends.iter().find(|end| **end > generation.start);
            let end = generation.read(*next_early.unwrap_or(&chain_end))?;
            manifest.built += 1;
            manifest.next = first_txnums[end.0 as usize];
            let is_last = end == chain_end;
            // A generation before this one has packed its blocks.
            let packed = self.chain.len().saturating_sub(self.tip_blocks as usize).max(generation.start.0 as usize);
            let packs_end = first_txnums[packed];
            if is_last && manifest.built == 1 {
                self.progress.start_rows(0, STEPS as u64);
                let records = scripts.bytes() / size_of::<Record>() as u64;
                let scripts_about = records / RECORDS_PER_SCRIPT;
                let (pack, delta) = layout(&manifest, packs_end, scripts_about, self.empty_slots(&manifest)?);
                let rows = rows(pack, delta, unanswered(&manifest));
                let report = rows.of_spool(&scripts, &generation.positions, &mut manifest)?;
                return self.end(manifest, report);
            }
            let tip = self.id(Height(end.0 - 1));
            if is_last {
                generation.write_runs(Some(packs_end), manifest.key_length)?;
                let scripts_about = self.run_bytes(manifest.built)? / RUN_BYTES_PER_SCRIPT;
                let (pack, delta) = layout(&manifest, packs_end, scripts_about, self.empty_slots(&manifest)?);
                (manifest.packs, manifest.deltas) = (vec![pack], vec![delta]);
                manifest.state = State::Merging(Merging { tip, partitions: 0, scripts: 0 });
            } else {
                generation.write_runs(None, manifest.key_length)?;
                manifest.state = State::Building(tip);
            }
            self.store.publish(&manifest.encode())?;
            tracing::info!(generation = manifest.built, blocks = end.0, "finished a generation of the build");
        }
    }

    fn end(&self, manifest: Manifest, report: BuildReport) -> Result<(Manifest, BuildReport)> {
        remove_leftovers(&self.options.temp_dir, u32::MAX)?;
        Ok((manifest, report))
    }

    /// Begins the generation after those that `manifest` names.
    fn begin<'a>(
        &'a self,
        manifest: &Manifest,
        first_txnums: &'a [TxNum],
        keyer: &'a Keyer,
        txids: &'a Txids<'a>,
        scripts: &'a Spool<Record>,
    ) -> Result<Generation<'a>> {
        let start = start_of(manifest);
        let number = manifest.built + 1;
        txids.truncate(first_txnums[start.0 as usize])?;
        // An array that was cut takes no records before.
        self.store.publish(&manifest.encode())?;
        let (done, left) = self.chain.split_at(start.0 as usize);
        let (done, left) = (bytes(done), bytes(left));
        self.progress.start_blocks(start.0.into(), self.chain.len() as u64);
        self.progress.start_reading(done, done + left);
        let files = self.run_bytes(manifest.built)? + txids.temp_bytes()?;
        let to_come = (done > 0).then(|| scaled(files, left, done));
        Ok(Generation {
            build: self,
            number,
            start,
            first_txnums,
            keyer,
            txids,
            scripts,
            spool_bytes_max: self.options.spool_bytes_max(SCRIPT_PARTITIONS, to_come),
            positions: Positions::create(self.block_file("positions", number))?,
        })
    }

    /// The manifest to build from: a build whose last generation is of another chain, or has lost its files, starts
    /// anew.
    fn resume(&self, manifest: Manifest, txids: &Txids<'_>) -> Result<Manifest> {
        let tip = match manifest.state {
            State::Building(tip) | State::Merging(Merging { tip, .. }) => tip,
            State::Empty | State::Ready(_) => {
                return Ok(Manifest::new(manifest.profile, manifest.secret, manifest.genesis));
            }
        };
        let in_chain = self.chain.get(tip.height.0 as usize).is_some_and(|block| block.hash == tip.hash);
        let has_txids = match manifest.state {
            State::Merging(_) => txids.is_whole_until(manifest.next)?,
            _ => txids.has_all_before(manifest.next)?,
        };
        let has_runs = self.has_runs(&manifest);
        // Those of a build that merges have every name that is asked for.
        let fits = !matches!(manifest.state, State::Building(_))
            || has_runs && RunHead::of(&self.run_file(RUNS, 1, 0))?.naming == Naming::of(self.source);
        if in_chain && has_txids && has_runs && fits {
            tracing::info!(blocks = tip.height.0 + 1, "resuming the build");
            return Ok(manifest);
        }
        let lost = match (in_chain, has_txids, has_runs) {
            (false, ..) => "the chain has changed below it",
            (true, false, _) => "the list of txids is shorter than it was",
            (true, true, false) => "its temporary files are gone",
            (true, true, true) => "it began with block files and goes on without, or the other way round",
        };
        tracing::warn!(reason = lost, "restarting the build from the first block");
        self.slots.lock().retire(manifest.early.iter().flat_map(Slot::of_early));
        let manifest = Manifest::new(manifest.profile, manifest.secret, manifest.genesis);
        // Published before the files are removed, so that no manifest names files that are gone.
        self.store.publish(&manifest.encode())?;
        Ok(manifest)
    }

    /// True if all files of finished generations are there, but for the runs of merged partitions.
    fn has_runs(&self, manifest: &Manifest) -> bool {
        let (last, merged) = match manifest.state {
            State::Merging(merging) => (Some(manifest.built), merging.partitions as usize),
            _ => (None, 0),
        };
        let runs = |kind, number| (merged..SCRIPT_PARTITIONS).map(move |at| self.run_file(kind, number, at));
        let of_generation = |number| {
            let blocks = ["positions", "blocks"].map(|kind| self.block_file(kind, number));
            blocks.into_iter().chain(runs(RUNS, number))
        };
        let tip = last.into_iter().flat_map(|number| runs(TIP, number));
        (1..=manifest.built).flat_map(of_generation).chain(tip).all(|path| path.is_file())
    }

    /// Bytes of the runs of all generations.
    fn run_bytes(&self, generations: u32) -> Result<u64> {
        let files = (1..=generations).flat_map(|number| (0..SCRIPT_PARTITIONS).map(move |at| (number, at)));
        let bytes = |(number, partition)| {
            let path = self.run_file(RUNS, number, partition);
            fs::metadata(&path).map(|file| file.len()).map_err(Error::io("read", &path))
        };
        files.map(bytes).sum()
    }
}

/// `bytes * of / all`, or as much as fits.
fn scaled(bytes: u64, of: u64, all: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(of) / u128::from(all)).unwrap_or(u64::MAX)
}

/// First txnum of every block, and the end.
fn first_txnums(chain: &[BlockMeta]) -> Vec<TxNum> {
    let ends = chain.iter().scan(0, |end, block| {
        *end += u64::from(block.tx_count);
        Some(TxNum(*end))
    });
    std::iter::once(TxNum(0)).chain(ends).collect()
}
