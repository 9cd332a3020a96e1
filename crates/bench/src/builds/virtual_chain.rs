//! The first build of a chain of any size that needs no disk, and answers of its index beside those of the chain.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use birdhouse_chain::source::BlockSource;
use birdhouse_chain::{BuildOptions, BuildReport, Index, MergeOptions, Profile, ScriptHash, Secret, Snapshot, TABLES};
use birdhouse_store::{SegmentOptions, SegmentStore, Store};
use birdhouse_testkit::usage::{Usage, own_cpu};
use bitcoin::Network;
use bitcoin::constants::genesis_block;

use crate::machine::args::at_least_one;
use crate::machine::folder::{self, disk_bytes, forget};
use crate::report::record::{Cell, Layout as TableLayout, Measured, Record, Table, Unit};
use crate::virtual_node::{Answer, Layout, Sample, VirtualNode};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// New folder for the index, which is removed at the end. It takes up to 120 bytes for each transaction.
    #[arg(long)]
    work: PathBuf,
    /// Transactions of the chain, about. Mainnet has 1 300 000 000.
    #[arg(long, value_parser = at_least_one::<u64>())]
    transactions: u64,
    /// Profile of the index.
    #[arg(long, value_enum, default_value_t = ProfileName::Full)]
    profile: ProfileName,
    /// Scripts whose answers are compared, about.
    #[arg(long, value_name = "SCRIPTS", default_value_t = 10_000)]
    check: usize,
    /// Number that the chain depends on.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// `build-memory-mib`.
    #[arg(long, default_value_t = 1024, value_parser = at_least_one::<u64>())]
    memory_mib: u64,
    /// `build-temp-mib`; 0 takes so much that the build has about as many generations as mainnet's with the default of
    /// that setting.
    #[arg(long, default_value_t = 0)]
    temp_mib: u64,
}

/// Profiles by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ProfileName {
    Full,
    Lean,
}

const MIB: u64 = 1 << 20;
/// The default of `build-temp-mib`, and the transactions of mainnet.
const TEMP_BYTES: u64 = 16_384 * MIB;
const MAINNET_TXS: u64 = 1_300_000_000;
/// Time between two samples of disk and memory.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// Figures of a build.
struct Built {
    report: BuildReport,
    wall: Duration,
    /// CPU time of the process, and of making blocks in it.
    cpu: Duration,
    chain_cpu: Duration,
    peaks: Peaks,
    index_bytes: u64,
}

/// The most disk and memory while something ran, as sampled.
#[derive(Debug, Clone, Copy, Default)]
struct Peaks {
    disk: u64,
    /// Without mapped files.
    own: u64,
    resident: u64,
}

/// Figures of opening an index.
struct Opened {
    index: Index,
    wall: Duration,
    cpu: Duration,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    fs::create_dir(&plan.work).with_context(|| format!("failed to create {}", plan.work.display()))?;
    let mut record = Record::begin("A made-up chain of any size", &plan.work);
    let profile = format!("birdhouse {}", plan.profile.name());
    record.servers = vec![Measured::new(&profile, Some(env!("CARGO_PKG_VERSION")), "")];
    eprintln!("virtual: headers of a chain of {} transactions ..", plan.transactions);
    let before = own_cpu();
    let node = Arc::new(VirtualNode::make(Layout::new(plan.seed, plan.transactions), threads()));
    let headers_cpu = own_cpu().saturating_sub(before);
    let txs = node.layout().txs();
    record.note(format!(
        "{txs} transactions in {} blocks of {} bytes. Their headers took {:.1} s of CPU time before the build.",
        node.layout().blocks(),
        node.bytes(),
        headers_cpu.as_secs_f64(),
    ));
    eprintln!("virtual: building ..");
    let built = build(plan, &node)?;
    record.tables.push(built.table(txs));
    record.tables.push(by_table(plan, &built)?);
    // A process that starts finds nothing in the file cache.
    forget(&plan.work)?;
    let Opened { index, wall, cpu } = open_again(plan, &node)?;
    let snapshot = index.snapshot()?;
    let mut opening = Table::new(
        "Opening the index again",
        "Until it answers, with none of it in the file cache; memory afterwards, and after all answers below.",
        TableLayout::OneServer,
        [("wall", Unit::Seconds), ("CPU", Unit::Seconds), ("memory", Unit::Bytes), ("memory in the end", Unit::Bytes)],
    );
    let memory = Usage::of(std::process::id())?.own_bytes;
    eprintln!("virtual: answers ..");
    let answers = Answers::measure(&node, &snapshot, &node.samples(plan.check, plan.seed))?;
    let memory_after = Usage::of(std::process::id())?.own_bytes;
    let seconds = [wall, cpu].map(|time| Cell::number(time.as_secs_f64()));
    opening.push(plan.profile.name(), seconds.into_iter().chain([memory, memory_after].map(Cell::count)));
    record.tables.push(opening);
    record.note(answers.summary());
    record.tables.push(answers.table);
    drop(index);
    folder::remove(&plan.work)?;
    Ok(record)
}

impl ProfileName {
    fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Lean => "lean",
        }
    }

    fn profile(self) -> Profile {
        match self {
            Self::Full => Profile::Full,
            Self::Lean => Profile::Lean,
        }
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn open(plan: &Plan, node: &Arc<VirtualNode>) -> Result<Index> {
    let store = SegmentStore::open(&plan.work.join("index"), &TABLES, SegmentOptions::default())?;
    let (store, source) = (Arc::new(store) as Arc<dyn Store>, Arc::clone(node) as Arc<dyn BlockSource>);
    let genesis = genesis_block(Network::Bitcoin).block_hash();
    let profile = plan.profile.profile();
    Ok(Index::open_with(store, source, genesis, profile, Secret([7; 16]), MergeOptions::default())?)
}

fn build(plan: &Plan, node: &Arc<VirtualNode>) -> Result<Built> {
    let txs = node.layout().txs();
    let in_proportion = (u128::from(TEMP_BYTES) * u128::from(txs) / u128::from(MAINNET_TXS)).max(u128::from(MIB));
    let options = BuildOptions {
        temp_dir: plan.work.join("temp"),
        threads: threads(),
        memory_bytes: plan.memory_mib * MIB,
        temp_bytes: if plan.temp_mib > 0 { plan.temp_mib * MIB } else { u64::try_from(in_proportion)? },
        early_percent: BuildOptions::EARLY_PERCENT,
        // A small chain has generations of less than the usual bound on a reorg.
        reorg_blocks: BuildOptions::REORG_BLOCKS.min(u32::try_from(node.layout().blocks() / 100)?),
    };
    let index = open(plan, node)?;
    let (before, chain_before, began) = (own_cpu(), node.making_cpu(), Instant::now());
    let (report, peaks) = sampled(&plan.work, || index.build(None, &options))?;
    let (cpu, chain_cpu) = (own_cpu().saturating_sub(before), node.making_cpu().saturating_sub(chain_before));
    let (wall, report) = (began.elapsed(), report?.context("the folder has an index already")?);
    drop(index);
    let index_bytes = disk_bytes(&plan.work)?;
    Ok(Built { report, wall, cpu, chain_cpu, peaks, index_bytes })
}

/// Runs `work` and samples disk and memory meanwhile.
fn sampled<T>(folder: &Path, work: impl FnOnce() -> T) -> Result<(T, Peaks)> {
    Usage::reset_memory_peak(std::process::id())?;
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut peaks = Peaks::default();
            while !is_done.load(Ordering::Relaxed) {
                peaks.disk = peaks.disk.max(disk_bytes(folder)?);
                let usage = Usage::of(std::process::id())?;
                peaks.own = peaks.own.max(usage.own_bytes);
                peaks.resident = usage.resident_bytes_max;
                std::thread::sleep(SAMPLE_EVERY);
            }
            Ok::<_, anyhow::Error>(peaks)
        });
        let done = work();
        is_done.store(true, Ordering::Relaxed);
        let peaks = sampler.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        peaks.map(|peaks| (done, peaks))
    })
}

impl Built {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn table(&self, txs: u64) -> Table {
        let columns = [
            ("scripts", Unit::Count),
            ("wall", Unit::Seconds),
            ("CPU with the chain's", Unit::Seconds),
            ("the chain's", Unit::Seconds),
            ("CPU for a transaction", Unit::Seconds),
            ("index", Unit::Bytes),
            ("bytes for a transaction", Unit::Count),
            ("most disk", Unit::Bytes),
            ("most disk / index", Unit::Times),
            ("most memory", Unit::Bytes),
            ("with mapped files", Unit::Bytes),
        ];
        let meaning = "From an empty folder. The CPU time for a transaction is without that of making the blocks, \
                       measured thread by thread. Disk and memory (without mapped files) sampled every 100 ms.";
        let mut table = Table::new("Build", meaning, TableLayout::OneServer, columns);
        let (index, disk) = (self.index_bytes as f64, self.peaks.disk as f64);
        let (cpu, chain_cpu) = (self.cpu.as_secs_f64(), self.chain_cpu.as_secs_f64());
        let cells = [
            Cell::count(self.report.scripts),
            Cell::number(self.wall.as_secs_f64()),
            Cell::number(cpu),
            Cell::number(chain_cpu),
            Cell::number((cpu - chain_cpu) / txs as f64),
            Cell::number(index),
            Cell::number(index / txs as f64),
            Cell::number(disk),
            Cell::number(disk / index),
            Cell::count(self.peaks.own),
            Cell::count(self.peaks.resident),
        ];
        table.push(format!("{txs} transactions"), cells);
        table
    }
}

/// The bytes of files by the first part of their names: tables and arrays.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn by_table(plan: &Plan, built: &Built) -> Result<Table> {
    let columns = [("bytes", Unit::Bytes), ("for a script", Unit::Count), ("for a transaction", Unit::Count)];
    let mut table = Table::new("Tables", "Bytes of their files.", TableLayout::OneServer, columns);
    let store = SegmentStore::open(&plan.work.join("index"), &TABLES, SegmentOptions::default())?;
    for (name, bytes) in store.sizes()?.into_iter().filter(|(_, bytes)| *bytes > 0) {
        let bytes = bytes as f64;
        let cells = [bytes, bytes / built.report.scripts as f64, bytes / built.report.txs as f64];
        table.push(format!("`{name}`"), cells.map(Cell::number));
    }
    Ok(table)
}

/// Opens the index until it has answered.
fn open_again(plan: &Plan, node: &Arc<VirtualNode>) -> Result<Opened> {
    let (before, began) = (own_cpu(), Instant::now());
    let index = open(plan, node)?;
    index.snapshot()?.history(&ScriptHash([0; 32]))?;
    Ok(Opened { index, wall: began.elapsed(), cpu: own_cpu().saturating_sub(before) })
}

/// Answers of an index beside those of the chain.
struct Answers {
    table: Table,
    scripts: usize,
    differences: usize,
}

/// An answer of an index and its cost.
struct Asked {
    answer: Answer,
    wall: Duration,
    cpu: Duration,
}

/// Sums over the scripts of a sample, asked once.
#[derive(Default)]
struct Pass {
    wall: Duration,
    cpu: Duration,
    differences: usize,
}

impl Answers {
    fn measure(node: &VirtualNode, snapshot: &Snapshot, samples: &[Sample]) -> Result<Self> {
        let columns = [
            ("scripts", Unit::Count),
            ("transactions of one", Unit::Count),
            ("first time", Unit::Seconds),
            ("CPU", Unit::Seconds),
            ("second time", Unit::Seconds),
            ("CPU again", Unit::Seconds),
            ("differences", Unit::Count),
        ];
        let meaning = "History, balance and unspent outputs of one script, on average. What a lean index reads from \
                       blocks includes the time to make them.";
        let mut table = Table::new("Answers", meaning, TableLayout::OneServer, columns);
        let (mut scripts, mut differences) = (0, 0);
        for sample in samples.iter().filter(|sample| !sample.scripts.is_empty()) {
            let (mut first, mut second, mut txs) = (Pass::default(), Pass::default(), 0);
            for script in &sample.scripts {
                let hash = node.scripthash(*script);
                let asked = [ask(snapshot, &hash)?, ask(snapshot, &hash)?];
                let expected = node.answer(*script);
                txs += expected.history.len();
                for (pass, asked) in [&mut first, &mut second].into_iter().zip(asked) {
                    pass.add(&asked, &expected);
                }
            }
            let count = sample.scripts.len();
            let each = |sum: f64| Cell::number(sum / f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
            let both = first.differences + second.differences;
            table.push(
                &sample.name,
                [
                    Cell::count(count as u64),
                    each(f64::from(u32::try_from(txs).unwrap_or(u32::MAX))),
                    each(first.wall.as_secs_f64()),
                    each(first.cpu.as_secs_f64()),
                    each(second.wall.as_secs_f64()),
                    each(second.cpu.as_secs_f64()),
                    if both == 0 { Cell::count(0) } else { Cell::failed(&anyhow::anyhow!("{both} differences")) },
                ],
            );
            scripts += count;
            differences += both;
        }
        Ok(Self { table, scripts, differences })
    }

    fn summary(&self) -> String {
        let Self { scripts, differences, .. } = self;
        format!(
            "{scripts} scripts were asked for twice: history, balance and unspent outputs; {differences} differences."
        )
    }
}

impl Pass {
    fn add(&mut self, asked: &Asked, expected: &Answer) {
        self.wall += asked.wall;
        self.cpu += asked.cpu;
        self.differences += usize::from(asked.answer != *expected);
    }
}

fn ask(snapshot: &Snapshot, script: &ScriptHash) -> Result<Asked> {
    let (before, began) = (own_cpu(), Instant::now());
    let answer = Answer::of(snapshot, script)?;
    Ok(Asked { answer, wall: began.elapsed(), cpu: own_cpu().saturating_sub(before) })
}
