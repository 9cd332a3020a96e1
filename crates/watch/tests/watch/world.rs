//! A node, an index of its chain, and an engine that follows it.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use birdhouse_chain::{BuildOptions, DerivedIndex, Index, Profile, Secret, TweakDetail, Tweaks, Update};
use birdhouse_node::{Auth, BlockFiles, CoreNode, Rpc};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::{Bitcoind, Options};
use birdhouse_watch::{Engine, Notice, State, WatchFile};
use bitcoin::Network;
use bitcoin::constants::genesis_block;
use tempfile::TempDir;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

const TINY: Size = Size { blocks: 3, block_txs: 2, scripts_per_form: 1, busy: &[] };

pub(crate) struct World {
    pub(crate) live: LiveNode,
    pub(crate) index: Arc<Index>,
    core: CoreNode,
    updates: Receiver<Arc<Update>>,
    folder: TempDir,
    opened: u32,
    pub(crate) file: String,
    pub(crate) engine: Option<Engine>,
    /// The clock of notices.
    pub(crate) now: u64,
}

/// An index of a node's chain, built.
pub(crate) fn index_of(node: &Bitcoind) -> (Arc<Index>, CoreNode) {
    let address = format!("127.0.0.1:{}", node.rpc_port());
    let core = CoreNode::new(Arc::new(Rpc::new(&address, Auth::Cookie(node.cookie()))));
    let files = Arc::new(BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap());
    let genesis = genesis_block(Network::Regtest).block_hash();
    let index = Index::open(Arc::new(MemoryStore::new()), files, genesis, Profile::Full, Secret([7; 16])).unwrap();
    let temp = tempfile::tempdir().unwrap();
    index.build(None, &BuildOptions::modest(temp.path())).unwrap();
    (Arc::new(index), core)
}

impl World {
    pub(crate) fn start(seed: u64) -> Self {
        let live = LiveNode::start(seed, TINY, Options::default()).unwrap();
        let (index, core) = index_of(live.node());
        let updates = index.updates();
        let folder = tempfile::tempdir().unwrap();
        index.sync(&core).unwrap();
        let file = String::new();
        Self { live, index, core, updates, folder, opened: 0, file, engine: None, now: 1_700_000_000 }
    }

    /// Keeps an index of silent payments.
    pub(crate) fn with_tweaks(self) -> Self {
        let derived = Tweaks::derived(Network::Regtest, TweakDetail::Scan);
        let derived = DerivedIndex::open(Arc::new(MemoryStore::new()), derived, 1).unwrap();
        self.index.set_derived(vec![Arc::new(derived)]);
        self.index.catch_up_derived(&std::sync::atomic::AtomicBool::new(false)).unwrap();
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
        self.engine.as_mut().unwrap().look(&snapshot, self.now).unwrap()
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
                Ok(update) => announced.extend(self.engine.as_mut().unwrap().update(&update, self.now).unwrap()),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Lagged(_)) => announced.extend(self.look()),
                Err(TryRecvError::Closed) => unreachable!("the index lives"),
            }
        }
        announced
    }

    /// Notices of the log as they are on the disk.
    pub(crate) fn log(&mut self) -> Vec<Notice> {
        self.engine = None;
        State::open(&self.state()).unwrap().notices(0, usize::MAX).unwrap()
    }
}

/// A notice in short.
pub(crate) fn short(notice: &Notice) -> String {
    let kind = serde_json::to_value(&notice.kind).unwrap();
    let mut kind: Vec<String> = kind.as_object().unwrap().iter().map(|(_, value)| value.to_string()).collect();
    kind.sort();
    let txid = notice.txid.map(|txid| txid.to_string()[..8].to_owned()).unwrap_or_default();
    let height = notice.block.map(|block| format!("@{}", block.height.0)).unwrap_or_default();
    let (received, spent) = (notice.amounts.received, notice.amounts.spent);
    format!("{} {} {txid}{height} +{received} -{spent}", notice.watch, kind.join(" ").replace('"', ""))
}

pub(crate) fn shorts(notices: &[Notice]) -> Vec<String> {
    notices.iter().map(short).collect()
}
