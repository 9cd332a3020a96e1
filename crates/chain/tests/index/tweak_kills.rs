//! SIGKILL before and after each publish of the index of tweaks, on real files, while it reads a chain and while it
//! follows a reorg: each start goes on, and has the rows of a twin that nobody disturbs.
//!
//! The test starts itself again as the writer, which stops at its first publish and waits to be killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_chain::{DerivedIndex, Height, Profile, Snapshot, TweakDetail, Tweaks};
use birdhouse_store::{MemoryStore, Result, SegmentOptions, SegmentStore, Store};
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::hooked_store::{Call, Hook, HookedStore, Outcome};
use birdhouse_testkit::mix::{self, Size};
use bitcoin::Network;

use crate::common;
use crate::kill::World;

const FOLDER_VARIABLE: &str = "BIRDHOUSE_TWEAK_KILL_FOLDER";
const WRITER: &str = "tweak_kills::backfill_until_killed";
const DETAIL: TweakDetail = TweakDetail::Full;
const PATIENCE: Duration = Duration::from_mins(2);
/// Blocks of the first chain: more than two pieces, which each have a publish.
const BLOCKS: usize = 600;
/// Blocks of it that the second chain lacks, and those that it has instead.
const STALE: u32 = 300;
const INSTEAD: usize = 310;

/// Side of a publish on which the writer stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// The files that tell the writer what to do, and tell of it.
struct Home(PathBuf);

impl Home {
    fn store(&self) -> PathBuf {
        self.0.join("tweaks")
    }

    /// File with the number of the chain.
    fn chain(&self) -> PathBuf {
        self.0.join("chain")
    }

    /// File that is there if the writer stops after a publish.
    fn after(&self) -> PathBuf {
        self.0.join("after")
    }

    /// File that is there once the writer has stopped.
    fn stopped(&self) -> PathBuf {
        self.0.join("stopped")
    }

    fn open(&self) -> Arc<SegmentStore> {
        Arc::new(SegmentStore::open(&self.store(), &[], SegmentOptions::default()).unwrap())
    }
}

impl Hook for Home {
    fn before(&self, call: Call) -> Result<()> {
        self.stop_at(call, Side::Before);
        Ok(())
    }

    fn after(&self, call: Call, _: Outcome) -> Result<()> {
        self.stop_at(call, Side::After);
        Ok(())
    }
}

impl Home {
    fn stop_at(&self, call: Call, side: Side) {
        let wanted = if self.after().exists() { Side::After } else { Side::Before };
        if call == Call::Publish && side == wanted {
            fs::write(self.stopped(), "").unwrap();
            loop {
                std::thread::park();
            }
        }
    }
}

/// The chain of a number, indexed.
fn snapshot(folder: &Path, number: usize) -> Arc<Snapshot> {
    let index = common::built(&World::read(folder).node(number), Profile::Full);
    index.snapshot().unwrap()
}

fn derived(store: Arc<dyn Store>) -> DerivedIndex {
    DerivedIndex::open(store, Tweaks::derived(Network::Regtest, DETAIL), 2).unwrap()
}

#[test]
#[ignore = "the process that is killed"]
fn backfill_until_killed() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let home = Arc::new(Home(PathBuf::from(folder)));
    let number = fs::read_to_string(home.chain()).unwrap().parse().unwrap();
    let at = snapshot(home.0.parent().unwrap(), number);
    let derived = derived(Arc::new(HookedStore::new(home.open(), Arc::clone(&home))));
    while derived.advance(&at).unwrap() {}
}

fn mine(chain: &mut ChainBuilder, blocks: usize) {
    for number in 0..blocks {
        if number % 5 == 0 {
            mix::random_traffic(chain, 3, 30);
        }
        chain.mine_block();
    }
}

/// Runs the writer until it stops and kills it. Returns false if it ended by itself.
fn killed(home: &Home) -> bool {
    let _ = fs::remove_file(home.stopped());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", WRITER]).env(FOLDER_VARIABLE, &home.0);
    let mut writer = command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap();
    let start = Instant::now();
    loop {
        if let Some(status) = writer.try_wait().unwrap() {
            assert!(status.success(), "the writer failed");
            return false;
        }
        if home.stopped().exists() {
            writer.kill().unwrap();
            writer.wait().unwrap();
            return true;
        }
        assert!(start.elapsed() < PATIENCE, "the writer neither stops nor ends");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_backfill_that_is_killed_at_each_publish_has_the_rows_of_its_twin() {
    let folder = tempfile::tempdir().unwrap();
    let mut chain = mix::sample(352, Size::SMALL);
    mine(&mut chain, BLOCKS);
    let first = chain.blocks().to_vec();
    chain.rollback_to(chain.height() - STALE);
    mine(&mut chain, INSTEAD);
    World { chains: vec![first, chain.blocks().to_vec()] }.write(folder.path());
    let home = Home(folder.path().join("home"));
    fs::create_dir(&home.0).unwrap();
    for number in 0..2 {
        fs::write(home.chain(), number.to_string()).unwrap();
        let at = snapshot(folder.path(), number);
        let twin = derived(Arc::new(MemoryStore::new()));
        while twin.advance(&at).unwrap() {}
        let twin = Tweaks::among(&[Arc::new(twin)]).unwrap();
        assert_eq!(twin.len(&at), at.tip().height.0 + 1);
        let mut kills = 0;
        for side in [Side::Before, Side::After].into_iter().cycle() {
            match side {
                Side::Before => _ = fs::remove_file(home.after()),
                Side::After => fs::write(home.after(), "").unwrap(),
            }
            let is_killed = killed(&home);
            let tweaks = Tweaks::among(&[Arc::new(derived(home.open()))]).unwrap();
            let len = tweaks.len(&at);
            let read = |tweaks: &Tweaks| tweaks.read(&at, twin.start()..Height(len)).unwrap().unwrap();
            assert_eq!(read(&tweaks), read(&twin), "chain {number}, {kills} kills, {side:?} a publish");
            if !is_killed {
                assert_eq!(len, twin.len(&at));
                break;
            }
            kills += 1;
        }
        // Of three pieces; of two pieces, and the two of a cut. A kill before a publish comes once more.
        assert!(kills >= 6, "chain {number}: {kills} kills");
        let rows = twin.rows(&at, twin.start()..Height(at.tip().height.0 + 1)).unwrap().unwrap();
        assert!(rows > 100, "chain {number}: {rows} rows");
    }
}
