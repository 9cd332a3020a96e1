//! The scheduler: one virtual clock, one list of steps, one thread.
//!
//! The real follower runs on this thread. Each of its calls of the node, the clock and the store is a turn of the
//! simulation: time passes, steps are taken, merges run, readers ask. So a step can happen between any two calls.

mod looks;
mod steps;
mod turns;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use birdhouse_chain::{BuildOptions, Height, Index, Secret, Snapshot, Update};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::hooked_store::HookedStore;
use birdhouse_testkit::rng::Rng;
use bitcoin::constants::genesis_block;
use bitcoin::{Network, Txid};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::broadcast::Receiver;

use crate::interface::SimRuntime;
use crate::node_state::{Form, NodeState, Zmq};
use crate::plan::Plan;
use crate::tasks::Tasks;
use crate::template::template;
use crate::tree::BlockNumber;
use crate::watch::Watch;
use crate::world::World;

/// A time in which no step is taken.
#[derive(Debug, Clone, Copy)]
enum Pause {
    /// Until index and node agree.
    Calm { since: Duration },
    /// While the node stays behind; `tip` is that of the index.
    Behind { since: Duration, tip: Option<BlockNumber> },
    /// While transactions come; index and node agreed last at `agreed`.
    Traffic { until: Duration, agreed: Duration, next: Duration },
}

/// The end of one life of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    PowerCut,
    Kill,
    Close,
}

/// State beside the world.
struct State {
    calls: u64,
    next_step: usize,
    /// Time of the next step; `None` in a pause.
    next_at: Option<Duration>,
    pause: Option<Pause>,
    /// Random numbers of turns.
    rng: Rng,
    trace: Vec<String>,
    failure: Option<String>,
    is_done: bool,
    /// The end that the next failing write brings, or the next look.
    dying: Option<End>,
    is_dead: bool,
    disk_heals_at: Option<Duration>,
    reads_heal_at: Option<Duration>,
    held: Vec<(u64, Arc<Snapshot>)>,
    /// Transactions that clients want to be shown.
    admit: Vec<Txid>,
    lives: u64,
}

/// One run.
pub(crate) struct Sim {
    plan: Plan,
    /// Steps that are left out.
    skipped: BTreeSet<usize>,
    world: Mutex<World>,
    state: Mutex<State>,
    watch: Mutex<Watch>,
    pub(crate) tasks: Tasks,
    pub(crate) stop: AtomicBool,
    /// True while the simulation itself uses the index.
    is_busy: AtomicBool,
    index: Mutex<Option<Arc<Index>>>,
    updates: Mutex<Option<Receiver<Arc<Update>>>>,
    store: Mutex<MemoryStore>,
    /// Folder of temporary files.
    temp: TempDir,
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sim").field("seed", &self.plan.seed).finish_non_exhaustive()
    }
}

/// A failed run: the first difference, and the steps before it.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) trace: Vec<String>,
    /// Steps taken.
    pub(crate) steps: usize,
}

/// Counts of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) calls: u64,
    pub(crate) lives: u64,
    pub(crate) updates: u64,
    pub(crate) checks: u64,
    /// Packs that were appended by way of records on disk.
    pub(crate) spooled: u64,
}

// === a run ===

impl Sim {
    pub(crate) fn new(plan: Plan, skipped: BTreeSet<usize>) -> Arc<Self> {
        let start = template(plan.template);
        let zmq = plan.has_zmq.then(|| Zmq { missed: true, ..Zmq::default() });
        let mut node = NodeState::new(start.form, &start.tree, start.tip, zmq);
        node.has_txindex = plan.has_txindex;
        let mut miner = start.miner.clone();
        miner.reseed(plan.seed);
        let world = World::new(Arc::clone(&start.tree), miner, node, start.floor);
        let state = State {
            calls: 0,
            next_step: 0,
            next_at: Some(Duration::ZERO),
            pause: None,
            rng: Rng::new(plan.seed ^ 0x7475_726e),
            trace: Vec::new(),
            failure: None,
            is_done: false,
            dying: None,
            is_dead: false,
            disk_heals_at: None,
            reads_heal_at: None,
            held: Vec::new(),
            admit: Vec::new(),
            lives: 0,
        };
        Arc::new(Self {
            skipped,
            world: Mutex::new(world),
            state: Mutex::new(state),
            watch: Mutex::new(Watch::new(plan.depth_max)),
            tasks: Tasks::default(),
            stop: AtomicBool::new(false),
            is_busy: AtomicBool::new(false),
            index: Mutex::new(None),
            updates: Mutex::new(None),
            store: Mutex::new(start.store.reopen()),
            temp: tempfile::tempdir().expect("a temporary folder"),
            plan,
        })
    }

    /// Lives until the last step, through power cuts and restarts.
    pub(crate) fn run(self: &Arc<Self>) -> Result<Counts, Failure> {
        while !self.is_over() {
            self.live();
        }
        let mut state = self.state.lock();
        state.held.clear();
        let counts = self.watch.lock().counts;
        match state.failure.take() {
            None => Ok(Counts { calls: state.calls, lives: state.lives, ..counts }),
            Some(message) => Err(Failure { message, trace: std::mem::take(&mut state.trace), steps: state.next_step }),
        }
    }

    /// The failure of a run that panicked.
    pub(crate) fn panicked(&self, message: &str) -> Failure {
        let mut state = self.state.lock();
        let message = state.failure.take().unwrap_or_else(|| format!("panic: {message}"));
        Failure { message, trace: std::mem::take(&mut state.trace), steps: state.next_step }
    }

    /// Lets go of the index, which holds the simulation.
    pub(crate) fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.state.lock().held.clear();
        *self.updates.lock() = None;
        let index = self.index.lock().take();
        drop(index);
        self.tasks.clear();
    }

    fn is_over(&self) -> bool {
        let state = self.state.lock();
        state.is_done || state.failure.is_some()
    }

    /// One life of the index: opens it, follows the node until something ends that, and does to the store what ended
    /// it.
    fn live(self: &Arc<Self>) {
        self.stop.store(false, Ordering::Relaxed);
        self.state.lock().lives += 1;
        match self.open() {
            Ok(index) => {
                let index = Arc::new(index);
                *self.updates.lock() = Some(index.updates());
                *self.index.lock() = Some(Arc::clone(&index));
                match index.snapshot() {
                    Ok(snapshot) => self.note_opened(&snapshot),
                    Err(error) => self.fail(format!("an index that was ready is not: {error}")),
                }
                if let Err(error) = index.follow(&**self, &self.stop) {
                    self.fail(format!("the follower ended: {error}"));
                }
                self.drain_updates();
                self.watch.lock().counts.spooled += index.spool_counts().published;
                *self.index.lock() = None;
                *self.updates.lock() = None;
                self.state.lock().held.clear();
                drop(index);
            }
            Err(error) if self.state.lock().is_dead => drop(error),
            Err(error) => self.fail(format!("failed to open the index: {error}")),
        }
        self.tasks.clear();
        self.die();
    }

    fn open(self: &Arc<Self>) -> birdhouse_chain::Result<Index> {
        let start = template(self.plan.template);
        let store = HookedStore::new(Arc::new(self.store.lock().clone()), Arc::clone(self));
        let genesis = genesis_block(Network::Regtest).block_hash();
        let (runtime, secret) = (Arc::new(SimRuntime(Arc::clone(self))), Secret([7; 16]));
        let (store, source) = (Arc::new(store), Arc::clone(self) as _);
        let index = Index::open_on(runtime, store, source, genesis, start.profile, secret, self.plan.merging)?;
        // It is built: this sets the bounds of temporary files alone.
        index.build(None, &BuildOptions { threads: 1, ..BuildOptions::modest(self.temp.path()) })?;
        index.set_reorg_depth_max(self.plan.depth_max);
        let overwritten = start.tree.overwritten.iter().map(|block| start.tree.block(*block));
        let overwritten = overwritten.map(|block| (Height(block.height), block.hash));
        index.set_overwritten_coinbases(overwritten.collect());
        Ok(index)
    }

    /// True if the node's files are read.
    pub(crate) fn gives_undo(&self) -> bool {
        template(self.plan.template).form == Form::Files
    }

    /// Leaves the store as the end of this life leaves it.
    fn die(&self) {
        let mut state = self.state.lock();
        let end = state.dying.take().unwrap_or(End::Close);
        let seed = state.rng.next_u64();
        let mut store = self.store.lock();
        let left = if end == End::PowerCut { store.crash(seed) } else { store.reopen() };
        // The next life may end as soon.
        if end != End::Close && !state.is_done && state.rng.per_mille(150) {
            left.fail_after(state.rng.below(6));
            state.dying = Some(end);
        }
        (state.is_dead, state.disk_heals_at, state.reads_heal_at) = (false, None, None);
        *store = left;
    }

    fn note_opened(&self, snapshot: &Snapshot) {
        let world = self.world.lock();
        if let Err(difference) = self.watch.lock().opened(&world, snapshot) {
            drop(world);
            self.fail(difference);
        }
    }

    pub(crate) fn fail(&self, message: String) {
        let mut state = self.state.lock();
        state.failure.get_or_insert(message);
        self.stop.store(true, Ordering::Relaxed);
    }
}
