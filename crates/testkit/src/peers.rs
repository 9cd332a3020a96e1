//! Other servers of the Electrum protocol, run on the same node: independent oracles for our answers.
//!
//! An oracle has a version: what `PATH` holds is not looked at. They listen on loopback only, keep their index in a temporary folder unless told otherwise, and die with us.

mod birdhouse;
mod electrs;
mod electrumx;
mod fulcrum;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use birdhouse_regtest::bitcoind::{Bitcoind, free_port};
use birdhouse_regtest::child_guard::{ChildGuard, Launch};
use serde_json::json;
use tempfile::TempDir;

pub use self::birdhouse::Birdhouse;
pub use self::electrs::Electrs;
pub use self::electrumx::ElectrumX;
pub use self::fulcrum::Fulcrum;
use crate::client::Client;
use crate::error::{Error, Result, at};

/// `ElectrumX` needed 803 s for the benchmark chain on two shared cores.
const SYNC_PATIENCE: Duration = Duration::from_hours(3);
const TIP_PATIENCE: Duration = Duration::from_mins(2);

/// Where a peer keeps its index.
#[derive(Debug, Clone, Default)]
pub enum Home {
    /// A folder that goes with the peer.
    #[default]
    Temporary,
    /// A folder that stays.
    Folder(PathBuf),
}

/// Which server a peer is: what the protocol leaves open, each does its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Ours.
    Birdhouse,
    /// Our oracle in all questions.
    ElectrumX,
    /// It has no `get_mempool`, and an order of its own for unconfirmed transactions.
    Electrs,
    /// It has to be faster than this one.
    Fulcrum,
}

/// A running peer that has reached the node's tip. Dropping it kills and reaps it.
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
    /// The folder, made if needed, and what removes it.
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
    fn start(kind: Kind, node: &Bitcoind, home: Home, launch: impl Fn(&Path, u16) -> Result<Launch>) -> Result<Self> {
        let (folder, temporary) = home.open()?;
        let port = free_port()?;
        let child = ChildGuard::spawn(launch(&folder, port)?)?;
        let index = folder.join("index");
        let mut peer = Self { kind, child, port, home: folder, index, _temporary: temporary };
        peer.wait(node, SYNC_PATIENCE)?;
        Ok(peer)
    }

    /// Which server it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The port on 127.0.0.1 where it speaks the Electrum protocol over TCP.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A new connection, past `server.version`.
    pub fn client(&self) -> Result<Client> {
        Client::greet(self.port)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Where its index lies.
    pub fn index_dir(&self) -> PathBuf {
        self.index.clone()
    }

    /// What it has logged so far.
    pub fn log(&self) -> Result<String> {
        let log = &self.child.launch().log;
        Ok(String::from_utf8_lossy(&fs::read(log).map_err(at(log))?).into_owned())
    }

    /// Waits until it serves the node's present tip.
    pub fn wait_for_tip(&mut self, node: &Bitcoind) -> Result<()> {
        self.wait(node, TIP_PATIENCE)
    }

    fn wait(&mut self, node: &Bitcoind, patience: Duration) -> Result<()> {
        let (port, height) = (self.port, node.height()?);
        let tip = node.rpc("getblockheader", json!([node.tip()?.to_string(), false]))?;
        self.child.until(patience, || {
            let Ok(mut client) = Client::connect(port) else { return Ok(None) };
            // electrs ends when it is asked for its tip before it has one, so it is asked for the block first.
            let served = client
                .call("server.version", json!(["birdhouse-testkit", ["1.4", "1.6"]]))
                .and_then(|_| client.call("blockchain.block.header", json!([height])))
                .and_then(|_| client.call("blockchain.headers.subscribe", json!([])));
            match served {
                Ok(served) if served["height"] == json!(height) && served["hex"] == tip => Ok(Some(())),
                // It answers with errors, or drops connections, while it is busy with the first sync.
                Ok(_) | Err(Error::Electrum { .. } | Error::Protocol(_) | Error::Io(_)) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }
}
