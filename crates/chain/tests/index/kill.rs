//! SIGKILL at random moments of the first build, of following and of merges, on real files: after each kill every
//! answer is that of a fresh index.
//!
//! The test starts itself again as the writer. Each kill follows, after a random time, as soon as the process is seen
//! to have written more bytes; two of three wait for it to follow or to merge, which takes less time than the build.
//! `BIRDHOUSE_ROUNDS` sets the number of kills.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use birdhouse_chain::{BuildOptions, Index, MergeOptions, Profile, Secret, TABLES};
use birdhouse_store::{SegmentOptions, SegmentStore};
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::rng::{Rng, rounds};
use bitcoin::consensus::{Decodable as _, serialize};
use bitcoin::constants::genesis_block;
use bitcoin::{Block, BlockHash, Network};

use crate::answers::Answers;
use crate::common::{MemoryNode, built, options};
use crate::power_cut::move_on;

const FOLDER_VARIABLE: &str = "BIRDHOUSE_INDEX_KILL_FOLDER";
const WRITER: &str = "kill::write_until_killed";
/// Chains that the node has one after the other; the first is built, the others are followed.
const CHAINS: usize = 16;
const SIZE: Size = Size { blocks: 20, block_txs: 8, scripts_per_form: 10, busy: &[10, 100] };
const PATIENCE: Duration = Duration::from_mins(2);

/// Phases of the writer that kills wait for.
const FOLLOWING: &str = "following";
const MERGING: &str = "merging";

/// Folder of one index, of the chains that its node has, and of the writer's progress.
struct Home(PathBuf);

impl Home {
    fn index(&self) -> PathBuf {
        self.0.join("index")
    }

    fn temp(&self) -> PathBuf {
        self.0.join("build")
    }

    /// File with the number of the chain that the writer follows.
    fn step(&self) -> PathBuf {
        self.0.join("step")
    }

    fn phase(&self) -> PathBuf {
        self.0.join("phase")
    }

    fn profile(&self) -> Profile {
        if self.0.join("lean").exists() { Profile::Lean } else { Profile::Full }
    }

    fn create(folder: PathBuf, profile: Profile) -> Self {
        fs::create_dir(&folder).unwrap();
        if profile == Profile::Lean {
            File::create(folder.join("lean")).unwrap();
        }
        Self(folder)
    }

    /// Opens the index with small tables and deltas, so that every part of the engine works all the time.
    fn open(&self, node: &Arc<MemoryNode>) -> Index {
        let sizes = SegmentOptions { memtable_bytes: 16 << 10, segment_bytes: 16 << 10, ..SegmentOptions::default() };
        let store = Arc::new(SegmentStore::open(&self.index(), &TABLES, sizes).unwrap());
        let genesis = genesis_block(Network::Regtest).block_hash();
        let merging =
            MergeOptions { tip_blocks: 4, delta_txs: 20, bulk_blocks: 6, oldest_multiple: 16, ..MergeOptions::DEFAULT };
        Index::open_with(store, Arc::clone(node) as _, genesis, self.profile(), Secret([7; 16]), merging).unwrap()
    }
}

/// The chains that a node has one after the other.
pub(crate) struct World {
    pub(crate) chains: Vec<Vec<Block>>,
}

impl World {
    fn of(seed: u64) -> Self {
        let (mut rng, mut chain) = (Rng::new(seed), mix::sample(seed, SIZE));
        let mut chains = vec![chain.blocks().to_vec()];
        while chains.len() < CHAINS {
            move_on(&mut chain, &mut rng);
            chains.push(chain.blocks().to_vec());
        }
        Self { chains }
    }

    /// Writes each block once, and each chain as the list of its hashes. A writer would take a second to make them.
    pub(crate) fn write(&self, folder: &Path) {
        let unique: BTreeMap<BlockHash, &Block> =
            self.chains.iter().flatten().map(|block| (block.block_hash(), block)).collect();
        fs::write(folder.join("blocks"), unique.into_values().flat_map(serialize).collect::<Vec<u8>>()).unwrap();
        let line = |chain: &Vec<Block>| {
            let hashes: Vec<String> = chain.iter().map(|block| block.block_hash().to_string()).collect();
            hashes.join(" ")
        };
        let lines: Vec<String> = self.chains.iter().map(line).collect();
        fs::write(folder.join("chains"), lines.join("\n")).unwrap();
    }

    pub(crate) fn read(folder: &Path) -> Self {
        let bytes = fs::read(folder.join("blocks")).unwrap();
        let (mut rest, mut blocks) = (bytes.as_slice(), BTreeMap::new());
        while !rest.is_empty() {
            let block = Block::consensus_decode(&mut rest).unwrap();
            blocks.insert(block.block_hash(), block);
        }
        let lines = fs::read_to_string(folder.join("chains")).unwrap();
        let chain = |line: &str| {
            line.split_whitespace().map(|hash| blocks[&hash.parse::<BlockHash>().unwrap()].clone()).collect()
        };
        Self { chains: lines.lines().map(chain).collect() }
    }

    /// A node that knows the blocks of all chains, and has the chain with this number.
    pub(crate) fn node(&self, number: usize) -> Arc<MemoryNode> {
        let node = Arc::new(MemoryNode::default());
        self.chains.iter().chain([&self.chains[number]]).for_each(|chain| node.follow(chain));
        node
    }
}

#[test]
#[ignore = "the process that is killed"]
fn write_until_killed() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let home = Home(PathBuf::from(folder));
    let world = World::read(home.0.parent().unwrap());
    let step = fs::read_to_string(home.step()).ok().and_then(|step| step.parse().ok()).unwrap_or(0);
    let node = world.node(step);
    let enter = |phase: &str| fs::write(home.phase(), phase).unwrap();
    enter("opening");
    let index = home.open(&node);
    enter("building");
    // Several generations, though the chain is short.
    let build = BuildOptions { temp_bytes: 96 << 10, reorg_blocks: 20, early_percent: 100, ..options(&home.temp()) };
    index.build(None, &build).unwrap();
    for (step, chain) in world.chains.iter().enumerate().skip(step) {
        fs::write(home.step(), step.to_string()).unwrap();
        node.follow(chain);
        enter(FOLLOWING);
        index.sync(&*node).unwrap();
        enter(MERGING);
        index.merge().unwrap();
    }
    enter("the end");
}

#[test]
fn an_index_that_is_killed_while_it_writes_answers_as_a_fresh_one() {
    kill(rounds(8));
}

#[test]
#[ignore = "long: as many kills as BIRDHOUSE_ROUNDS says"]
fn an_index_that_is_killed_a_thousand_times_answers_as_a_fresh_one() {
    kill(rounds(1000));
}

fn kill(rounds: Range<u64>) {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(0x6b69_6c6c + rounds.start);
    let kills = rounds.end - rounds.start;
    let world = World::of(17);
    world.write(folder.path());
    let mut fresh = BTreeMap::new();
    let mut histogram: BTreeMap<String, u64> = BTreeMap::new();
    let (mut counted, mut homes) = (0, 0);
    let mut new_home = |profile| {
        homes += 1;
        Home::create(folder.path().join(format!("{homes}")), profile)
    };
    // The time of a run that nobody kills bounds the moment of a kill.
    let (mut usual, mut was_killed) = (PATIENCE, false);
    let mut home = new_home(Profile::Lean);
    while counted < kills {
        let mut writer = spawn(&home);
        wait_for_phase(&home, &mut writer);
        let start = Instant::now();
        let delay = Duration::from_micros(rng.below(u64::try_from(usual.as_micros()).unwrap()));
        let aim = *rng.pick(&[None, Some(FOLLOWING), Some(MERGING)]);
        let is_aim = || aim.is_none_or(|aim| fs::read_to_string(home.phase()).is_ok_and(|phase| phase == aim));
        if let Some(status) = kill_after(&mut writer, delay, is_aim) {
            assert!(status.success(), "the writer failed after {counted} kills");
            if !was_killed {
                usual = start.elapsed();
            }
            was_killed = false;
            let profile = *rng.pick(&[Profile::Full, Profile::Lean]);
            fs::remove_dir_all(&home.0).unwrap();
            home = new_home(profile);
            continue;
        }
        counted += 1;
        *histogram.entry(place(&home)).or_default() += 1;
        was_killed = true;
        prove(&home, &world, &mut fresh, &format!("after {counted} kills"));
    }
    println!("{counted} kills over {homes} indexes");
    for (place, kills) in &histogram {
        println!("{kills:>6} kills: {place}");
    }
    let phases = |phase: &str| histogram.keys().any(|place| place.starts_with(phase));
    assert!(kills < 500 || ["building", FOLLOWING, MERGING].into_iter().all(phases), "{histogram:?}");
}

fn spawn(home: &Home) -> Child {
    // Left by the writer before; `place` has read it.
    let _ = fs::remove_file(home.phase());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", WRITER, "--nocapture"]).env(FOLDER_VARIABLE, &home.0);
    command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap()
}

/// Waits until the writer has read its chains and begins to work.
fn wait_for_phase(home: &Home, writer: &mut Child) {
    let start = Instant::now();
    while !home.phase().exists() && writer.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < PATIENCE, "the writer does not begin");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills a process at its first write after `delay` while `is_aim`. Returns its status if it ends by itself before.
fn kill_after(writer: &mut Child, delay: Duration, is_aim: impl Fn() -> bool) -> Option<ExitStatus> {
    let (start, mut written) = (Instant::now(), u64::MAX);
    loop {
        if let Some(status) = writer.try_wait().unwrap() {
            return Some(status);
        }
        assert!(start.elapsed() < PATIENCE, "the writer does not end");
        let before = std::mem::replace(&mut written, written_bytes(writer.id()));
        if start.elapsed() < delay {
            // A random moment of the writer's work, not a wait for a condition.
            std::thread::sleep(Duration::from_millis(1));
        } else if written > before && is_aim() {
            writer.kill().unwrap();
            writer.wait().unwrap();
            return None;
        }
    }
}

/// Bytes that a process has passed to the system to be written.
fn written_bytes(process: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap_or(0)
}

/// The phase of the writer, and the kind of file that changed last.
fn place(home: &Home) -> String {
    let phase = fs::read_to_string(home.phase()).unwrap_or_default();
    let folders = ["build", "index", "index/arrays", "index/bulk", "index/log", "index/segments"];
    let newest = folders.iter().filter_map(|folder| newest_file(&home.0.join(folder), folder)).max();
    let kind = newest.map_or_else(|| "no file".to_owned(), |(_, kind)| kind);
    format!("{phase}: {kind}")
}

fn newest_file(folder: &Path, kind: &str) -> Option<(SystemTime, String)> {
    let files = fs::read_dir(folder).ok()?.flatten().filter(|entry| entry.path().is_file());
    let newest = files.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.file_name()))).max()?;
    // Names of temporary files begin with their kind, those of other files are numbers or names of tables.
    let name = newest.1.to_string_lossy().into_owned();
    let detail =
        if kind == "build" || kind == "index" { name.split(['-', '.']).next().unwrap_or_default() } else { "" };
    Some((newest.0, format!("{kind}/{detail}")))
}

/// Opens the index and compares all answers with those of one that is built up to its tip.
fn prove(home: &Home, world: &World, fresh: &mut BTreeMap<BlockHash, Answers>, context: &str) {
    let node = world.node(0);
    let index = home.open(&node);
    let Ok(snapshot) = index.snapshot() else { return };
    let tip = snapshot.tip();
    let fresh = fresh.entry(tip.hash).or_insert_with(|| {
        let chain = world.chains.iter().find_map(|chain| {
            let blocks = chain.get(..=tip.height.0 as usize)?;
            (blocks.last()?.block_hash() == tip.hash).then_some(blocks)
        });
        let at_tip = world.node(0);
        at_tip.follow(chain.expect("the tip is a block of a chain"));
        Answers::of(&built(&at_tip, Profile::Full).snapshot().unwrap(), &node.scripts())
    });
    Answers::of(&snapshot, &node.scripts()).assert_equal(fresh, context);
}
