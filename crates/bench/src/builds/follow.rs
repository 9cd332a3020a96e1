//! An index that has followed half of a chain block by block, beside one that was built with the whole of it.
//!
//! The chain is a folder of block files without a node (`make-chain --blocks-dir`). The rows of both indexes are
//! compared with the blocks, and answers of both with each other.

use std::collections::BTreeSet;
use std::fs;
use std::ops::AddAssign;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_chain::source::{
    BlockId, BlockMeta, BlockSource, ChainView, MempoolSize, MempoolTxids, Node, NodeUpdate, Ranking, SourceError,
    SourceErrorKind, SourceResult,
};
use birdhouse_chain::{BuildOptions, Height, Index, MergeOptions, Profile, ScriptHash, Secret, Snapshot, TABLES};
use birdhouse_node::BlockFiles;
use birdhouse_store::{SegmentOptions, SegmentStore, Store};
use birdhouse_testkit::usage::own_cpu;
use bitcoin::constants::genesis_block;
use bitcoin::{Block, BlockHash, Network, Txid, consensus};

use crate::machine::args::at_least_one;
use crate::report::record::{Cell, Layout, Measured, Record, Table, Unit};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Folder of a regtest chain's block files.
    #[arg(long)]
    blocks_dir: PathBuf,
    /// New folder for the two indexes.
    #[arg(long)]
    work: PathBuf,
    /// Percentage of the blocks that the second index is built with.
    #[arg(long, default_value_t = 50)]
    built: u32,
    /// Blocks that the node finds at once: 1 for a node at the tip, more for one that was off.
    #[arg(long, default_value_t = 1, value_parser = at_least_one::<u32>())]
    step: u32,
    /// Keep no txids.
    #[arg(long)]
    lean: bool,
    /// Scripts of each sample whose answers are compared and timed.
    #[arg(long, default_value_t = 20_000)]
    scripts: usize,
}

/// Memory of a build.
const MEMORY_BYTES: u64 = 2 << 30;
/// Turns of the timing of answers. An odd number has a median.
const TURNS: usize = 31;

/// CPU time, wall time and written bytes of a part of this process's life.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    cpu: Duration,
    wall: Duration,
    written: u64,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, more: Self) {
        self.cpu += more.cpu;
        self.wall += more.wall;
        self.written += more.written;
    }
}

struct Stopwatch {
    cpu: Duration,
    began: Instant,
    written: u64,
}

impl Stopwatch {
    fn start() -> Result<Self> {
        Ok(Self { cpu: own_cpu(), began: Instant::now(), written: written_bytes()? })
    }

    fn stop(&self) -> Result<Cost> {
        Ok(Cost {
            cpu: own_cpu().saturating_sub(self.cpu),
            wall: self.began.elapsed(),
            written: written_bytes()? - self.written,
        })
    }
}

/// Bytes that this process passed to the page cache to be written.
fn written_bytes() -> Result<u64> {
    let io = fs::read_to_string("/proc/self/io").context("failed to read /proc/self/io")?;
    let bytes = io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok());
    bytes.context("failed to read /proc/self/io: it has no line wchar")
}

/// A node over a folder of block files, at a height that is set.
struct Replay {
    chain: Vec<BlockMeta>,
    tip: AtomicU32,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    fs::create_dir(&plan.work).with_context(|| format!("failed to create {}", plan.work.display()))?;
    let mut record = Record::begin("Following beside building", &plan.work);
    record.servers = vec![Measured::new("birdhouse", Some(env!("CARGO_PKG_VERSION")), "")];
    let source = Arc::new(BlockFiles::open(&plan.blocks_dir, Network::Regtest)?);
    let chain = source.chain(None)?;
    let blocks = u32::try_from(chain.len()).context("a chain has fewer than 2^32 blocks")?;
    let built = (u64::from(blocks) * u64::from(plan.built.min(100)) / 100).max(1);
    let built = u32::try_from(built).expect("at most the number of blocks");
    let txs = |blocks: &[BlockMeta]| blocks.iter().map(|block| u64::from(block.tx_count)).sum::<u64>();
    let followed_txs = txs(&chain[built as usize..]);
    let samples = [
        ("any script", any_scripts(&*source, &chain, plan.scripts)?),
        ("a script of any output", scripts_of_outputs(&*source, &chain, plan.scripts)?),
    ];

    let (fresh, fresh_cost) = build(plan, &source, "fresh", None)?;
    let (followed, built_cost) = build(plan, &source, "followed", Some(chain[built as usize - 1].hash))?;
    let node = Replay { chain, tip: AtomicU32::new(built - 1) };
    let (appended, merged, merges) = follow(&followed, &node, built, plan.step)?;

    let mut costs = Table::new(
        "Cost",
        format!("{blocks} blocks with {} transactions, of which {followed_txs} are followed.", txs(&node.chain)),
        Layout::OneServer,
        [("CPU", Unit::Seconds), ("wall", Unit::Seconds), ("written", Unit::Bytes), ("CPU a block", Unit::Seconds)],
    );
    let cells = |cost: Cost, blocks: u32| {
        let each = cost.cpu.as_secs_f64() / f64::from(blocks.max(1));
        let (cpu, wall) = (cost.cpu.as_secs_f64(), cost.wall.as_secs_f64());
        [Cell::number(cpu), Cell::number(wall), Cell::count(cost.written), Cell::number(each)]
    };
    costs.push("built at once", cells(fresh_cost, blocks));
    costs.push("the first part built", cells(built_cost, built));
    costs.push("the rest appended", cells(appended, blocks - built));
    costs.push(format!("{merges} merges at the tip"), cells(merged, blocks - built));
    record.tables.push(costs);
    record.tables.push(sizes(plan)?);

    let snapshots = [fresh.snapshot()?, followed.snapshot()?];
    for (name, snapshot) in ["built", "followed"].iter().zip(&snapshots) {
        let report = snapshot.verify(Height(0)..Height(u32::MAX), &options(plan, name))?;
        ensure!(report.differences == 0, "the {name} index differs from the blocks: {:?}", report.described);
        record.note(format!("{name}: {} scripts verified against the blocks, no difference.", report.scripts));
    }
    for (_, scripts) in &samples {
        compare(&snapshots, scripts)?;
        record.note(format!("{} scripts have the same history, balance and unspent outputs in both.", scripts.len()));
    }
    record.tables.push(times(&snapshots, &samples)?);
    Ok(record)
}

fn options(plan: &Plan, name: &str) -> BuildOptions {
    BuildOptions {
        temp_dir: plan.work.join(format!("{name}-temp")),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: MEMORY_BYTES,
        temp_bytes: u64::MAX,
        early_percent: BuildOptions::EARLY_PERCENT,
        reorg_blocks: BuildOptions::REORG_BLOCKS,
    }
}

fn build(plan: &Plan, source: &Arc<BlockFiles>, name: &str, tip: Option<BlockHash>) -> Result<(Index, Cost)> {
    let store = SegmentStore::open(&plan.work.join(name), &TABLES, SegmentOptions::default())?;
    let (store, source) = (Arc::new(store) as Arc<dyn Store>, Arc::clone(source) as Arc<dyn BlockSource>);
    let genesis = genesis_block(Network::Regtest).block_hash();
    let profile = if plan.lean { Profile::Lean } else { Profile::Full };
    let index = Index::open_with(store, source, genesis, profile, Secret([7; 16]), MergeOptions::default())?;
    let stopwatch = Stopwatch::start()?;
    index.build(tip, &options(plan, name))?;
    Ok((index, stopwatch.stop()?))
}

/// Follows the node from `built` blocks to its last. Returns the cost of appending blocks, that of merges at the tip,
/// which a server makes while it serves the new tip, and their number.
fn follow(index: &Index, node: &Replay, built: u32, step: u32) -> Result<(Cost, Cost, u32)> {
    let (mut appended, mut merged) = (Cost::default(), Cost::default());
    let last = u32::try_from(node.chain.len()).expect("as above") - 1;
    let (mut tip, mut merges) = (built - 1, 0);
    while tip < last {
        tip = last.min(tip + step);
        node.tip.store(tip, Ordering::Relaxed);
        let stopwatch = Stopwatch::start()?;
        index.sync(node)?;
        appended += stopwatch.stop()?;
        let stopwatch = Stopwatch::start()?;
        merges += index.merge()?;
        merged += stopwatch.stop()?;
    }
    Ok((appended, merged, merges))
}

/// Scripts of the chain, each with the same chance: those with the lowest hashes.
fn any_scripts(source: &dyn BlockSource, chain: &[BlockMeta], count: usize) -> Result<Vec<ScriptHash>> {
    let mut lowest = BTreeSet::new();
    for meta in chain.iter().skip(1) {
        let block: Block = consensus::deserialize(&source.block(meta.hash)?.block)?;
        for output in block.txdata.iter().flat_map(|tx| &tx.output) {
            lowest.insert(ScriptHash::of(output.script_pubkey.as_bytes()));
            if lowest.len() > count {
                lowest.pop_last();
            }
        }
    }
    Ok(lowest.into_iter().collect())
}

/// The scripts of outputs all over the chain; a script with many outputs is there with a higher chance.
fn scripts_of_outputs(source: &dyn BlockSource, chain: &[BlockMeta], count: usize) -> Result<Vec<ScriptHash>> {
    let mut scripts = Vec::new();
    let step = (chain.len() / 200).max(1);
    let each = count / (chain.len() / step).max(1) + 1;
    for meta in chain.iter().skip(1).step_by(step) {
        let block: Block = consensus::deserialize(&source.block(meta.hash)?.block)?;
        let every = (block.txdata.len() / each).max(1);
        let outputs = block.txdata.iter().step_by(every).filter_map(|tx| tx.output.first());
        scripts.extend(outputs.map(|output| ScriptHash::of(output.script_pubkey.as_bytes())));
    }
    scripts.sort_unstable();
    scripts.dedup();
    scripts.truncate(count);
    Ok(scripts)
}

fn sizes(plan: &Plan) -> Result<Table> {
    let meaning = "Bytes of all files of an index.".to_owned();
    let mut table = Table::new("Size", meaning, Layout::OneServer, [("size", Unit::Bytes)]);
    for name in ["fresh", "followed"] {
        table.push(name, [Cell::count(crate::machine::folder::disk_bytes(&plan.work.join(name))?)]);
    }
    Ok(table)
}

fn compare([fresh, followed]: &[Arc<Snapshot>; 2], scripts: &[ScriptHash]) -> Result<()> {
    for script in scripts {
        let same = fresh.history(script)? == followed.history(script)?
            && fresh.balance(script)? == followed.balance(script)?
            && fresh.unspent(script)? == followed.unspent(script)?;
        ensure!(same, "answers differ for script hash {script}");
    }
    Ok(())
}

type Ask = fn(&Snapshot, &ScriptHash) -> Result<()>;

/// CPU time of each kind of answer, by turns.
fn times(snapshots: &[Arc<Snapshot>; 2], samples: &[(&str, Vec<ScriptHash>)]) -> Result<Table> {
    let kinds: [(&str, Ask); 3] = [
        ("balance", |at, script| at.balance(script).map(drop).map_err(Into::into)),
        ("history", |at, script| at.history(script).map(drop).map_err(Into::into)),
        ("unspent", |at, script| at.unspent(script).map(drop).map_err(Into::into)),
    ];
    let meaning = format!("CPU time of one answer, and the ratio of both in one turn: medians of {TURNS} turns.");
    let columns = [("built", Unit::Seconds), ("followed", Unit::Seconds), ("ratio", Unit::Times)];
    let mut table = Table::new("Answers", meaning, Layout::OneServer, columns);
    for (of, scripts) in samples {
        for (name, ask) in kinds {
            table.push(format!("{name} of {of}"), time_of_one(snapshots, scripts, ask)?.map(Cell::number));
        }
    }
    Ok(table)
}

/// The seconds of one answer in each snapshot, and the ratio of the second to the first.
fn time_of_one(snapshots: &[Arc<Snapshot>; 2], scripts: &[ScriptHash], ask: Ask) -> Result<[f64; 3]> {
    let count = f64::from(u32::try_from(scripts.len()).unwrap_or(u32::MAX));
    let time = |snapshot: &Snapshot| -> Result<f64> {
        let before = own_cpu();
        scripts.iter().try_for_each(|script| ask(snapshot, script))?;
        Ok(own_cpu().saturating_sub(before).as_secs_f64() / count)
    };
    let mut turns = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        let [fresh, followed] = [time(&snapshots[0])?, time(&snapshots[1])?];
        for (turns, number) in turns.iter_mut().zip([fresh, followed, followed / fresh]) {
            turns.push(number);
        }
    }
    Ok(turns.map(|mut turns| {
        turns.sort_unstable_by(f64::total_cmp);
        turns[TURNS / 2]
    }))
}

/// Calls that following does not make are refused.
impl Node for Replay {
    fn best_block(&self) -> SourceResult<BlockId> {
        let height = self.tip.load(Ordering::Relaxed);
        Ok(BlockId { height: Height(height), hash: self.chain[height as usize].hash })
    }

    fn chain_view(&self, _: BlockHash, _: BlockHash) -> SourceResult<ChainView> {
        let message = "failed to compare the chains: the replayed one has no fork".to_owned();
        Err(SourceError { message, kind: SourceErrorKind::Permanent })
    }

    fn missing_blocks(&self, _: Height) -> SourceResult<Option<String>> {
        Ok(None)
    }

    fn block_hashes(&self, heights: std::ops::Range<Height>) -> SourceResult<Vec<BlockHash>> {
        let end = (heights.end.0).min(self.tip.load(Ordering::Relaxed) + 1);
        let start = heights.start.0.min(end);
        Ok(self.chain[start as usize..end as usize].iter().map(|block| block.hash).collect())
    }

    fn wait_for_update(&self, _: BlockHash, _: Duration) -> SourceResult<NodeUpdate> {
        Ok(NodeUpdate::Unknown)
    }

    fn mempool_size(&self) -> SourceResult<Option<MempoolSize>> {
        Ok(Some(MempoolSize { ranking: Ranking::Chunks, transactions: 0, fees: 0 }))
    }

    fn mempool_txids(&self) -> SourceResult<MempoolTxids> {
        Ok(MempoolTxids { txids: Vec::new(), sequence: 0 })
    }

    fn mempool_transactions(&self, txids: &[Txid]) -> SourceResult<Vec<Option<Vec<u8>>>> {
        Ok(vec![None; txids.len()])
    }
}
