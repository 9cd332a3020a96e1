//! Updates and ticks in every order, on the index of a real node's chain.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use birdhouse_chain::{BuildOptions, Height, Profile, Secret};
use birdhouse_node::{Auth, BlockFiles, CoreNode, Rpc};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::Options;
use birdhouse_testkit::hooked_store::{Call, Hook, HookedStore};
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use bitcoin::Txid;
use bitcoin::constants::genesis_block;
use tempfile::TempDir;
use tokio::runtime::{self, Runtime};
use tokio::sync::broadcast::Receiver;

use super::*;

const TINY: Size = Size { blocks: 3, block_txs: 2, scripts_per_form: 1, busy: &[] };
/// Blocks beyond which an update settles what is below.
const MANY_BLOCKS: usize = 150;

struct World {
    live: LiveNode,
    core: CoreNode,
    running: Arc<Running>,
    flaw: Arc<Flaw>,
    /// The watched script.
    script: ScriptHash,
    updates: Receiver<Arc<Update>>,
    _folder: TempDir,
}

/// Name of the threads of [`World::follow_index`].
const FOLLOWING: &str = "following";
/// Longest wait for a notice. A watch that failed is tried again after 5 s, and everything after a minute.
const PATIENCE: Duration = Duration::from_secs(40);

/// A flaw of the store that only the task of the watches meets.
#[derive(Default)]
struct Flaw(AtomicU8);

impl Flaw {
    const FAILS: u8 = 1;
    const PANICS: u8 = 2;

    fn set(&self, flaw: u8) {
        self.0.store(flaw, Ordering::Relaxed);
    }
}

impl Hook for Flaw {
    fn before(&self, call: Call) -> birdhouse_store::Result<()> {
        if call != Call::Read || thread::current().name() != Some(FOLLOWING) {
            return Ok(());
        }
        match self.0.load(Ordering::Relaxed) {
            Self::FAILS => Err(birdhouse_store::Error::Corrupt { table: "script".into(), reason: "of a test".into() }),
            Self::PANICS => panic!("a fault of the test"),
            _ => Ok(()),
        }
    }
}

/// A reader of a stream: it goes from the snapshot of one update to that of the next.
struct Follower {
    script: ScriptHash,
    at: Arc<Snapshot>,
    updates: Receiver<Arc<Update>>,
}

fn watched() -> Lock {
    Lock::new(Form::P2wpkh, 880_001)
}

impl World {
    fn start(seed: u64) -> Self {
        let mut world = Self::before_the_mempool(seed);
        world.sync();
        world.running.tell(&Next::Tick).unwrap();
        world.tell_all();
        world
    }

    /// At the node's tip, before its mempool is known.
    fn before_the_mempool(seed: u64) -> Self {
        let live = LiveNode::start(seed, TINY, Options::default()).unwrap();
        let node = live.node();
        let files = Arc::new(BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap());
        let rpc = Rpc::new(&format!("127.0.0.1:{}", node.rpc_port()), Auth::Cookie(node.cookie()));
        let genesis = genesis_block(Network::Regtest).block_hash();
        let flaw = Arc::new(Flaw::default());
        let store = HookedStore::new(Arc::new(MemoryStore::new()), Arc::clone(&flaw));
        let index = Index::open(Arc::new(store), files, genesis, Profile::Full, Secret([7; 16]));
        let (index, core, folder) =
            (Arc::new(index.unwrap()), CoreNode::new(Arc::new(rpc)), tempfile::tempdir().unwrap());
        index.build(None, &BuildOptions::modest(folder.path())).unwrap();
        let script = live.wallet().script_pubkey(watched());
        let file = format!("[[watch]]\nname = \"w\"\nscript = \"{}\"\nconfirmations = [0, 1]", script.to_hex_string());
        let file = WatchFile::parse(&file, Network::Regtest).unwrap();
        let state = State::open(&folder.path().join("watch.redb")).unwrap();
        let running = Running::new(state, file, Arc::clone(&index), Network::Regtest).unwrap();
        running.tell(&Next::Tick).unwrap();
        let updates = index.updates();
        let running = Arc::new(running);
        Self { live, core, running, flaw, script: ScriptHash::of(script.as_bytes()), updates, _folder: folder }
    }

    /// Follows the index on threads of its own for as long as the runtime lives.
    fn follow_index(&self) -> Runtime {
        let mut threads = runtime::Builder::new_multi_thread();
        let runtime = threads.worker_threads(1).thread_name(FOLLOWING).enable_all().build().unwrap();
        runtime.spawn(Arc::clone(&self.running).follow());
        runtime
    }

    fn pay(&mut self, sat: u64) -> Txid {
        self.live.pay(&[Payment::to_lock(watched(), sat)]).unwrap().compute_txid()
    }

    /// Brings the index to the node; its updates are held back.
    fn sync(&self) {
        self.running.index.sync(&self.core).unwrap();
    }

    /// Announces the updates that were held back.
    fn tell_all(&mut self) {
        while let Ok(update) = self.updates.try_recv() {
            self.running.tell(&Next::Tell(update)).unwrap();
        }
    }

    /// Kinds and transactions of all notices.
    fn notices(&self) -> Vec<(NoticeKind, Option<Txid>)> {
        let notices = self.running.state.notices(0, usize::MAX).unwrap();
        notices.into_iter().map(|notice| (notice.kind, notice.txid)).collect()
    }

    fn follow(&self) -> Follower {
        let followed = self.running.followed.lock();
        let at = Arc::clone(followed.at.as_ref().unwrap());
        Follower { script: self.script, at, updates: followed.updates.subscribe() }
    }
}

impl Follower {
    /// Goes to the last update. Returns the transactions that its client is sent: those of the touched scripts in the
    /// blocks that the client did not know, and in the mempool.
    fn changes(&mut self) -> Vec<Txid> {
        let mut changes = Vec::new();
        while let Ok(Update { snapshot, touched }) = self.updates.try_recv().as_deref() {
            assert!(snapshot.tip().height >= self.at.tip().height, "an update is older than the one before it");
            let is_watched = match touched {
                Touched::Any => true,
                Touched::Scripts(scripts) => scripts.contains(&self.script),
            };
            if is_watched {
                let blocks = Height(self.at.tip().height.0 + 1)..Height(u32::MAX);
                changes.extend(snapshot.history_between(&self.script, blocks).unwrap().iter().map(|entry| entry.txid));
                let is_new = |txid: &Txid| self.at.mempool().get(txid).is_none();
                changes.extend(snapshot.mempool().txids_of_script(&self.script).filter(is_new));
            }
            self.at = Arc::clone(snapshot);
        }
        changes
    }
}

fn confirmed(txid: Txid) -> (NoticeKind, Option<Txid>) {
    (NoticeKind::Confirmed { confirmations: 1 }, Some(txid))
}

/// An index that catches up by many blocks installs them first, and announces them later.
#[test]
fn a_tick_loses_nothing_of_an_update_that_is_held_back() {
    let mut world = World::start(951);
    let mut follower = world.follow();
    let paid = world.pay(40_000);
    world.live.mine().unwrap();
    world.live.mine_empty(MANY_BLOCKS).unwrap();
    world.sync();
    world.running.tell(&Next::Tick).unwrap();
    assert_eq!((world.notices(), follower.changes()), (Vec::new(), Vec::new()), "its scripts are not known yet");
    world.tell_all();
    assert_eq!((world.notices(), follower.changes()), (vec![confirmed(paid)], vec![paid]));
}

#[test]
fn a_tick_loses_no_unconfirmed_payment_whose_update_is_held_back() {
    let mut world = World::start(952);
    let mut follower = world.follow();
    let paid = world.pay(40_000);
    world.sync();
    world.running.tell(&Next::Tick).unwrap();
    assert_eq!((world.notices(), follower.changes()), (Vec::new(), Vec::new()));
    world.tell_all();
    assert_eq!((world.notices(), follower.changes()), (vec![(NoticeKind::Seen, Some(paid))], vec![paid]));
}

#[test]
fn a_tick_among_updates_that_wait_announces_nothing_twice_and_goes_never_back() {
    let mut world = World::start(953);
    let mut follower = world.follow();
    let (mut notices, mut paid) = (Vec::new(), Vec::new());
    for sat in [40_000, 50_000, 60_000] {
        paid.push(world.pay(sat));
        world.live.mine().unwrap();
        world.sync();
        notices.push(confirmed(paid[paid.len() - 1]));
    }
    let mut changes = Vec::new();
    while let Ok(update) = world.updates.try_recv() {
        for next in [Next::Tick, Next::Tell(update), Next::Tick] {
            world.running.tell(&next).unwrap();
            changes.extend(follower.changes());
        }
    }
    assert_eq!((world.notices(), changes), (notices, paid));
}

/// No update announces that an empty mempool is known, nor that files were replaced.
#[test]
fn a_tick_takes_a_newer_snapshot_of_the_same_state_alone() {
    let mut world = World::before_the_mempool(954);
    assert!(!world.follow().at.mempool().is_listed());
    world.sync();
    let newest = world.running.index.snapshot().unwrap();
    assert!(newest.mempool().is_listed());
    world.running.tell(&Next::Tick).unwrap();
    assert!(Arc::ptr_eq(&world.follow().at, &newest));
    let paid = world.pay(40_000);
    world.sync();
    world.running.tell(&Next::Tick).unwrap();
    assert!(Arc::ptr_eq(&world.follow().at, &newest), "{paid} is not announced yet");
}

/// Waits until something is so, for as long as patience lasts.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let mut left = PATIENCE;
    while !is_so() {
        left = left.checked_sub(Duration::from_millis(50)).unwrap_or_else(|| panic!("gave up to wait: {what}"));
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_look_that_panics_is_not_the_last_one() {
    let mut world = World::start(956);
    world.flaw.set(Flaw::PANICS);
    let _runtime = world.follow_index();
    wait_until("a panic", || world.running.waiting.lock().is_some());
    let paid = world.pay(40_000);
    world.live.mine().unwrap();
    world.sync();
    world.flaw.set(0);
    wait_until("a notice", || !world.notices().is_empty());
    assert_eq!(world.notices(), [confirmed(paid)]);
    wait_until("an end of the trouble", || world.running.waiting.lock().is_none());
}

/// A private chain may stand still for hours.
#[test]
fn a_watch_that_failed_is_looked_at_again_though_nothing_happens() {
    let mut world = World::start(955);
    let fault = |world: &World| world.running.views.lock().iter().find_map(|view| view.fault.clone());
    world.flaw.set(Flaw::FAILS);
    let _runtime = world.follow_index();
    wait_until("a fault", || fault(&world).is_some_and(|fault| fault.contains("damaged")));
    let paid = world.pay(40_000);
    world.live.mine().unwrap();
    world.sync();
    world.flaw.set(0);
    wait_until("a notice", || !world.notices().is_empty());
    assert_eq!(world.notices(), [confirmed(paid)]);
    // The engine shows the outcome of a look after the notices of it.
    wait_until("an end of the fault", || fault(&world).is_none());
}

/// The index may be busy for a while, and the engine takes the lock after each update.
#[test]
fn nobody_who_begins_at_the_index_holds_the_engine_up() {
    let world = World::start(957);
    let begin = |meanwhile: &dyn Fn()| {
        world.running.begin_to_follow(|| {
            assert!(world.running.followed.try_lock().is_some(), "the engine waits");
            meanwhile();
            Following::of_index(&world.running.index)
        })
    };
    world.running.followed.lock().at = None;
    let newest = world.running.index.snapshot().unwrap();
    assert!(Arc::ptr_eq(&begin(&|| ()).unwrap().at, &newest));
    // The first update comes in between: the reader gets those that come after it from the engine.
    let mut following = begin(&|| drop(world.running.tell(&Next::Tick).unwrap())).unwrap();
    world.running.tell(&Next::Tick).unwrap();
    assert!(following.updates.try_recv().is_ok() && following.updates.is_empty());
}
