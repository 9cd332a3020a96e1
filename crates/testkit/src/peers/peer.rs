//! A running server of any kind, with its port, process and folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use birdhouse_regtest::bitcoind::{Bitcoind, free_port};
use birdhouse_regtest::child_guard::{ChildGuard, Launch};
use serde_json::json;
use tempfile::TempDir;

use crate::clients::client::Client;
use crate::error::{Error, Result, at};

/// The time that a first sync may take: `ElectrumX` needed 803 s for the benchmark chain on two shared cores.
const SYNC_PATIENCE: Duration = Duration::from_hours(3);
const TIP_PATIENCE: Duration = Duration::from_mins(2);
/// A script hash that no script has.
const UNUSED: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The folder where a server keeps its index.
#[derive(Debug, Clone, Default)]
pub enum Home {
    /// A temporary folder, removed when the server ends.
    #[default]
    Temporary,
    /// A folder that is kept.
    Folder(PathBuf),
}

/// A kind of server: servers differ in what the protocol leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Birdhouse.
    Birdhouse,
    /// `ElectrumX`, the oracle for all answers.
    ElectrumX,
    /// electrs, which has no `get_mempool` and an order of its own for unconfirmed transactions.
    Electrs,
    /// Fulcrum, the fastest of the others.
    Fulcrum,
}

/// A running server that has reached the node's tip. Dropping it kills the process and waits for its end.
#[derive(Debug)]
pub struct Peer {
    kind: Kind,
    child: ChildGuard,
    port: u16,
    home: PathBuf,
    index: PathBuf,
    _temporary: Option<TempDir>,
}

impl Home {
    /// Returns the folder, created if needed, and the guard that removes a temporary one.
    pub(crate) fn open(self) -> Result<(PathBuf, Option<TempDir>)> {
        match self {
            Self::Folder(folder) => {
                fs::create_dir_all(&folder).map_err(at(&folder))?;
                Ok((folder.canonicalize().map_err(at(&folder))?, None))
            }
            Self::Temporary => {
                let temporary = tempfile::Builder::new().prefix("birdhouse-peer-").tempdir()?;
                Ok((temporary.path().to_owned(), Some(temporary)))
            }
        }
    }
}

impl Peer {
    /// Starts the program that `launch` names for a folder and a port, and waits until it serves the node's tip.
    pub(super) fn start(
        kind: Kind,
        node: &Bitcoind,
        home: Home,
        launch: impl Fn(&Path, u16) -> Result<Launch>,
    ) -> Result<Self> {
        let (folder, temporary) = home.open()?;
        let port = free_port()?;
        let child = ChildGuard::spawn(launch(&folder, port)?)?;
        let index = folder.join("index");
        let mut peer = Self { kind, child, port, home: folder, index, _temporary: temporary };
        peer.wait(node, SYNC_PATIENCE)?;
        Ok(peer)
    }

    /// Moves the index to `index` below the peer's folder.
    pub(super) fn with_index_in(mut self, index: &str) -> Self {
        self.index = self.home.join(index);
        self
    }

    /// Returns the kind of server.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the port of the Electrum protocol over TCP, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Opens a connection and negotiates the version.
    pub fn client(&self) -> Result<Client> {
        Client::greet(self.port)
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Returns the folder of the index.
    pub fn index_dir(&self) -> PathBuf {
        self.index.clone()
    }

    /// Returns the log so far.
    pub fn log(&self) -> Result<String> {
        let log = &self.child.launch().log;
        Ok(String::from_utf8_lossy(&fs::read(log).map_err(at(log))?).into_owned())
    }

    /// Waits until the server has the node's present tip, and answers about scripts.
    pub fn wait_for_tip(&mut self, node: &Bitcoind) -> Result<()> {
        self.wait(node, TIP_PATIENCE)
    }

    fn wait(&mut self, node: &Bitcoind, patience: Duration) -> Result<()> {
        let (port, height) = (self.port, node.height()?);
        let tip = node.rpc("getblockheader", json!([node.tip()?.to_string(), false]))?;
        self.child.until(patience, || {
            let Ok(mut client) = Client::connect(port) else { return Ok(None) };
            // electrs ends when a client asks for its tip before it has one, so the block is requested first.
            let served = client
                .call("server.version", json!(["birdhouse-testkit", ["1.4", "1.6"]]))
                .and_then(|_| client.call("blockchain.block.header", json!([height])))
                .and_then(|_| client.call("blockchain.headers.subscribe", json!([])))
                // Headers are served while an index is built, scripts are not.
                .and_then(|tip| client.call("blockchain.scripthash.get_balance", json!([UNUSED])).map(|_| tip));
            match served {
                Ok(served) if served["height"] == json!(height) && served["hex"] == tip => Ok(Some(())),
                // During the first sync a server may answer with errors or drop connections.
                Ok(_) | Err(Error::Electrum { .. } | Error::Protocol(_) | Error::Io(_)) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }
}
