//! The cost of the first build as the chain grows: chains of several sizes, written as block files without a node, and
//! an index of each. Bytes on disk are sampled while the index is built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::bench_chain::{self, BlockFilesWriter, Stats};
use birdhouse_testkit::usage::Usage;
use serde_json::Value;

use crate::machine::args::{at_least_one, default_birdhouse};
use crate::machine::folder::{self, disk_bytes, warm};
use crate::report::record::{Cell, Layout, Measured, Record, Table, Unit};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// New folder for the chains and indexes, which are removed one after the other. It takes 450 bytes for each
    /// transaction of the largest chain.
    #[arg(long)]
    work: PathBuf,
    /// Server binary to measure [default: the one beside this program].
    #[arg(long, default_value_os_t = default_birdhouse(), hide_default_value = true)]
    birdhouse: PathBuf,
    /// Transactions of each chain, in millions.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 8, 32], value_parser = at_least_one::<u64>())]
    millions: Vec<u64>,
    /// Generations of a build, about; the default is what mainnet takes with the default of `build-temp-mib`. 1 leaves
    /// that setting at its default.
    #[arg(long, value_delimiter = ',', default_values_t = [12], value_parser = at_least_one::<u64>())]
    generations: Vec<u64>,
    /// Builds of each; the figures are those of the one with the least CPU time.
    #[arg(long, default_value_t = 1, value_parser = at_least_one::<u32>())]
    turns: u32,
    /// Keep no txids.
    #[arg(long)]
    lean: bool,
}

/// Transactions of a block, about; as on mainnet.
const TXS_PER_BLOCK: u64 = 3500;
/// Time between two samples of disk and memory.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
/// Bytes that a build spools for each input and each output.
const RECORD_BYTES: u64 = 32;
const MIB: u64 = 1 << 20;

/// Figures of one build.
struct Figures {
    wall_s: f64,
    cpu_s: f64,
    /// At the end, and the most while it was built.
    index_bytes: u64,
    disk_bytes_max: u64,
    /// The most memory without mapped files, as sampled.
    own_bytes_max: u64,
    generations: u64,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    fs::create_dir(&plan.work).with_context(|| format!("failed to create {}", plan.work.display()))?;
    let mut record = Record::begin("The first build as the chain grows", &plan.work);
    record.servers = vec![Measured::new(&format!("birdhouse {}", plan.profile()), Some(env!("CARGO_PKG_VERSION")), "")];
    let columns = [
        ("generations", Unit::Count),
        ("wall", Unit::Seconds),
        ("CPU", Unit::Seconds),
        ("CPU for a transaction", Unit::Seconds),
        ("index", Unit::Bytes),
        ("bytes for a transaction", Unit::Count),
        ("most disk", Unit::Bytes),
        ("most disk / index", Unit::Times),
        ("most memory", Unit::Bytes),
    ];
    let meaning = "Whole chains from an empty folder; disk and memory (without mapped files) sampled every 50 ms.";
    let mut table = Table::new("Growth", meaning, Layout::OneServer, columns);
    for &millions in &plan.millions {
        eprintln!("growth: a chain of {millions} million transactions ..");
        let chain = plan.work.join("blocks");
        let stats = write_chain(&chain, millions * 1_000_000)?;
        record.note(stats.to_json().to_string());
        warm(&chain)?;
        for &generations in &plan.generations {
            let figures = best(plan, &chain, &stats, generations);
            let txs = stats.txs + stats.blocks;
            table.push_result(format!("{txs} transactions"), &figures, |figures| figures.cells(txs));
        }
        folder::remove(&chain)?;
    }
    record.tables.push(table);
    Ok(record)
}

impl Plan {
    fn profile(&self) -> &'static str {
        if self.lean { "lean" } else { "full" }
    }
}

impl Figures {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn cells(&self, txs: u64) -> [Cell; 9] {
        let (txs, index, disk) = (txs as f64, self.index_bytes as f64, self.disk_bytes_max as f64);
        let numbers = [self.wall_s, self.cpu_s, self.cpu_s / txs, index, index / txs, disk, disk / index];
        let [wall, cpu, cpu_each, index, index_each, disk, ratio] = numbers.map(Cell::number);
        let generations = Cell::count(self.generations);
        [generations, wall, cpu, cpu_each, index, index_each, disk, ratio, Cell::count(self.own_bytes_max)]
    }
}

fn write_chain(folder: &Path, txs: u64) -> Result<Stats> {
    fs::create_dir(folder)?;
    let mut out = BlockFilesWriter::create(folder)?;
    let blocks = u32::try_from(txs / TXS_PER_BLOCK + 200)?;
    let stats = bench_chain::generate(bench_chain::Plan { seed: 1, blocks, txs }, &mut out)?;
    out.finish()?;
    Ok(stats)
}

fn best(plan: &Plan, chain: &Path, stats: &Stats, generations: u64) -> Result<Figures> {
    let mut best: Option<Figures> = None;
    for _ in 0..plan.turns {
        let figures = build(plan, chain, stats, generations)?;
        if best.as_ref().is_none_or(|best| figures.cpu_s < best.cpu_s) {
            best = Some(figures);
        }
    }
    best.context("at least one turn")
}

fn build(plan: &Plan, chain: &Path, stats: &Stats, generations: u64) -> Result<Figures> {
    let folder = plan.work.join("index");
    folder::remove(&folder)?;
    fs::create_dir(&folder)?;
    let (log, report) = (plan.work.join("log"), plan.work.join("report.json"));
    let mut command = Command::new(&plan.birdhouse);
    command.args(["index", "--json", "--network", "regtest", "--profile", plan.profile()]);
    command.arg("--blocks-dir").arg(chain).arg("--data-dir").arg(&folder);
    if generations > 1 {
        // A small chain has generations of less than the usual bound on a reorg.
        let mib = (stats.inputs + stats.outputs) * RECORD_BYTES / generations / MIB;
        command.args(["--build-reorg-blocks=100", &format!("--build-temp-mib={}", mib.max(1))]);
    }
    command.stdin(Stdio::null()).stdout(fs::File::create(&report)?).stderr(fs::File::create(&log)?);
    let mut child = command.spawn().with_context(|| format!("failed to run {}", plan.birdhouse.display()))?;
    let (mut disk_bytes_max, mut own_bytes_max) = (0, 0);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        disk_bytes_max = disk_bytes_max.max(disk_bytes(&folder)?);
        own_bytes_max = own_bytes_max.max(Usage::of(child.id()).map_or(0, |usage| usage.own_bytes));
        std::thread::sleep(SAMPLE_EVERY);
    };
    let log = fs::read_to_string(&log)?;
    ensure!(status.success(), "birdhouse index failed: {log}");
    let report: Value = serde_json::from_slice(&fs::read(&report)?)?;
    let number = |name: &str| report[name].as_f64().with_context(|| format!("the report has no {name}"));
    let figures = Figures {
        wall_s: number("seconds")?,
        cpu_s: number("cpu_seconds")?,
        index_bytes: disk_bytes(&folder)?,
        disk_bytes_max,
        own_bytes_max,
        generations: log.matches("finished a generation").count().max(1) as u64,
    };
    folder::remove(&folder)?;
    Ok(figures)
}
