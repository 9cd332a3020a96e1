//! A real node whose chain and mempool change, an index that follows it, and a server of the REST API. The explorer's
//! tests serve its pages from here, too.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_chain::source::Node;
use birdhouse_chain::{BuildOptions, DerivedIndex, FilterHeaders, Index, Profile, Secret, TweakDetail, Tweaks};
use birdhouse_esplora::{History, Limits, Listener, Server, Settings, Sockets};
use birdhouse_net::{Proxy, Transport};
use birdhouse_node::{Auth, BlockFiles, CoreNode, Rpc};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{Bitcoind, Options};
use bitcoin::constants::genesis_block;
use bitcoin::{Network, Transaction};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// One script has rows of its own in the index.
const SIZE: Size = Size { blocks: 10, block_txs: 6, scripts_per_form: 8, busy: &[10, 300] };
/// Enough for questions about HTTP.
pub(crate) const SMALL: Size = Size { blocks: 3, block_txs: 4, scripts_per_form: 4, busy: &[5] };
const GRACE: Duration = Duration::from_secs(3);

/// A node, an index of its chain, and a server. Ends with the test.
pub(crate) struct World {
    pub(crate) live: LiveNode,
    pub(crate) rest: Rest,
}

/// An index of a node's chain, and a server of it.
pub(crate) struct Rest {
    pub(crate) index: Arc<Index>,
    pub(crate) derived: Vec<Arc<DerivedIndex>>,
    core: Arc<CoreNode>,
    pub(crate) port: u16,
    /// Of the listener with `/internal`.
    pub(crate) private_port: u16,
    /// Of the listener to which a PROXY header names the client; it has no pages.
    pub(crate) proxied_port: u16,
    pub(crate) server: Server,
    agent: ureq::Agent,
    _history: TempDir,
    _stop: oneshot::Sender<()>,
    _runtime: Runtime,
}

/// One answer.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl World {
    pub(crate) fn start(seed: u64) -> Self {
        Self::of(seed, SIZE, Limits::default())
    }

    pub(crate) fn small(seed: u64) -> Self {
        Self::of(seed, SMALL, Limits::default())
    }

    pub(crate) fn of(seed: u64, size: Size, limits: Limits) -> Self {
        let live = LiveNode::start(seed, size, Options::default()).unwrap();
        let rest = Rest::start(live.node(), limits);
        rest.build();
        Self { live, rest }
    }

    /// Follows the node to its tip and mempool.
    pub(crate) fn sync(&self) {
        self.rest.sync();
    }

    /// Makes a payment, and two versions that replace it one after the other.
    pub(crate) fn versions(&mut self) -> [Transaction; 3] {
        let payment = [Payment::to_lock(Lock::new(Form::P2wpkh, 91), 70_000)];
        let first = self.live.pay(&payment).unwrap();
        self.sync();
        let second = self.live.replace(&first, &payment, 20_000).unwrap();
        self.sync();
        let third = self.live.replace(&second, &payment, 40_000).unwrap();
        self.sync();
        [first, second, third]
    }
}

impl Rest {
    /// Serves an index that is not built yet.
    pub(crate) fn start(node: &Bitcoind, limits: Limits) -> Self {
        Self::with_tweaks(node, limits, Some(TweakDetail::Full))
    }

    /// The same with these tweaks of silent payments.
    pub(crate) fn with_tweaks(node: &Bitcoind, limits: Limits, tweaks: Option<TweakDetail>) -> Self {
        let address = format!("127.0.0.1:{}", node.rpc_port());
        let core = Arc::new(CoreNode::new(Arc::new(Rpc::new(&address, Auth::Cookie(node.cookie())))));
        let source = Arc::new(BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap());
        let genesis = genesis_block(Network::Regtest).block_hash();
        let store = Arc::new(MemoryStore::new());
        let index = Arc::new(Index::open(store, source, genesis, Profile::Full, Secret([7; 16])).unwrap());
        let runtime = Runtime::new().unwrap();
        let socket = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let private = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let proxied = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port_of = |socket: &TcpListener| socket.local_addr().unwrap().port();
        let (port, private_port, proxied_port) = (port_of(&socket), port_of(&private), port_of(&proxied));
        let tweaks = tweaks.map(|detail| Tweaks::derived(Network::Regtest, detail));
        let derived = std::iter::once(FilterHeaders::derived()).chain(tweaks);
        let opened = derived.map(|derived| DerivedIndex::open(Arc::new(MemoryStore::new()), derived, 1));
        let derived: Vec<_> = opened.map(|opened| Arc::new(opened.unwrap())).collect();
        let filters = FilterHeaders::among(&derived).map(Arc::new);
        let tweaks = Tweaks::among(&derived);
        let history = tempfile::tempdir().unwrap();
        let records = Some(Arc::new(History::open(&history.path().join("history")).unwrap()));
        let settings = Settings { limits, filters, tweaks, history: records, ..Settings::new(Network::Regtest) };
        let server = Server::new(Arc::clone(&index), Some(Arc::clone(&core) as Arc<dyn Node>), settings);
        let listener = Listener { name: "rest".into(), transport: Transport::Tcp, proxy: Proxy::Off, limits: () };
        let sockets = match crate::PAGES {
            None => {
                let proxy = Proxy::From(vec!["127.0.0.0/8".parse().unwrap()]);
                let api = vec![(socket, listener.clone()), (proxied, Listener { proxy, ..listener.clone() })];
                Sockets { api, private: vec![(private, listener)], pages: None }
            }
            Some(pages) => {
                Sockets { api: Vec::new(), private: Vec::new(), pages: Some((pages, vec![(socket, listener)])) }
            }
        };
        let (stop, stopped) = oneshot::channel::<()>();
        runtime.spawn(server.clone().serve(sockets, GRACE, async { drop(stopped.await) }));
        let agent =
            ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None).build().new_agent();
        Self {
            index,
            derived,
            core,
            port,
            private_port,
            proxied_port,
            server,
            agent,
            _history: history,
            _stop: stop,
            _runtime: runtime,
        }
    }

    pub(crate) fn build(&self) {
        let temp = tempfile::tempdir().unwrap();
        let options = BuildOptions::modest(temp.path());
        self.index.build(None, &options).unwrap();
        self.sync();
    }

    pub(crate) fn sync(&self) {
        self.index.sync(&*self.core).unwrap();
    }

    /// Computes the headers of the filters, and the tweaks, of all blocks.
    pub(crate) fn compute_derived(&self) {
        let at = self.index.snapshot().unwrap();
        for derived in &self.derived {
            while derived.advance(&at).unwrap() {}
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn get(&self, path: &str) -> Got {
        self.get_with(path, &[])
    }

    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Got {
        let mut request = self.agent.get(format!("{}{path}", self.url()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Got::of(request.call().unwrap()).rooted()
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Got {
        self.post_at(&format!("{}{path}", self.url()), body)
    }

    pub(crate) fn get_at(&self, url: &str) -> Got {
        Got::of(self.agent.get(url).call().unwrap())
    }

    pub(crate) fn post_at(&self, url: &str, body: &str) -> Got {
        Got::of(self.agent.post(url).send(body).unwrap()).rooted()
    }

    /// The JSON of an answer that must be one.
    pub(crate) fn json(&self, path: &str) -> Value {
        let got = self.get(path);
        assert_eq!((got.status, got.header("content-type")), (200, "application/json"), "{path}: {}", got.text());
        serde_json::from_slice(&got.body).unwrap()
    }

    /// An answer of the private listener.
    pub(crate) fn private(&self, path: &str) -> Got {
        self.get_at(&format!("http://127.0.0.1:{}{path}", self.private_port))
    }

    pub(crate) fn private_json(&self, path: &str) -> Value {
        let got = self.private(path);
        assert_eq!((got.status, got.header("content-type")), (200, "application/json"), "{path}: {}", got.text());
        serde_json::from_slice(&got.body).unwrap()
    }

    pub(crate) fn private_post(&self, path: &str, body: &str) -> Value {
        let got = self.post_at(&format!("http://127.0.0.1:{}{path}", self.private_port), body);
        assert_eq!(got.status, 200, "{path}: {}", got.text());
        serde_json::from_slice(&got.body).unwrap()
    }

    /// The text of an answer that must be one.
    pub(crate) fn text(&self, path: &str) -> String {
        let got = self.get(path);
        assert_eq!((got.status, got.header("content-type")), (200, "text/plain"), "{path}: {}", got.text());
        got.text()
    }

    /// Status and text of a refusal.
    pub(crate) fn refusal(&self, path: &str) -> (u16, String) {
        let got = self.get(path);
        assert_eq!(got.header("content-type"), "text/plain", "{path}");
        (got.status, got.text())
    }
}

impl Got {
    fn of(mut response: ureq::http::Response<ureq::Body>) -> Self {
        let headers = response.headers().iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(u64::MAX).read_to_vec().unwrap();
        Self { status, headers, body }
    }

    /// The same with links of pages from the root, which they have relative to their path.
    fn rooted(mut self) -> Self {
        let is_page = self.header("content-type").starts_with("text/html");
        let from_root = |link: &str| format!("/{}", link.trim_start_matches("./").trim_start_matches("../"));
        for (name, value) in &mut self.headers {
            if name == "location" {
                *value = from_root(value);
            }
        }
        if is_page {
            let text = self.text();
            let mut parts = text.split("=\".");
            let mut whole = parts.next().unwrap().to_owned();
            for part in parts {
                whole.push_str("=\"");
                whole.push_str(&from_root(&format!(".{part}")));
            }
            self.body = whole.into_bytes();
        }
        self
    }

    /// The value of a header; empty if it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}
