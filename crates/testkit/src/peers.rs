//! Other servers of the Electrum protocol, run on the same node: independent oracles for our answers.
//!
//! An oracle has a version: what `PATH` holds is not looked at. They listen on loopback only, keep their index in a temporary folder unless told otherwise, and die with us.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::bitcoind::{Bitcoind, find_program, free_port};
use crate::client::Client;
use crate::error::{Error, Result, at};
use crate::guarded::{Guarded, Launch};

/// `ElectrumX` needed 803 s for the benchmark chain on two shared cores.
const SYNC_PATIENCE: Duration = Duration::from_hours(3);
const TIP_PATIENCE: Duration = Duration::from_mins(2);
const POLL_MS: u32 = 100;
const BIRDHOUSE_LOG: &str = "birdhouse.log";

/// `ElectrumX` pads answers to 1 KiB, and holds smaller ones back for up to a second, against eavesdroppers.
/// Thousands of small answers are compared in tests, so the holding back is turned off; it has no setting.
const ELECTRUMX_AT_ONCE: &str = "\
from electrumx.server.transport import PaddedRSTransport
PaddedRSTransport.WAIT_FOR_BUFFER_GROWTH_SECONDS = 0
from electrumx.cli.electrumx_server import main
main()";

/// Where a peer keeps its index.
#[derive(Debug, Clone, Default)]
pub enum Home {
    /// A folder that goes with the peer.
    #[default]
    Temporary,
    /// A folder that stays.
    Folder(PathBuf),
}

/// A running peer that has reached the node's tip. Dropping it kills and reaps it.
#[derive(Debug)]
pub struct Peer {
    child: Guarded,
    port: u16,
    home: PathBuf,
    index: PathBuf,
    _temporary: Option<TempDir>,
}

/// `romanz/electrs` 0.12.0, from `scripts/peers electrs`. The node must run with `-rest=1`.
#[derive(Debug)]
pub struct Electrs;

/// `ElectrumX` 2.0.0 (`e-x` on `PyPI`), from `scripts/peers e-x`. The node must run with
/// [`Options::with_indexes`](crate::Options::with_indexes), and must not restart meanwhile (its cookie would change).
#[derive(Debug)]
pub struct ElectrumX;

/// Birdhouse itself, as a process of its own: the program that a test or a benchmark names.
#[derive(Debug)]
pub struct Birdhouse;

impl Electrs {
    /// Starts it on the node, and waits until it serves the node's tip.
    pub fn start(node: &Bitcoind) -> Result<Peer> {
        Self::start_in(node, Home::Temporary)
    }

    /// The same, with its index in a place of the caller's choice.
    pub fn start_in(node: &Bitcoind, home: Home) -> Result<Peer> {
        let cached = "birdhouse/electrs-0.12.0/bin/electrs";
        let program = find_program("electrs", "ELECTRS", None, cached, "scripts/peers electrs")?;
        Peer::start(node, home, |folder, port| {
            let mut args: Vec<OsString> = vec![
                "--skip-default-conf-files".into(),
                "--network=regtest".into(),
                "--log-filters=info".into(),
                "--wait-duration-secs=1".into(),
                format!("--daemon-rpc-addr=127.0.0.1:{}", node.rpc_port()).into(),
                format!("--electrum-rpc-addr=127.0.0.1:{port}").into(),
                format!("--monitoring-addr=127.0.0.1:{}", free_port()?).into(),
            ];
            let paths = [
                ("--cookie-file=", node.cookie()),
                ("--daemon-dir=", node.datadir().to_owned()),
                ("--db-dir=", folder.join("index")),
            ];
            args.extend(paths.map(|(flag, path)| {
                let mut arg = OsString::from(flag);
                arg.push(path);
                arg
            }));
            Ok(Launch { program: program.clone(), args, envs: Vec::new(), log: folder.join("electrs.log") })
        })
    }
}

impl ElectrumX {
    /// Starts it on the node, and waits until it serves the node's tip.
    pub fn start(node: &Bitcoind) -> Result<Peer> {
        Self::start_in(node, Home::Temporary)
    }

    /// The same, with its index in a place of the caller's choice.
    pub fn start_in(node: &Bitcoind, home: Home) -> Result<Peer> {
        let cached = "birdhouse/e-x-2.0.0/bin/electrumx_server";
        let server = find_program("electrumx_server", "ELECTRUMX_SERVER", None, cached, "scripts/peers e-x")?;
        let cookie = fs::read_to_string(node.cookie()).map_err(at(node.cookie()))?;
        let daemon_url = format!("http://{cookie}@127.0.0.1:{}/", node.rpc_port());
        Peer::start(node, home, |folder, port| {
            let index = folder.join("index");
            fs::create_dir_all(&index).map_err(at(&index))?;
            let settings = [
                ("ALLOW_ROOT", "1".into()),
                ("COIN", "Bitcoin".into()),
                ("NET", "regtest".into()),
                ("DB_ENGINE", "leveldb".into()),
                ("DAEMON_URL", daemon_url.clone()),
                ("SERVICES", format!("tcp://127.0.0.1:{port}")),
                ("PEER_DISCOVERY", "off".into()),
                ("PEER_ANNOUNCE", String::new()),
                ("DAEMON_POLL_INTERVAL_BLOCKS", POLL_MS.to_string()),
                ("DAEMON_POLL_INTERVAL_MEMPOOL", POLL_MS.to_string()),
                // Its limits are for strangers; an oracle has to answer everything.
                ("COST_SOFT_LIMIT", "0".into()),
                ("COST_HARD_LIMIT", "0".into()),
                ("REQUEST_SLEEP", "0".into()),
                ("INITIAL_CONCURRENT", "1000".into()),
                ("MAX_SEND", "2000000000".into()),
                ("MAX_RECV", "100000000".into()),
                ("REQUEST_TIMEOUT", "3600".into()),
                ("SESSION_TIMEOUT", "86400".into()),
            ];
            let mut envs: Vec<(String, OsString)> =
                settings.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
            envs.push(("DB_DIRECTORY".into(), index.into()));
            let python = server.with_file_name("python3");
            let (program, args) = if python.is_file() {
                (python, vec!["-c".into(), ELECTRUMX_AT_ONCE.into()])
            } else {
                (server.clone(), Vec::new())
            };
            Ok(Launch { program, args, envs, log: folder.join("electrumx.log") })
        })
    }
}

impl Birdhouse {
    /// Runs `program` on the node with more `args`, and waits until it serves the node's tip. Its `--data-dir` is the
    /// home itself, so that what `birdhouse index` built there is used.
    pub fn start_in(node: &Bitcoind, home: Home, program: &Path, args: &[&str]) -> Result<Peer> {
        let peer = Peer::start(node, home, |folder, port| {
            let mut all: Vec<OsString> = ["run", "--network", "regtest", "--node-dir"].map(Into::into).to_vec();
            all.extend([node.datadir().into(), "--data-dir".into(), folder.into()]);
            all.extend(["--rpc-addr".into(), format!("127.0.0.1:{}", node.rpc_port()).into()]);
            all.extend(["--electrum-addr".into(), format!("127.0.0.1:{port}").into()]);
            all.extend(args.iter().map(OsString::from));
            Ok(Launch { program: program.to_owned(), args: all, envs: Vec::new(), log: folder.join(BIRDHOUSE_LOG) })
        })?;
        let index = peer.home.join("regtest");
        Ok(Peer { index, ..peer })
    }
}

impl Peer {
    fn start(node: &Bitcoind, home: Home, launch: impl Fn(&Path, u16) -> Result<Launch>) -> Result<Self> {
        let (folder, temporary) = match home {
            Home::Folder(folder) => {
                fs::create_dir_all(&folder).map_err(at(&folder))?;
                (folder.canonicalize().map_err(at(&folder))?, None)
            }
            Home::Temporary => {
                let temporary = tempfile::Builder::new().prefix("birdhouse-peer-").tempdir()?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        let port = free_port()?;
        let child = Guarded::spawn(launch(&folder, port)?)?;
        let index = folder.join("index");
        let mut peer = Self { child, port, home: folder, index, _temporary: temporary };
        peer.wait(node, SYNC_PATIENCE)?;
        Ok(peer)
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
            let served = client
                .call("server.version", json!(["birdhouse-testkit", ["1.4", "1.6"]]))
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
