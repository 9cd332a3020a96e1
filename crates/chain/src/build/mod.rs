//! The first build: sort, don't look up.
//!
//! Pass 0 (the source's `chain`) gives every block its first txnum, so blocks may be read in any order. Pass 1
//! ([`emit`]) turns blocks into small records, partitioned by script prefix on disk. Pass 2 ([`seal`]) takes one
//! partition at a time, sorts it in memory and writes everything about each script together, as rows that are
//! bulk-loaded: no lookup, no compaction.
//!
//! A chain whose records exceed the bound on temporary disk is built in *generations*: each leaves sorted runs
//! ([`runs`]) that the next one merges with; the last one writes rows. The manifest names the last finished
//! generation, so a kill costs at most the current one. Nothing but the txid array is written to the store before
//! the end, and that is rewritten in whole by a repeated generation.

pub(crate) mod emit;
pub(crate) mod record;
mod runs;
pub(crate) mod script_state;
pub(crate) mod seal;
pub(crate) mod spool;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use birdhouse_store::{Array, BulkRun, SealedRun, Store, Table};

use crate::build::emit::Emit;
use crate::build::record::{Record, TxRecord};
use crate::build::runs::{RunReader, RunWriter};
use crate::build::seal::{ScriptRows, TxnumRows};
use crate::build::spool::{Positions, Spool};
use crate::bytes::uint_width;
use crate::manifest::{Manifest, Packed, Profile, State};
use crate::prefix::Keyer;
use crate::rows::header::{self, HeaderRow};
use crate::rows::{self, bucket_bits, script, txid, txnum, txpos};
use crate::source::{BlockId, BlockMeta, BlockSource};
use crate::txnum::{Height, TxNum};

pub(crate) type BuildResult<T> = Result<T, crate::Error>;

/// Partitions of script records, and of transaction records. Powers of two.
const SCRIPT_PARTITIONS: usize = 256;
const TXID_PARTITIONS: usize = 64;
/// Buckets never span partitions.
const PARTITION_BITS: u32 = 8;
const _: () = assert!(SCRIPT_PARTITIONS == 1 << PARTITION_BITS && TXID_PARTITIONS <= SCRIPT_PARTITIONS);
/// Partitions that one thread seals in a row, into the same bulk runs.
const STRIPE: usize = 16;
/// Blocks are read in windows of about this many bytes; between them the spool's size is looked at.
const WINDOW_BYTES: u64 = 4 << 30;
/// What the build may use.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// A folder for temporary files; what the build finds there of an earlier one is its own.
    pub temp_dir: PathBuf,
    /// Threads that read, hash and sort.
    pub threads: usize,
    /// Bytes of memory beyond the file cache.
    pub memory_bytes: u64,
    /// Bytes of temporary disk for one generation's records.
    pub temp_bytes: u64,
    /// No generation but the last ends within this many blocks of the tip: what a reorg may replace belongs to the last.
    pub reorg_blocks: u32,
}

impl BuildOptions {
    /// The usual [`BuildOptions::reorg_blocks`].
    pub const REORG_BLOCKS: u32 = 1000;
}

/// How far the build is; shared with whoever shows it. All numbers only grow within a phase.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
    blocks: AtomicU64,
    blocks_total: AtomicU64,
    cancelled: AtomicBool,
}

/// What the build is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Looking for blocks and their headers.
    Scanning,
    /// Reading blocks; [`Progress::done`] counts bytes.
    Reading,
    /// Sorting and writing rows; [`Progress::done`] counts partitions.
    Sorting,
}

impl Progress {
    /// What is being done.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Scanning,
            1 => Phase::Reading,
            _ => Phase::Sorting,
        }
    }

    /// Bytes or partitions done, and how many there are.
    pub fn done(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Blocks read, and how many there are.
    pub fn blocks(&self) -> (u64, u64) {
        (self.blocks.load(Ordering::Relaxed), self.blocks_total.load(Ordering::Relaxed))
    }

    /// 0 to 99. Sorting is taken for a quarter of the whole.
    pub fn percent(&self) -> u8 {
        let (done, total) = self.done();
        let part = |share: u64| (done * share).checked_div(total).unwrap_or(0).min(share);
        let percent = match self.phase() {
            Phase::Scanning => 0,
            Phase::Reading => part(75),
            Phase::Sorting => 75 + part(24),
        };
        u8::try_from(percent).expect("below 100")
    }

    /// Makes the build end soon, with [`crate::Error::Cancelled`].
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    fn check(&self) -> BuildResult<()> {
        if self.cancelled.load(Ordering::Relaxed) { Err(crate::Error::Cancelled) } else { Ok(()) }
    }

    fn start(&self, phase: u8, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.phase.store(phase, Ordering::Relaxed);
    }

    fn add_block(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        self.blocks.fetch_add(1, Ordering::Relaxed);
    }

    fn add_partition(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a build made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildReport {
    /// Blocks indexed.
    pub blocks: u64,
    /// Their transactions.
    pub txs: u64,
    /// Distinct scripts.
    pub scripts: u64,
}

/// One build of `chain` into `store`.
pub(crate) struct Build<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) source: &'a dyn BlockSource,
    pub(crate) chain: &'a [BlockMeta],
    pub(crate) options: &'a BuildOptions,
    pub(crate) progress: &'a Progress,
}

impl Build<'_> {
    /// Builds from where `manifest` says the last build got to; gives the manifest of the finished index.
    pub(crate) fn run(&self, manifest: Manifest) -> BuildResult<(Manifest, BuildReport)> {
        fs::create_dir_all(&self.options.temp_dir).map_err(io_error("create", &self.options.temp_dir))?;
        let mut manifest = self.resume(manifest)?;
        let first_txnums = first_txnums(self.chain);
        let keyer = Keyer::new(manifest.secret);
        let bytes: u64 = self.chain.iter().map(|block| u64::from(block.bytes)).sum();
        self.progress.blocks_total.store(self.chain.len() as u64, Ordering::Relaxed);
        let array = self.store.array(txid::ARRAY)?;
        loop {
            remove_leftovers(&self.options.temp_dir, manifest.packed.generation)?;
            let start = start_of(&manifest);
            array.truncate(array.len().min(first_txnums[start.0 as usize].0))?;
            let done: u64 = self.chain[..start.0 as usize].iter().map(|block| u64::from(block.bytes)).sum();
            self.progress.blocks.store(start.0.into(), Ordering::Relaxed);
            self.progress.start(1, done, bytes);
            let generation = Generation {
                build: self,
                number: manifest.packed.generation + 1,
                first_txnums: &first_txnums,
                keyer: &keyer,
                array: (manifest.profile == Profile::Full).then_some(&*array),
                scripts: Spool::create(&self.options.temp_dir, "scripts", SCRIPT_PARTITIONS)?,
                txids: Spool::create(&self.options.temp_dir, "txids", TXID_PARTITIONS)?,
                positions: Positions::create(self.path("positions", manifest.packed.generation + 1))?,
            };
            let end = generation.read(start)?;
            manifest.packed.generation += 1;
            manifest.packed.end = first_txnums[end.0 as usize];
            manifest.next = manifest.packed.end;
            if end.0 as usize == self.chain.len() {
                let report = generation.seal_into_rows(&mut manifest)?;
                remove_leftovers(&self.options.temp_dir, u32::MAX)?;
                return Ok((manifest, report));
            }
            generation.seal_into_runs()?;
            manifest.state = State::Building(self.id(Height(end.0 - 1)));
            self.store.publish(&manifest.encode())?;
            tracing::info!(
                generation = manifest.packed.generation,
                blocks = end.0,
                "finished a generation of the build"
            );
        }
    }

    /// A build whose last generation is not of this chain, or has lost its files, starts anew.
    fn resume(&self, manifest: Manifest) -> BuildResult<Manifest> {
        let State::Building(tip) = manifest.state else {
            return Ok(Manifest::new(manifest.profile, manifest.secret, manifest.genesis));
        };
        let in_chain = self.chain.get(tip.height.0 as usize).is_some_and(|block| block.hash == tip.hash);
        let has_txids =
            manifest.profile == Profile::Lean || self.store.array(txid::ARRAY)?.len() >= manifest.packed.end.0;
        if in_chain && has_txids && self.has_runs(manifest.packed.generation) {
            tracing::info!(blocks = tip.height.0 + 1, "resuming the build");
            return Ok(manifest);
        }
        let lost = match (in_chain, has_txids) {
            (false, _) => "the chain has changed below it",
            (true, false) => "the array of txids is shorter than it was",
            (true, true) => "its temporary files are gone",
        };
        tracing::warn!("the build's last generation is of no use, {lost}: building anew");
        let manifest = Manifest::new(manifest.profile, manifest.secret, manifest.genesis);
        // Before the files go, so that no manifest promises what is no longer there.
        self.store.publish(&manifest.encode())?;
        Ok(manifest)
    }

    /// Whether everything is there that the next generation needs of the earlier ones.
    fn has_runs(&self, last: u32) -> bool {
        let blocks = (1..=last).flat_map(|number| ["positions", "blocks"].map(|kind| self.path(kind, number)));
        let run = |kind, partitions| (0..partitions).map(move |partition| self.run_path(kind, last, partition));
        blocks.chain(run("scripts", SCRIPT_PARTITIONS)).chain(run("txids", TXID_PARTITIONS)).all(|path| path.is_file())
    }

    fn id(&self, height: Height) -> BlockId {
        BlockId { height, hash: self.chain[height.0 as usize].hash }
    }

    fn path(&self, kind: &str, generation: u32) -> PathBuf {
        self.options.temp_dir.join(format!("{kind}-{generation:05}.run"))
    }

    fn run_path(&self, kind: &str, generation: u32, partition: usize) -> PathBuf {
        self.options.temp_dir.join(format!("{kind}-{generation:05}-{partition:03}.run"))
    }

    /// The most that one generation may spool, so that sorting keeps within the bound on memory.
    fn spool_bytes_max(&self) -> u64 {
        let per_thread = self.options.memory_bytes / 2 / self.options.threads as u64;
        self.options.temp_bytes.min(per_thread * SCRIPT_PARTITIONS as u64)
    }
}

/// Removes every temporary file but those of finished generations that are still needed: the runs of the last one,
/// and the positions of all. `u32::MAX` removes all.
pub(crate) fn remove_leftovers(dir: &Path, finished: u32) -> BuildResult<()> {
    for entry in fs::read_dir(dir).map_err(io_error("read", dir))? {
        let path = entry.map_err(io_error("read", dir))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if is_leftover(name, finished) {
            fs::remove_file(&path).map_err(io_error("remove", &path))?;
        }
    }
    Ok(())
}

/// Whether a file is of this build, and of no finished generation, nor the last one's unless it holds positions.
fn is_leftover(name: &str, finished: u32) -> bool {
    let Some(run) = name.strip_suffix(".run") else { return name.strip_suffix(".tmp").is_some() };
    let mut parts = run.split('-');
    let kind = parts.next().unwrap_or_default();
    let generation: u32 = parts.next().and_then(|number| number.parse().ok()).unwrap_or(u32::MAX);
    let kept = if matches!(kind, "positions" | "blocks") { generation <= finished } else { generation == finished };
    finished == u32::MAX || !kept
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

/// One generation at work.
struct Generation<'a> {
    build: &'a Build<'a>,
    number: u32,
    first_txnums: &'a [TxNum],
    keyer: &'a Keyer,
    array: Option<&'a dyn Array>,
    scripts: Spool<Record>,
    txids: Spool<TxRecord>,
    positions: Positions,
}

impl Generation<'_> {
    /// Pass 1, window by window, until the chain ends or the spool is full. Gives the height after the last block.
    fn read(&self, start: Height) -> BuildResult<Height> {
        let Build { source, chain, options, progress, .. } = *self.build;
        let mut at = start;
        let emit = Emit {
            source,
            chain,
            first_txnums: self.first_txnums,
            keyer: self.keyer,
            scripts: &self.scripts,
            txids: &self.txids,
            positions: &self.positions,
            txid_array: self.array,
            progress,
        };
        while (at.0 as usize) < chain.len() {
            let end = window_end(chain, at, WINDOW_BYTES.min(self.build.spool_bytes_max()));
            emit.run(&source.units(chain, at..end), options.threads)?;
            at = end;
            let left = u32::try_from(chain.len()).expect("heights fit 32 bits") - at.0;
            if self.scripts.bytes() >= self.build.spool_bytes_max() && left > options.reorg_blocks {
                break;
            }
        }
        Ok(at)
    }

    fn seal_into_runs(&self) -> BuildResult<()> {
        let build = self.build;
        build.progress.start(2, 0, (SCRIPT_PARTITIONS + TXID_PARTITIONS) as u64);
        build.each_stripe(SCRIPT_PARTITIONS, |partition| {
            let mut sink = RunWriter::create(build.run_path("scripts", self.number, partition))?;
            seal::scripts(&self.scripts.take(partition)?, self.earlier("scripts", partition)?, &mut sink)?;
            sink.finish()
        })?;
        build.each_stripe(TXID_PARTITIONS, |partition| {
            let mut sink = RunWriter::create(build.run_path("txids", self.number, partition))?;
            let earlier = self.earlier("txids", partition)?;
            seal::txids(self.txids.take(partition)?, earlier, |record| sink.push_tx(record))?;
            sink.finish()
        })?;
        self.positions.save(&build.path("blocks", self.number))?;
        // The names must be as durable as the files.
        let dir = &build.options.temp_dir;
        fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error("sync", dir))
    }

    fn earlier(&self, kind: &str, partition: usize) -> BuildResult<RunReader> {
        let before = self.number - 1;
        RunReader::open((before > 0).then(|| self.build.run_path(kind, before, partition)))
    }

    /// Pass 2 of the last generation: everything becomes rows, which one publish makes visible.
    fn seal_into_rows(&self, manifest: &mut Manifest) -> BuildResult<BuildReport> {
        let build = self.build;
        let store = build.store;
        build.progress.start(2, 0, (SCRIPT_PARTITIONS + TXID_PARTITIONS) as u64);
        for table in rows::TABLES {
            store.clear(table)?;
        }
        let txs = manifest.packed.end.0;
        // Of the records, about one in three is a script's first.
        let scripts_about = (self.scripts.bytes() / size_of::<Record>() as u64 / 3).max(txs);
        let packed = Packed {
            script_bits: bucket_bits(scripts_about, script::PER_BUCKET).max(PARTITION_BITS),
            txnum_bits: bucket_bits(txs, txnum::PER_BUCKET).max(PARTITION_BITS),
            ..manifest.packed
        };
        let runs = Mutex::new(Vec::new());
        let scripts = AtomicU64::new(0);
        let keep = |set: RunSet| -> BuildResult<()> {
            runs.lock().expect("no sealer panics").extend(set.finish()?);
            Ok(())
        };
        build.in_stripes(SCRIPT_PARTITIONS, |stripe| {
            let mut set = RunSet::new(store);
            for partition in stripe {
                build.progress.check()?;
                let mut rows =
                    ScriptRows::new(&mut set, packed.generation, packed.script_bits, uint_width(packed.end.0));
                seal::scripts(&self.scripts.take(partition)?, self.earlier("scripts", partition)?, &mut rows)?;
                scripts.fetch_add(rows.finish()?, Ordering::Relaxed);
                build.progress.add_partition();
            }
            keep(set)
        })?;
        build.in_stripes(TXID_PARTITIONS, |stripe| {
            let mut set = RunSet::new(store);
            for partition in stripe {
                build.progress.check()?;
                let mut rows = TxnumRows::new(&mut set, packed.generation, packed.txnum_bits);
                let earlier = self.earlier("txids", partition)?;
                seal::txids(self.txids.take(partition)?, earlier, |record| rows.push(record))?;
                rows.finish()?;
                build.progress.add_partition();
            }
            keep(set)
        })?;
        keep(self.blocks_as_rows()?)?;
        store.bulk_load(runs.into_inner().expect("no sealer panics"))?;
        manifest.packed = packed;
        manifest.live.clear();
        manifest.extend(TxNum(0), packed.end);
        let blocks = build.chain.len() as u64;
        manifest.state = State::Ready(build.id(Height(u32::try_from(blocks - 1).expect("heights fit 32 bits"))));
        store.publish(&manifest.encode())?;
        Ok(BuildReport { blocks, txs, scripts: scripts.into_inner() })
    }

    /// `header` and `txpos` rows of every block, of this generation and those before.
    fn blocks_as_rows(&self) -> BuildResult<RunSet<'_>> {
        let build = self.build;
        let mut set = RunSet::new(build.store);
        let mut push = |height: Height, offsets: &[u32]| {
            let meta = &build.chain[height.0 as usize];
            let row = HeaderRow {
                first_txnum: self.first_txnums[height.0 as usize],
                header: meta.header,
                height,
                tx_count: meta.tx_count,
                bytes: meta.bytes,
                position: meta.position,
            };
            set.push(header::TABLE, &header::key(row.first_txnum), &header::value(&row))?;
            for (key, value) in txpos::rows(row.first_txnum, offsets) {
                set.push(txpos::TABLE, &rows::txnum_bytes(key), &value)?;
            }
            Ok(())
        };
        for number in 1..self.number {
            let positions = Positions::load(build.path("positions", number), &build.path("blocks", number))?;
            positions.for_each(&mut push)?;
        }
        self.positions.for_each(&mut push)?;
        Ok(set)
    }
}

impl Build<'_> {
    /// Runs `work` over stripes of partitions, in parallel.
    fn in_stripes(
        &self,
        partitions: usize,
        work: impl Fn(std::ops::Range<usize>) -> BuildResult<()> + Sync,
    ) -> BuildResult<()> {
        let next = AtomicUsize::new(0);
        in_parallel(self.options.threads, || {
            loop {
                let start = next.fetch_add(STRIPE, Ordering::Relaxed);
                if start >= partitions {
                    return Ok(());
                }
                work(start..partitions.min(start + STRIPE))
                    .inspect_err(|_| next.store(partitions, Ordering::Relaxed))?;
            }
        })
    }

    fn each_stripe(&self, partitions: usize, work: impl Fn(usize) -> BuildResult<()> + Sync) -> BuildResult<()> {
        self.in_stripes(partitions, |mut stripe| {
            stripe.try_for_each(|partition| {
                self.progress.check()?;
                self.progress.add_partition();
                work(partition)
            })
        })
    }
}

/// The height after a stretch of blocks of about `bytes`.
fn window_end(chain: &[BlockMeta], start: Height, bytes: u64) -> Height {
    let mut sum = 0;
    let end = chain[start.0 as usize..].iter().position(|block| {
        sum += u64::from(block.bytes);
        sum >= bytes
    });
    let len = end.map_or(chain.len() - start.0 as usize, |last| last + 1);
    Height(start.0 + u32::try_from(len).expect("heights fit 32 bits"))
}

/// Runs the same work on several threads; the first error wins.
pub(crate) fn in_parallel(threads: usize, work: impl Fn() -> BuildResult<()> + Sync) -> BuildResult<()> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        let mut outcome = Ok(());
        for worker in workers {
            let done = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            if outcome.is_ok() || matches!(outcome, Err(crate::Error::Cancelled)) {
                outcome = done.and(outcome);
            }
        }
        outcome
    })
}

/// One bulk run per table, opened when its first row comes.
pub(crate) struct RunSet<'a> {
    store: &'a dyn Store,
    runs: HashMap<&'static str, Box<dyn BulkRun>>,
}

impl<'a> RunSet<'a> {
    fn new(store: &'a dyn Store) -> Self {
        Self { store, runs: HashMap::new() }
    }

    fn push(&mut self, table: Table, key: &[u8], value: &[u8]) -> BuildResult<()> {
        let run = match self.runs.entry(table.name) {
            std::collections::hash_map::Entry::Occupied(run) => run.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => place.insert(self.store.bulk_run(table)?),
        };
        Ok(run.push(key, value)?)
    }

    fn finish(self) -> BuildResult<Vec<SealedRun>> {
        self.runs.into_values().map(|run| Ok(run.finish()?)).collect()
    }
}

/// An error of the file system, with what was tried.
pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> crate::Error {
    let action = format!("{action} {}", path.display());
    move |source| crate::Error::Store(birdhouse_store::Error::Io { action, source })
}
