//! A real node, a real index of its chain, and a server on it, for the tests over sockets.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use birdhouse_chain::source::Node;
use birdhouse_chain::{BuildOptions, Derived, DerivedIndex, Index, Profile, Secret, TweakDetail, Tweaks};
use birdhouse_electrum::{Limits, Listener, Overview, Proxy, Settings, Transport};
use birdhouse_net::SeatCounts;
use birdhouse_node::{Auth, BlockFiles, CoreNode, Rpc};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::client::Client;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use bitcoin::Network;
use bitcoin::constants::genesis_block;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::noted_reads::NotedReads;

/// A server on the index of one node's chain. Ends with the test.
pub(crate) struct Server {
    pub(crate) index: Arc<Index>,
    pub(crate) core: Arc<CoreNode>,
    /// The files that the index reads.
    pub(crate) files: Arc<NotedReads>,
    /// Port of the first listener.
    pub(crate) port: u16,
    pub(crate) ports: Vec<u16>,
    served: birdhouse_electrum::Server,
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
}

/// The index of silent payments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silent {
    Off,
    /// Empty.
    Behind,
    Indexed,
    /// With outputs.
    Full,
    /// With outputs, and empty.
    FullBehind,
}

/// Access of the server to the node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum With {
    Node,
    FilesAlone,
}

impl Server {
    /// Serves the node's chain as it is now.
    pub(crate) fn start(node: &Bitcoind, settings: Settings) -> Self {
        Self::listening(node, settings, vec![tcp(Limits::default())])
    }

    /// Serves the node's chain as it is now, on these listeners.
    pub(crate) fn listening(node: &Bitcoind, settings: Settings, listeners: Vec<Listener>) -> Self {
        Self::at(node, settings, listeners.into_iter().map(|listener| (0, listener)).collect())
    }

    /// Serves the node's chain as it is now, on these ports; 0 is any.
    pub(crate) fn at(node: &Bitcoind, settings: Settings, listeners: Vec<(u16, Listener)>) -> Self {
        let server = Self::open(node, With::Node, settings, listeners);
        server.build();
        server
    }

    /// Serves the node's chain as it is now, with an index of silent payments or without.
    pub(crate) fn with_silent_payments(
        node: &Bitcoind,
        settings: Settings,
        listener: Listener,
        silent: Silent,
    ) -> Self {
        let server = Self::open(node, With::Node, settings, vec![(0, listener)]);
        // A build has no part in an index that it does not know yet.
        server.build();
        if silent != Silent::Off {
            let detail =
                if matches!(silent, Silent::Full | Silent::FullBehind) { TweakDetail::Full } else { TweakDetail::Scan };
            let derived = Tweaks::derived(Network::Regtest, detail);
            let derived = DerivedIndex::open(Arc::new(MemoryStore::new()), derived, 1).unwrap();
            server.index.set_derived(vec![Arc::new(derived)]);
        }
        if matches!(silent, Silent::Indexed | Silent::Full) {
            server.index_silent_payments();
        }
        server
    }

    /// Serves the node's chain as it is now, with an index of silent payments that `derived` computes.
    pub(crate) fn with_tweaks(
        node: &Bitcoind,
        settings: Settings,
        listener: Listener,
        derived: Arc<dyn Derived>,
    ) -> Self {
        let server = Self::open(node, With::Node, settings, vec![(0, listener)]);
        server.build();
        let derived = DerivedIndex::open(Arc::new(MemoryStore::new()), derived, 1).unwrap();
        server.index.set_derived(vec![Arc::new(derived)]);
        server.index_silent_payments();
        server
    }

    /// Brings the index of silent payments to the tip.
    pub(crate) fn index_silent_payments(&self) {
        self.index.catch_up_derived(&AtomicBool::new(false)).unwrap();
    }

    /// Serves before the index is built.
    pub(crate) fn syncing(node: &Bitcoind, with: With, settings: Settings) -> Self {
        Self::open(node, with, settings, vec![(0, tcp(Limits::default()))])
    }

    fn open(node: &Bitcoind, with: With, settings: Settings, listeners: Vec<(u16, Listener)>) -> Self {
        let address = format!("127.0.0.1:{}", node.rpc_port());
        let core = Arc::new(CoreNode::new(Arc::new(Rpc::new(&address, Auth::Cookie(node.cookie())))));
        let files = Arc::new(NotedReads::of(BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap()));
        let index = Arc::new(open(Arc::clone(&files)));
        let asked: Option<Arc<dyn Node>> = match with {
            With::Node => Some(Arc::clone(&core) as Arc<dyn Node>),
            With::FilesAlone => None,
        };
        let runtime = Runtime::new().unwrap();
        let bind = |port| runtime.block_on(TcpListener::bind(("127.0.0.1", port))).unwrap();
        let listeners: Vec<_> = listeners.into_iter().map(|(port, listener)| (bind(port), listener)).collect();
        let ports: Vec<u16> = listeners.iter().map(|(socket, _)| socket.local_addr().unwrap().port()).collect();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { drop(stopped.await) };
        let served = birdhouse_electrum::Server::new(Arc::clone(&index), asked, settings);
        let serving = runtime.spawn(served.clone().serve(listeners, shutdown));
        Self { served, index, core, files, port: ports[0], ports, runtime, stop: Some(stop), serving: Some(serving) }
    }

    /// Builds the index of the chain that the node has.
    pub(crate) fn build(&self) {
        self.try_build().unwrap();
    }

    /// Builds the index, or fails as the build does.
    pub(crate) fn try_build(&self) -> birdhouse_chain::Result<()> {
        let temp = tempfile::tempdir().unwrap();
        let options = BuildOptions::modest(temp.path());
        self.index.build(None, &options).map(drop)
    }

    /// Bytes of replies that clients have not read.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.served.overview().unsent_bytes
    }

    /// State of the server.
    pub(crate) fn overview(&self) -> Overview {
        self.served.overview()
    }

    /// Connections that found no place or had to leave theirs.
    pub(crate) fn refused_connections(&self) -> SeatCounts {
        self.served.overview().refused_connections
    }

    /// Follows the node to its tip.
    pub(crate) fn sync(&self) {
        self.index.sync(&*self.core).unwrap();
    }

    /// A client that speaks 1.4 to 1.6.
    pub(crate) fn client(&self) -> Client {
        Client::greet(self.port).unwrap()
    }

    /// A client that speaks 1.4 to 1.7.
    pub(crate) fn newest_client(&self) -> Client {
        Client::greet_with(self.port, "1.7").unwrap()
    }

    /// A client that has sent nothing yet.
    pub(crate) fn stranger(&self) -> Client {
        Client::connect(self.port).unwrap()
    }

    /// A bare socket.
    pub(crate) fn socket(&self) -> TcpStream {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket
    }

    /// Shuts the server down and waits for it.
    pub(crate) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.runtime.block_on(self.serving.take().unwrap()).unwrap();
    }
}

/// A plain listener.
pub(crate) fn tcp(limits: Limits) -> Listener {
    Listener { name: "tcp".into(), transport: Transport::Tcp, proxy: Proxy::Off, limits }
}

fn open(source: Arc<NotedReads>) -> Index {
    let store = Arc::new(MemoryStore::new());
    let genesis = genesis_block(Network::Regtest).block_hash();
    Index::open(store, source, genesis, Profile::Full, Secret([7; 16])).unwrap()
}

/// A node with this chain.
pub(crate) fn node_with(chain: &ChainBuilder) -> Bitcoind {
    let node = Bitcoind::start(Options::default()).unwrap();
    chain.submit_to(&node).unwrap();
    node
}
