//! A real node, an index that follows it, watched wallets, and the API.

use std::collections::HashMap;
use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use birdhouse_chain::source::{BlockSource, Node};
use birdhouse_chain::{BuildOptions, DerivedIndex, Index, Profile, ScriptHash, Secret, TweakDetail, Tweaks};
use birdhouse_descriptors::{Named, Steps, parse};
use birdhouse_net::{Connections, Listener, Proxy, Reads, Transport};
use birdhouse_node::{Auth, BlockFiles, CoreNode, Fetching, Rpc};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Payee, Payment};
use birdhouse_testkit::{Bitcoind, Options};
use birdhouse_watch::api::{Api, Branch, BranchScripts, Following, Origin, Settings, Token, Wallets};
use birdhouse_watch::{BeyondGap, Paths, State, WatchName, Watches};
use bitcoin::bip32::{ChildNumber, Xpub};
use bitcoin::constants::genesis_block;
use bitcoin::{Network, ScriptBuf};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::silent_sender::Receiver;
use crate::spscan::descriptor;

const SIZE: Size = Size { blocks: 3, block_txs: 4, scripts_per_form: 4, busy: &[5] };
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const PATIENCE: Duration = Duration::from_mins(1);
/// The account key of BIP 84's test vectors.
const ZPUB: &str =
    "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs";
/// Scripts of a branch that are watched.
const WINDOW: u32 = 60;
/// A script of the node's own wallet, which can spend it.
pub(crate) fn cold() -> Lock {
    Lock::new(Form::P2wpkh, 77)
}

/// Watched wallets with fixed windows: a stand-in for the engine.
pub(crate) struct Fixed {
    index: Arc<Index>,
    branches: Vec<Branch>,
    scripts: HashMap<ScriptHash, Origin>,
}

pub(crate) struct World {
    pub(crate) live: LiveNode,
    pub(crate) server: Served,
}

/// An index and a server; dropping it ends both as a kill would, beside what is durable.
pub(crate) struct Served {
    pub(crate) index: Arc<Index>,
    core: Arc<CoreNode>,
    pub(crate) port: u16,
    agent: ureq::Agent,
    pub(crate) folder: Arc<TempDir>,
    pub(crate) state: State,
    engine: Engine,
    _stop: oneshot::Sender<()>,
    _runtime: Runtime,
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
}

/// A client that listens to a stream.
pub(crate) struct Listening {
    lines: BufReader<TcpStream>,
    pub(crate) status: String,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) data: Value,
}

#[expect(clippy::disallowed_methods, reason = "the clock of the test")]
fn clock() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// The same key with the version of test networks.
fn tpub() -> Xpub {
    let zpub = bitcoin::base58::decode_check(ZPUB).unwrap();
    let bytes = [&[0x04, 0x35, 0x87, 0xcf], &zpub[4..]].concat();
    bitcoin::base58::encode_check(&bytes).parse().unwrap()
}

/// The descriptors of the shop's branches.
fn shop() -> Vec<BranchScripts> {
    let text = format!("wpkh([73c5da0a/84'/0'/0']{}/<0;1>/*)", tpub());
    let Named::Many(branches) = parse(&text, Network::Regtest, &mut Steps::default()).unwrap() else { panic!() };
    branches.into_iter().map(|described| BranchScripts::Descriptor(Box::new(described))).collect()
}

/// The receiver of silent payments that the real engine watches.
pub(crate) fn silent_receiver() -> Receiver {
    Receiver::new(1)
}

/// The watch file with the same wallets, whose engine is the real one, and a receiver of silent payments.
fn watch_file(cold: &ScriptBuf) -> String {
    format!(
        "[[channel]]\nname = \"shop\"\nkind = \"command\"\ncommand = [\"/bin/true\"]\n\
         [[watch]]\nname = \"Shop\"\ndescriptor = \"wpkh([73c5da0a/84'/0'/0']{}/<0;1>/*)\"\nchannels = [\"shop\"]\n\
         invoices = [\"underpaid\", \"paid\", \"expired\", \"confirmed\", \"taken-back\"]\n[[watch]]\n\
         name = \"Cold\"\nscript = \"{}\"\ncold = true\n[[watch]]\nname = \"Silent\"\nsilent-payment = \"{}\"\n",
        tpub(),
        cold.to_hex_string(),
        descriptor(&silent_receiver()),
    )
}

/// The wallets that a server watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// Fixed windows.
    Fixed,
    /// Those of the watch file.
    File,
}

/// Moment of a server's start.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    pub(crate) clock: fn() -> u64,
    /// True if the mempool is listed before the first question.
    pub(crate) is_synced: bool,
    /// True beside a node that removes blocks.
    pub(crate) is_pruned: bool,
}

impl Start {
    pub(crate) const NOW: Self = Self { clock, is_synced: true, is_pruned: false };
}

/// Two hours later.
pub(crate) fn later() -> u64 {
    clock() + 7_200
}

/// The script of the shop's receiving address of a number, derived by `bitcoin` alone.
pub(crate) fn shop_script(branch: u32, index: u32) -> ScriptBuf {
    let path = [branch, index].map(|number| ChildNumber::from_normal_idx(number).unwrap());
    let key = tpub().derive_pub(&bitcoin::secp256k1::Secp256k1::new(), &path).unwrap();
    ScriptBuf::new_p2wpkh(&key.to_pub().wpubkey_hash())
}

pub(crate) fn to_shop(index: u32, sat: u64) -> Payment {
    Payment { to: Payee::Script(shop_script(0, index)), sat }
}

impl Fixed {
    fn new(index: Arc<Index>, cold: &ScriptBuf) -> Self {
        let mut branches = Vec::new();
        for (number, scripts) in (0..).zip(shop()) {
            let watch = WatchName::new("Shop");
            branches.push(Branch { watch, number, scripts, gap: 20, watched: WINDOW, is_full: false, used: None });
        }
        let scripts = BranchScripts::Script(cold.clone());
        branches.push(Branch {
            watch: WatchName::new("Cold"),
            number: 0,
            scripts,
            gap: 20,
            watched: 1,
            is_full: false,
            used: None,
        });
        let mut scripts = HashMap::new();
        for branch in 0..2 {
            for index in 0..WINDOW {
                let origin = Origin { watch: WatchName::new("Shop"), branch, index };
                scripts.insert(ScriptHash::of(shop_script(branch, index).as_bytes()), origin);
            }
        }
        let origin = Origin { watch: WatchName::new("Cold"), branch: 0, index: 0 };
        scripts.insert(ScriptHash::of(cold.as_bytes()), origin);
        Self { index, branches, scripts }
    }
}

impl Wallets for Fixed {
    fn branches(&self) -> Vec<Branch> {
        let mut branches = self.branches.clone();
        let Ok(at) = self.index.snapshot() else { return branches };
        for (script, origin) in &self.scripts {
            if at.first_use(script).unwrap().is_some() {
                let is_of = |branch: &&mut Branch| branch.watch == origin.watch && branch.number == origin.branch;
                let branch = branches.iter_mut().find(is_of).unwrap();
                branch.used = branch.used.max(Some(origin.index));
            }
        }
        branches
    }

    fn origin(&self, scripthash: &ScriptHash) -> Option<Origin> {
        self.scripts.get(scripthash).cloned()
    }

    fn scripthashes(&self) -> Vec<ScriptHash> {
        self.scripts.keys().copied().collect()
    }

    fn follow(&self) -> Option<Following> {
        Following::of_index(&self.index)
    }
}

impl World {
    pub(crate) fn start(seed: u64) -> Self {
        Self::with(seed, BeyondGap::Refuse)
    }

    pub(crate) fn with(seed: u64, beyond_gap: BeyondGap) -> Self {
        Self::of(seed, Engine::Fixed, beyond_gap)
    }

    pub(crate) fn of(seed: u64, engine: Engine, beyond_gap: BeyondGap) -> Self {
        let live = LiveNode::start(seed, SIZE, Options::default()).unwrap();
        let cold = live.wallet().script_pubkey(cold());
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let server = Served::start(live.node(), &cold, folder, engine, beyond_gap, Start::NOW);
        Self { live, server }
    }

    /// Beside a node that removes blocks when [`Self::prune`] asks for it; its peers may have them. Invoices may go
    /// beyond the gap.
    pub(crate) fn pruned(seed: u64) -> Self {
        let options = Options::default().arg("-prune=1").arg("-fastprune");
        let live = LiveNode::start(seed, SIZE, options).unwrap();
        let cold = live.wallet().script_pubkey(cold());
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let start = Start { is_pruned: true, ..Start::NOW };
        let server = Served::start(live.node(), &cold, folder, Engine::Fixed, BeyondGap::Warn, start);
        Self { live, server }
    }

    /// Mines blocks, and removes the first ones of the node. Returns the lowest height that it still has.
    pub(crate) fn prune(&mut self) -> u32 {
        self.live.mine_empty(900).unwrap();
        self.sync();
        let index = &self.server.index;
        index.catch_up_derived(&AtomicBool::new(false)).unwrap();
        let first = self.live.node().prune(self.live.ledger().height() - 300).unwrap();
        index.close_deleted_blocks();
        first
    }

    pub(crate) fn sync(&self) {
        self.server.sync();
    }

    pub(crate) fn tip(&self) -> (u32, String) {
        let ledger = self.live.ledger();
        (ledger.height(), ledger.chain().last().unwrap().hash.to_string())
    }

    /// Ends the server, changes its folder, and starts another one with a new index.
    pub(crate) fn restart(self, change: impl FnOnce(&Path)) -> Self {
        self.restart_at(change, Start::NOW)
    }

    pub(crate) fn restart_at(self, change: impl FnOnce(&Path), start: Start) -> Self {
        let Self { live, server } = self;
        let (folder, engine) = (Arc::clone(&server.folder), server.engine);
        drop(server);
        change(folder.path());
        let cold = live.wallet().script_pubkey(cold());
        let server = Served::start(live.node(), &cold, folder, engine, BeyondGap::Refuse, start);
        Self { live, server }
    }
}

impl Served {
    fn start(
        node: &Bitcoind,
        cold: &ScriptBuf,
        folder: Arc<TempDir>,
        engine: Engine,
        beyond_gap: BeyondGap,
        start: Start,
    ) -> Self {
        let address = format!("127.0.0.1:{}", node.rpc_port());
        let rpc = || Rpc::new(&address, Auth::Cookie(node.cookie()));
        let core = Arc::new(CoreNode::new(Arc::new(rpc())));
        let files = BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap();
        let source: Arc<dyn BlockSource> = if start.is_pruned {
            Arc::new(Fetching::new(Box::new(files), rpc(), &folder.path().join("fetched")))
        } else {
            Arc::new(files)
        };
        let genesis = genesis_block(Network::Regtest).block_hash();
        let store = Arc::new(MemoryStore::new());
        let index = Arc::new(Index::open(store, source, genesis, Profile::Full, Secret([7; 16])).unwrap());
        let temp = tempfile::tempdir().unwrap();
        index.build(None, &BuildOptions::modest(temp.path())).unwrap();
        let tweaks = Tweaks::derived(Network::Regtest, TweakDetail::Scan);
        let tweaks = DerivedIndex::open(Arc::new(MemoryStore::new()), tweaks, 1).unwrap();
        index.set_derived(vec![Arc::new(tweaks)]);
        index.catch_up_derived(&AtomicBool::new(false)).unwrap();
        if start.is_synced {
            index.sync(&*core).unwrap();
        }
        let runtime = Runtime::new().unwrap();
        let paths = Paths { file: folder.path().join("watches.toml"), state: folder.path().join("watch.redb") };
        let (wallets, state): (Arc<dyn Wallets>, State) = match engine {
            Engine::Fixed => (Arc::new(Fixed::new(Arc::clone(&index), cold)), State::open(&paths.state).unwrap()),
            Engine::File => {
                std::fs::write(&paths.file, watch_file(cold)).unwrap();
                std::fs::set_permissions(&paths.file, Permissions::from_mode(0o600)).unwrap();
                let watches = Watches::new(paths, Network::Regtest, Arc::clone(&index), runtime.handle().clone());
                watches.reload().unwrap();
                (Arc::new(watches.clone()), watches.open_state().unwrap())
            }
        };
        let socket = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = socket.local_addr().unwrap().port();
        let settings = Settings {
            network: Network::Regtest,
            token: Token::new(TOKEN).unwrap(),
            connections: Connections::default(),
            reads: Arc::new(Reads::default()),
            beyond_gap,
            clock: start.clock,
        };
        let node = Some(Arc::clone(&core) as Arc<dyn Node>);
        let api = Api::new(Arc::clone(&index), node, wallets, state.clone(), settings).unwrap();
        let listener = Listener { name: "watch-api".into(), transport: Transport::Tcp, proxy: Proxy::Off, limits: () };
        let (stop, stopped) = oneshot::channel::<()>();
        runtime.spawn(api.serve(vec![(socket, listener)], Duration::ZERO, async { drop(stopped.await) }));
        let agent =
            ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None).build().new_agent();
        Self { index, core, port, agent, folder, state, engine, _stop: stop, _runtime: runtime }
    }

    pub(crate) fn sync(&self) {
        self.index.sync(&*self.core).unwrap();
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn get(&self, path: &str) -> Got {
        self.get_with(path, &[("Authorization", &format!("Bearer {TOKEN}"))])
    }

    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Got {
        let mut request = self.agent.get(self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Got::of(request.call().unwrap())
    }

    /// Asks until the answer is as expected.
    pub(crate) fn wait_for(&self, path: &str, expected: impl Fn(&Got) -> bool) -> Got {
        let began = Instant::now();
        loop {
            let got = self.get(path);
            if expected(&got) {
                return got;
            }
            assert!(began.elapsed() < PATIENCE, "{path}: {got:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let got = self.get(path);
        assert_eq!(got.status, 200, "{path}: {}", got.text);
        serde_json::from_str(&got.text).unwrap()
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Got {
        self.post_with(path, body, &[])
    }

    pub(crate) fn post_with(&self, path: &str, body: &str, headers: &[(&str, &str)]) -> Got {
        let mut request = self.agent.post(self.url(path)).header("Authorization", format!("Bearer {TOKEN}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Got::of(request.send(body).unwrap())
    }

    pub(crate) fn listen(&self, path: &str, last: Option<&str>) -> Listening {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        write!(socket, "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n{last}\r\n").unwrap();
        let mut lines = BufReader::new(socket);
        let mut status = String::new();
        lines.read_line(&mut status).unwrap();
        let mut listening = Listening { lines, status: status.trim_end().into() };
        while listening.line() != "" {}
        listening
    }
}

impl Listening {
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).unwrap() > 0, "the stream has ended");
        line.trim_end().to_owned()
    }

    /// Waits until the server has begun.
    pub(crate) fn begun(mut self) -> Self {
        while self.line() != ": begun" {}
        self
    }

    /// The text of a refusal: the line after its head.
    pub(crate) fn refusal(&mut self) -> String {
        self.line()
    }

    /// The next event. Lines of chunks and comments are no fields of events.
    pub(crate) fn next(&mut self) -> Event {
        let mut id = String::new();
        loop {
            match self.line().split_once(':') {
                Some(("id", value)) => value.clone_into(&mut id),
                None => id.clear(),
                Some(("data", data)) => return Event { id, data: serde_json::from_str(data).unwrap() },
                _ => {}
            }
        }
    }

    /// The next position, of an event or alone.
    pub(crate) fn position(&mut self) -> String {
        loop {
            if let Some(position) = self.line().strip_prefix("id:") {
                return position.to_owned();
            }
        }
    }

    /// All events up to the next one of this category, which is the last of them.
    pub(crate) fn until(&mut self, category: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.next().data;
            let is_last = event["category"] == json!(category);
            events.push(event);
            if is_last {
                return events;
            }
        }
    }
}

impl Got {
    fn of(mut response: ureq::http::Response<ureq::Body>) -> Self {
        let header = |(name, value): (&ureq::http::HeaderName, &ureq::http::HeaderValue)| {
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        let headers = response.headers().iter().map(header).collect();
        let text = response.body_mut().read_to_string().unwrap();
        Self { status: response.status().as_u16(), headers, text }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

/// An event as BWT writes it.
#[expect(clippy::needless_pass_by_value, reason = "a literal")]
pub(crate) fn event(category: &str, params: Value) -> Value {
    json!({ "category": category, "params": params })
}
