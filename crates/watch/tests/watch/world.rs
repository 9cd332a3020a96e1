//! A node, an index of its chain, and an engine that follows it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use birdhouse_chain::source::BlockSource;
use birdhouse_chain::{BuildOptions, DerivedIndex, Index, Profile, Secret, Touched, TweakDetail, Tweaks, Update};
use birdhouse_node::{Auth, BlockFiles, CoreNode, Fetching, Rpc};
use birdhouse_store::{MemoryStore, Store};
use birdhouse_testkit::hooked_store::HookedStore;
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::{Bitcoind, Options};
use birdhouse_watch::{Engine, Notice, State, WatchFile};
use bitcoin::Network;
use bitcoin::constants::genesis_block;
use tempfile::TempDir;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use crate::flawed::{Flaw, FlawedBlocks, FlawedReads};
use crate::naive::short;

const TINY: Size = Size { blocks: 3, block_txs: 2, scripts_per_form: 1, busy: &[] };

pub(crate) struct World {
    pub(crate) live: LiveNode,
    pub(crate) index: Arc<Index>,
    store: Arc<dyn Store>,
    /// The blocks of the index.
    pub(crate) blocks: Arc<FlawedBlocks>,
    reads: Arc<FlawedReads>,
    /// The reads of the index that fail while the engine looks.
    pub(crate) flaw: Flaw,
    core: CoreNode,
    updates: Receiver<Arc<Update>>,
    folder: TempDir,
    opened: u32,
    pub(crate) file: String,
    pub(crate) engine: Option<Engine>,
    /// The clock of notices.
    pub(crate) now: u64,
}

fn rpc(node: &Bitcoind) -> Rpc {
    Rpc::new(&format!("127.0.0.1:{}", node.rpc_port()), Auth::Cookie(node.cookie()))
}

fn open(store: &Arc<dyn Store>, blocks: &Arc<FlawedBlocks>) -> Arc<Index> {
    let genesis = genesis_block(Network::Regtest).block_hash();
    let blocks = Arc::<FlawedBlocks>::clone(blocks);
    let index = Index::open(Arc::clone(store), blocks, genesis, Profile::Full, Secret([7; 16]));
    Arc::new(index.unwrap())
}

impl World {
    pub(crate) fn start(seed: u64) -> Self {
        let live = LiveNode::start(seed, TINY, Options::default()).unwrap();
        let files = Arc::new(BlockFiles::open(&live.node().blocks_dir(), Network::Regtest).unwrap());
        Self::of(live, files, tempfile::tempdir().unwrap())
    }

    /// Beside a node that removes blocks when [`Self::prune`] asks for it; its peers may have them.
    pub(crate) fn pruned(seed: u64) -> Self {
        let options = Options::default().arg("-prune=1").arg("-fastprune");
        let (live, folder) = (LiveNode::start(seed, TINY, options).unwrap(), tempfile::tempdir().unwrap());
        let files = BlockFiles::open(&live.node().blocks_dir(), Network::Regtest).unwrap();
        let fetching = Fetching::new(Box::new(files), rpc(live.node()), &folder.path().join("fetched"));
        Self::of(live, Arc::new(fetching), folder)
    }

    fn of(live: LiveNode, source: Arc<dyn BlockSource>, folder: TempDir) -> Self {
        let (blocks, reads) = (Arc::new(FlawedBlocks::of(source)), Arc::new(FlawedReads::new(7)));
        let store: Arc<dyn Store> = Arc::new(HookedStore::new(Arc::new(MemoryStore::new()), Arc::clone(&reads)));
        let core = CoreNode::new(Arc::new(rpc(live.node())));
        let index = open(&store, &blocks);
        let temp = tempfile::tempdir().unwrap();
        index.build(None, &BuildOptions::modest(temp.path())).unwrap();
        let updates = index.updates();
        index.sync(&core).unwrap();
        let (file, engine, now) = (String::new(), None, 1_700_000_000);
        Self {
            live,
            index,
            store,
            blocks,
            reads,
            flaw: Flaw::None,
            core,
            updates,
            folder,
            opened: 0,
            file,
            engine,
            now,
        }
    }

    /// Opens the index as another process does: what it knew of the mempool is gone.
    pub(crate) fn reopen(&mut self) {
        self.engine = None;
        self.index = open(&self.store, &self.blocks);
    }

    /// Mines blocks, and removes the first ones of the node. Returns the lowest height that it still has.
    pub(crate) fn prune(&mut self) -> u32 {
        self.live.mine_empty(900).unwrap();
        self.index.sync(&self.core).unwrap();
        self.index.catch_up_derived(&AtomicBool::new(false)).unwrap();
        let first = self.live.node().prune(self.live.ledger().height() - 300).unwrap();
        self.index.close_deleted_blocks();
        first
    }

    /// Keeps an index of silent payments.
    pub(crate) fn with_tweaks(self) -> Self {
        self.with_tweaks_in(Arc::new(MemoryStore::new()))
    }

    /// Keeps an index of silent payments in a store.
    pub(crate) fn with_tweaks_in(self, store: Arc<dyn Store>) -> Self {
        let derived = Tweaks::derived(Network::Regtest, TweakDetail::Scan);
        let derived = DerivedIndex::open(store, derived, 1).unwrap();
        self.index.set_derived(vec![Arc::new(derived)]);
        self.index.catch_up_derived(&AtomicBool::new(false)).unwrap();
        self
    }

    /// Adds a watch, which the engine has from its next start on.
    pub(crate) fn watch(&mut self, name: &str, rest: &str) {
        writeln!(self.file, "[[watch]]\nname = \"{name}\"\n{rest}").unwrap();
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join(format!("watch-{}.redb", self.opened))
    }

    /// Starts the engine as after `kill -9`: on a copy of the file as it is on the disk. It looks once.
    pub(crate) fn restart(&mut self) -> Vec<Notice> {
        let before = self.state();
        self.opened += 1;
        if before.exists() {
            fs::copy(&before, self.state()).unwrap();
        }
        self.engine = None;
        let _ = fs::remove_file(before);
        let file = WatchFile::parse(&self.file, Network::Regtest).unwrap();
        let state = State::open(&self.state()).unwrap();
        let tweaks = Tweaks::among(self.index.derived());
        self.engine = Some(Engine::new(state, file, Network::Regtest, tweaks).dropped_after(0));
        self.updates = self.index.updates();
        self.look()
    }

    pub(crate) fn look(&mut self) -> Vec<Notice> {
        let snapshot = self.index.snapshot().unwrap();
        self.announce(&Update { snapshot, touched: Touched::Any })
    }

    fn announce(&mut self, update: &Update) -> Vec<Notice> {
        self.reads.fail(self.flaw);
        let announced = self.engine.as_mut().unwrap().update(update, self.now);
        self.flaw = self.reads.fail(Flaw::None);
        announced.unwrap()
    }

    pub(crate) fn core(&self) -> &CoreNode {
        &self.core
    }

    /// Brings the index to the node, and tells its updates.
    pub(crate) fn sync(&mut self) -> Vec<Notice> {
        self.index.sync(&self.core).unwrap();
        let mut announced = Vec::new();
        loop {
            match self.updates.try_recv() {
                Ok(update) => announced.extend(self.announce(&update)),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Lagged(_)) => announced.extend(self.look()),
                Err(TryRecvError::Closed) => unreachable!("the index lives"),
            }
        }
        announced
    }

    /// Brings the index to the node, and tells its updates as one.
    pub(crate) fn sync_at_once(&mut self) -> Vec<Notice> {
        self.index.sync(&self.core).unwrap();
        let mut touched = BTreeSet::new();
        loop {
            match self.updates.try_recv().as_deref() {
                Ok(Update { touched: Touched::Scripts(scripts), .. }) => touched.extend(scripts.iter().copied()),
                Err(TryRecvError::Empty) => break,
                Ok(_) | Err(_) => return self.look(),
            }
        }
        let touched = Touched::Scripts(touched.into_iter().collect());
        self.announce(&Update { snapshot: self.index.snapshot().unwrap(), touched })
    }

    /// Names and faults of the watches that have one.
    pub(crate) fn faults(&self) -> BTreeMap<String, String> {
        let views = self.engine.as_ref().unwrap().watches().into_iter();
        views.filter_map(|view| Some((view.name.to_string(), view.fault?))).collect()
    }

    /// Notices of the log as they are on the disk.
    pub(crate) fn log(&mut self) -> Vec<Notice> {
        self.engine = None;
        State::open(&self.state()).unwrap().notices(0, usize::MAX).unwrap()
    }
}

pub(crate) fn shorts(notices: &[Notice]) -> Vec<String> {
    notices.iter().map(short).collect()
}
