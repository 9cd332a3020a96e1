//! The last phase of the build: sorted scripts, transactions and blocks become rows, which one publish makes visible.
//!
//! The scripts come from the spool of a build in one generation, or from the runs of several. Runs are merged in rounds
//! of some partitions. After each round its rows are loaded, a publish says so, and its runs are removed: the temporary
//! files shrink while the index grows, and a kill costs a round.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use birdhouse_store::FinishedRun;
use parking_lot::Mutex;
use zerocopy::FromBytes as _;

use crate::build::context::Build;
use crate::build::generation::{RUNS, SCRIPT_PARTITIONS, TIP};
use crate::build::merge::write_rows;
use crate::build::merged_runs::MergedRuns;
use crate::build::options::BuildReport;
use crate::build::parallel::in_stripes;
use crate::build::record::{PARTITION_BITS, Record, TxRecord};
use crate::build::row_writer::{BuildRows, TxnumRowWriter};
use crate::build::run_set::RunSet;
use crate::build::runs::RunReader;
use crate::build::sort::sorted;
use crate::build::spool::{Positions, Spool};
use crate::build::temp_files::remove;
use crate::build::txids::Txids;
use crate::error::{Error, Result};
use crate::names::{Height, Keyer, TxNum};
use crate::rows;
use crate::rows::{Delta, HeaderRow, Pack, bucket_bits, recent_txnum, script, txnum};
use crate::state::{Manifest, Merging, Slot, State};

/// Bits of the hash that choose the partition of a transaction's record.
const TXID_PARTITION_BITS: u32 = 8;
const TXID_PARTITIONS: usize = 1 << TXID_PARTITION_BITS;
/// Buckets never span partitions.
const _: () = assert!(TXID_PARTITION_BITS <= PARTITION_BITS);
/// Consecutive partitions that one thread writes into the same bulk runs.
const STRIPE: usize = 16;
/// Partitions of a round. Its rows lie beside its runs, which are removed when the round is published.
const ROUND: usize = 8;
const _: () = assert!(SCRIPT_PARTITIONS.is_multiple_of(ROUND));
/// Steps of the whole phase, for the progress.
pub(super) const STEPS: usize = SCRIPT_PARTITIONS + TXID_PARTITIONS;

/// A writer of all rows of a build.
pub(super) struct Rows<'a> {
    pub(super) build: &'a Build<'a>,
    pub(super) first_txnums: &'a [TxNum],
    pub(super) keyer: &'a Keyer,
    pub(super) txids: &'a Txids<'a>,
    pub(super) pack: Pack,
    pub(super) delta: Delta,
    /// Blocks whose own rows it writes. The rows of scripts and of transactions are those of all blocks before the end.
    pub(super) heights: Range<Height>,
}

/// Rows of scripts that are written and not loaded yet.
#[derive(Default)]
struct Written {
    runs: Mutex<Vec<FinishedRun>>,
    packed_scripts: AtomicU64,
    scripts: AtomicU64,
}

/// Slots of a pack and of a delta without rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct FreeSlots {
    pub(super) pack: u8,
    pub(super) delta: u8,
}

/// The pack of the transactions before `packs_end`, and the delta of those after it. `scripts_about` sets the size of
/// buckets.
pub(super) fn layout(manifest: &Manifest, packs_end: TxNum, scripts_about: u64, free: FreeSlots) -> (Pack, Delta) {
    let txs = packs_end.0;
    let pack = Pack {
        slot: free.pack,
        key_length: manifest.key_length,
        script_bits: bucket_bits(scripts_about.max(txs), script::PER_BUCKET).max(PARTITION_BITS),
        txnum_bits: bucket_bits(txs, txnum::PER_BUCKET).max(PARTITION_BITS),
        start: TxNum(0),
        end: packs_end,
        scripts: 0,
    };
    (pack, Delta { slot: free.delta, start: packs_end })
}

impl Rows<'_> {
    /// Writes all rows from the spool of the only generation, whose positions are given, and publishes the index.
    pub(super) fn of_spool(
        &self,
        spool: &Spool<Record>,
        positions: &Positions,
        manifest: &mut Manifest,
    ) -> Result<BuildReport> {
        let written = Written::default();
        let partition = |partition| Ok((spool.take(partition)?, MergedRuns::default()));
        self.scripts(0..SCRIPT_PARTITIONS, STRIPE, &written, partition)?;
        let pack = Pack { scripts: written.packed_scripts.into_inner(), ..self.pack };
        self.finish(
            written.runs.into_inner(),
            pack,
            std::slice::from_ref(positions),
            written.scripts.into_inner(),
            manifest,
        )
    }

    /// Writes and loads all rows from the runs of these generations, which stay. Returns their pack.
    pub(super) fn of_runs_so_far(&self, generations: u32) -> Result<Pack> {
        let written = Written::default();
        let merged = |partition| Ok((Vec::new(), self.merged_runs(generations, partition)?));
        self.scripts(0..SCRIPT_PARTITIONS, STRIPE, &written, merged)?;
        let mut runs = written.runs.into_inner();
        runs.extend(self.transactions_and_blocks(&self.positions(generations)?)?);
        self.build.store.bulk_load(runs)?;
        Ok(Pack { scripts: written.packed_scripts.into_inner(), ..self.pack })
    }

    /// Writes all rows from the runs of several generations, round by round, and publishes the index.
    pub(super) fn of_runs(&self, merging: Merging, manifest: &mut Manifest) -> Result<BuildReport> {
        let (build, Merging { tip, partitions, mut scripts }) = (self.build, merging);
        let first = partitions as usize;
        let mut pack = self.pack;
        self.remove_runs(0..first, manifest.built)?;
        for start in (first..SCRIPT_PARTITIONS).step_by(ROUND) {
            let (round, written) = (start..start + ROUND, Written::default());
            self.scripts(round.clone(), ROUND.div_ceil(build.options.threads), &written, |partition| {
                Ok((self.tip_records(manifest.built, partition)?, self.merged_runs(manifest.built, partition)?))
            })?;
            build.store.bulk_load(written.runs.into_inner())?;
            pack.scripts += written.packed_scripts.into_inner();
            scripts += written.scripts.into_inner();
            let partitions = u32::try_from(round.end).expect("few partitions");
            manifest.packs = vec![pack];
            manifest.state = State::Merging(Merging { tip, partitions, scripts });
            build.store.publish(&manifest.encode())?;
            self.remove_runs(round, manifest.built)?;
        }
        self.finish(Vec::new(), pack, &self.positions(manifest.built)?, scripts, manifest)
    }

    /// The runs of one partition.
    fn merged_runs(&self, generations: u32, partition: usize) -> Result<MergedRuns<'_>> {
        let open = |number| RunReader::open(self.build.run_file(RUNS, number, partition), self.pack.key_length);
        MergedRuns::new((1..=generations).map(open).collect::<Result<_>>()?, self.first_txnums)
    }

    /// The positions of each generation.
    fn positions(&self, generations: u32) -> Result<Vec<Positions>> {
        let file = |kind, number| self.build.block_file(kind, number);
        (1..=generations).map(|number| Positions::load(file("positions", number), &file("blocks", number))).collect()
    }

    fn remove_runs(&self, mut partitions: Range<usize>, generations: u32) -> Result<()> {
        partitions.try_for_each(|partition| {
            remove(&self.build.run_file(TIP, generations, partition))?;
            (1..=generations).try_for_each(|number| remove(&self.build.run_file(RUNS, number, partition)))
        })
    }

    /// The records of transactions that are not packed; the last generation has them.
    fn tip_records(&self, generation: u32, partition: usize) -> Result<Vec<Record>> {
        let path = self.build.run_file(TIP, generation, partition);
        let bytes = std::fs::read(&path).map_err(Error::io("read", &path))?;
        let records = bytes.chunks_exact(size_of::<Record>());
        Ok(records.map(|bytes| Record::read_from_bytes(bytes).expect("a chunk has the size of a record")).collect())
    }

    /// Writes the rows of the scripts in some partitions. `read` gives the records and the runs of one.
    fn scripts<'r>(
        &self,
        partitions: Range<usize>,
        stripe: usize,
        written: &Written,
        read: impl Fn(usize) -> Result<(Vec<Record>, MergedRuns<'r>)> + Sync,
    ) -> Result<()> {
        let build = self.build;
        in_stripes(build.options.threads, partitions.len(), stripe, |stripe| {
            let mut set = RunSet::new(build.store);
            for partition in stripe.map(|index| partitions.start + index) {
                build.progress.check()?;
                let mut rows = BuildRows::new(&mut set, self.pack, self.delta);
                let (records, runs) = read(partition)?;
                write_rows(&records, runs, self.pack.end, &mut rows)?;
                let counts = rows.finish()?;
                written.packed_scripts.fetch_add(counts.packed, Ordering::Relaxed);
                written.scripts.fetch_add(counts.all, Ordering::Relaxed);
                build.progress.add_partition();
            }
            written.runs.lock().extend(set.finish()?);
            Ok(())
        })
    }

    /// Writes the rows of transactions and blocks, loads them with `runs`, and publishes the finished index.
    fn finish(
        &self,
        mut runs: Vec<FinishedRun>,
        pack: Pack,
        positions: &[Positions],
        scripts: u64,
        manifest: &mut Manifest,
    ) -> Result<BuildReport> {
        let Build { store, chain, slots, .. } = *self.build;
        runs.extend(self.transactions_and_blocks(positions)?);
        store.bulk_load(runs)?;
        manifest.packs = if pack.end > pack.start { vec![pack] } else { Vec::new() };
        manifest.deltas = vec![self.delta];
        manifest.stale.clear();
        manifest.live.clear();
        manifest.extend(TxNum(0), manifest.next);
        let last = u32::try_from(chain.len() - 1).expect("heights fit 32 bits");
        manifest.state = State::Ready(self.build.id(Height(last)));
        let early = manifest.early.take();
        store.publish(&manifest.encode())?;
        slots.lock().retire(early.iter().flat_map(Slot::of_early));
        Ok(BuildReport { blocks: chain.len() as u64, txs: manifest.next.0, scripts })
    }

    /// The rows that find transactions, and those of blocks.
    fn transactions_and_blocks(&self, positions: &[Positions]) -> Result<Vec<FinishedRun>> {
        // The disk of a build in one generation was fuller before.
        let rounds = if positions.len() == 1 { 1 } else { self.txids.rounds() };
        let mut runs = self.transactions(rounds)?;
        runs.extend(self.blocks(positions)?.finish()?);
        Ok(runs)
    }

    /// The rows that find transactions by txid. Their records are spooled only now, when those of scripts are gone.
    fn transactions(&self, rounds: usize) -> Result<Vec<FinishedRun>> {
        let together = TXID_PARTITIONS / rounds;
        let rounds = (0..TXID_PARTITIONS).step_by(together);
        let runs = rounds.map(|first| self.transactions_in(first..first + together)).collect::<Result<Vec<_>>>()?;
        Ok(runs.into_iter().flatten().collect())
    }

    fn transactions_in(&self, partitions: Range<usize>) -> Result<Vec<FinishedRun>> {
        let build = self.build;
        let spool = Spool::<TxRecord>::create(&build.options.temp_dir, "txids", TXID_PARTITIONS)?;
        let end = self.first_txnums[self.heights.end.0 as usize];
        self.txids.spool(build, self.keyer, &spool, &partitions, self.pack.end, end)?;
        let runs = Mutex::new(Vec::new());
        let partition_bytes = spool.bytes() / partitions.len() as u64;
        in_stripes(build.options.threads_sorting(partition_bytes), partitions.len(), STRIPE, |stripe| {
            let mut set = RunSet::new(build.store);
            for partition in stripe.map(|index| partitions.start + index) {
                build.progress.check()?;
                self.transactions_of(&spool.take(partition)?, &mut set)?;
                build.progress.add_partition();
            }
            runs.lock().extend(set.finish()?);
            Ok(())
        })?;
        Ok(runs.into_inner())
    }

    fn transactions_of(&self, records: &[TxRecord], set: &mut RunSet<'_>) -> Result<()> {
        let mut rows = TxnumRowWriter::new(self.pack);
        for TxRecord { hash, txnum } in sorted(&[records], TXID_PARTITION_BITS, TxRecord::order) {
            let txnum = TxNum(txnum);
            if txnum < self.pack.end {
                rows.push(set, hash, txnum)?;
            } else {
                set.push(recent_txnum::table(&self.delta), &recent_txnum::key(hash, txnum), &[])?;
            }
        }
        rows.finish(set)
    }

    /// The `header` and `txpos` rows of every block, from the positions of each generation.
    fn blocks(&self, positions: &[Positions]) -> Result<RunSet<'_>> {
        let build = self.build;
        let mut set = RunSet::new(build.store);
        let mut push = |height: Height, weight: u32, offsets: &[u32]| {
            if !self.heights.contains(&height) {
                return Ok(());
            }
            let meta = &build.chain[height.0 as usize];
            let row = HeaderRow {
                first_txnum: self.first_txnums[height.0 as usize],
                header: meta.header,
                height,
                tx_count: meta.tx_count,
                // A source without files does not know the size before it has read the block.
                bytes: *offsets.last().expect("offsets end with the block's size"),
                weight,
                position: meta.position,
            };
            rows::of_block(&row, offsets).try_for_each(|(table, key, value)| set.push(table, &key, &value))
        };
        positions.iter().try_for_each(|positions| positions.for_each(&mut push))?;
        Ok(set)
    }
}
