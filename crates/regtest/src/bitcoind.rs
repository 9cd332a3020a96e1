//! A private Bitcoin Core on regtest: the node of `birdhouse demo` and of every test that needs one.
//!
//! It listens on loopback only, on a port that was free. It has no peers, and it ends with the process that started
//! it.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bitcoin::{Block, BlockHash, consensus};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::child_guard::{ChildGuard, Launch};
use crate::error::{Error, Result, at};
use crate::program::find_bitcoind;
use crate::rpc::Rpc;

/// The time that a start may take: after a kill the node replays blocks, and long chains take minutes.
const START_PATIENCE: Duration = Duration::from_mins(10);
const STOP_PATIENCE: Duration = Duration::from_mins(10);
/// The time in which two nodes of one machine get to know each other.
const MEET_PATIENCE: Duration = Duration::from_mins(2);
/// Time between two looks at the peers.
const MEET_POLL: Duration = Duration::from_millis(10);
/// Attempts at a start: another process may take the port after it was chosen and before Core binds it.
const PORT_ATTEMPTS: u32 = 5;
/// The first port for servers: those below belong to known services.
const PORT_MIN: u16 = 10_000;
/// Number of ports for servers. From 32 768 on, Linux takes ports for outgoing connections.
const PORTS: u16 = 22_000;
/// Generated chains have old timestamps. With this argument the node accepts any tip as recent and leaves initial
/// block download.
const TIP_AGE_MAX_S: &str = "-maxtipage=3000000000";

/// Settings of a node.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// An existing or new folder, kept when the node ends; `None`: a temporary folder, removed with it.
    pub datadir: Option<PathBuf>,
    /// Core's optional indexes to run.
    pub indexes: Indexes,
    /// Further arguments, for example `-blocksxor=0`.
    pub args: Vec<String>,
}

/// Core's own optional indexes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Indexes {
    /// No index: Birdhouse needs none.
    #[default]
    None,
    /// `txindex` and `txospenderindex`, which `ElectrumX` needs.
    TxAndSpender,
}

impl Options {
    /// Uses this folder, and keeps it when the node ends.
    #[must_use]
    pub fn in_datadir(mut self, datadir: impl Into<PathBuf>) -> Self {
        self.datadir = Some(datadir.into());
        self
    }

    /// Runs `txindex` and `txospenderindex`.
    #[must_use]
    pub fn with_indexes(mut self) -> Self {
        self.indexes = Indexes::TxAndSpender;
        self
    }

    /// Makes the node log every change of its chain and mempool (`-debug=validation`).
    #[must_use]
    pub fn logging_changes(self) -> Self {
        self.arg("-debug=validation")
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }
}

/// A node that runs, or was stopped or killed. Dropping it kills the process and waits for its end.
#[derive(Debug)]
pub struct Bitcoind {
    // Declared before the folder: fields are dropped in order, and the node must end before its folder is removed.
    child: Option<ChildGuard>,
    rpc: Rpc,
    port: u16,
    options: Options,
    datadir: PathBuf,
    _temporary: Option<TempDir>,
}

impl Bitcoind {
    /// Starts a node and waits until it answers.
    ///
    /// # Errors
    /// [`Error::Missing`] without a Bitcoin Core, [`Error::Start`] when it ends or does not answer within 10 minutes.
    pub fn start(options: Options) -> Result<Self> {
        let temporary = match options.datadir {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("birdhouse-node-").tempdir()?),
        };
        let datadir = match (&options.datadir, &temporary) {
            (Some(path), _) => path.clone(),
            (None, Some(folder)) => folder.path().to_owned(),
            (None, None) => unreachable!("a temporary folder is made when none is given"),
        };
        std::fs::create_dir_all(&datadir).map_err(at(&datadir))?;
        let datadir = datadir.canonicalize().map_err(at(&datadir))?;
        let rpc = Rpc::new(0, datadir.join("regtest/.cookie"));
        let mut node = Self { child: None, rpc, port: 0, options, datadir, _temporary: temporary };
        node.launch_on_a_free_port()?;
        Ok(node)
    }

    /// Calls a method with its parameters by position: `node.rpc("getblockhash", json!([0]))`.
    #[expect(clippy::needless_pass_by_value, reason = "call sites pass json!([..])")]
    pub fn rpc(&self, method: &str, params: Value) -> Result<Value> {
        self.rpc.call(method, &params)
    }

    /// Returns the body of `GET /rest/<path>`.
    pub fn rest(&self, path: &str) -> Result<Vec<u8>> {
        self.rpc.rest(path)
    }

    /// Submits a block. A valid block that is not on the best branch, or is known already, is no error.
    ///
    /// # Errors
    /// [`Error::BlockRefused`] for an invalid block.
    pub fn submit(&self, height: u32, block: &Block) -> Result<()> {
        match self.rpc("submitblock", json!([consensus::encode::serialize_hex(block)]))? {
            Value::Null => Ok(()),
            Value::String(reason) if reason == "inconclusive" || reason == "duplicate" => Ok(()),
            reason => Err(Error::BlockRefused { height, reason: reason.to_string() }),
        }
    }

    /// Returns the height of the active chain.
    pub fn height(&self) -> Result<u32> {
        let count = self.rpc("getblockcount", json!([]))?;
        let height = count.as_u64().and_then(|count| u32::try_from(count).ok());
        height.ok_or_else(|| self.unexpected(&count))
    }

    /// Returns the hash of the active chain's tip.
    pub fn tip(&self) -> Result<BlockHash> {
        self.hash(&self.rpc("getbestblockhash", json!([]))?)
    }

    /// Returns the hash of the active chain's block at this height.
    pub fn block_hash(&self, height: u32) -> Result<BlockHash> {
        self.hash(&self.rpc("getblockhash", json!([height]))?)
    }

    /// Marks a block as invalid (`invalidateblock`); the node changes to the best branch without it.
    pub fn invalidate(&self, hash: BlockHash) -> Result<()> {
        self.rpc("invalidateblock", json!([hash.to_string()])).map(drop)
    }

    /// Undoes [`Self::invalidate`].
    pub fn reconsider(&self, hash: BlockHash) -> Result<()> {
        self.rpc("reconsiderblock", json!([hash.to_string()])).map(drop)
    }

    /// Removes the files of blocks up to a height, as far as they have no later ones (`pruneblockchain`); returns
    /// [`Self::first_kept`].
    pub fn prune(&self, height: u32) -> Result<u32> {
        self.rpc("pruneblockchain", json!([height]))?;
        self.first_kept()
    }

    /// Returns the lowest height from which a pruned node has all blocks.
    pub fn first_kept(&self) -> Result<u32> {
        let info = self.rpc("getblockchaininfo", json!([]))?;
        let height = info["pruneheight"].as_u64().and_then(|height| u32::try_from(height).ok());
        height.ok_or_else(|| self.unexpected(&info))
    }

    /// Begins to connect to a node that listens on a port of this machine (`addnode`), once.
    pub fn connect(&self, port: u16) -> Result<()> {
        self.rpc("addnode", json!([format!("127.0.0.1:{port}"), "onetry"])).map(drop)
    }

    /// Connects as [`Self::connect`] does, and waits for a peer that offers its blocks.
    ///
    /// # Errors
    /// [`Error::Start`] if there is none after two minutes.
    pub fn meet(&self, port: u16) -> Result<()> {
        self.connect(port)?;
        let began = Instant::now();
        while !self.rpc("getpeerinfo", json!([]))?.to_string().contains("\"NETWORK\"") {
            if began.elapsed() > MEET_PATIENCE {
                return Err(self.failed("met no peer that offers its blocks"));
            }
            sleep(MEET_POLL);
        }
        Ok(())
    }

    fn failed(&self, what: &str) -> Error {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        Error::Start { program: "bitcoind".to_owned(), what: what.to_owned(), log }
    }

    fn hash(&self, answer: &Value) -> Result<BlockHash> {
        let hash = answer.as_str().and_then(|text| text.parse().ok());
        hash.ok_or_else(|| self.unexpected(answer))
    }

    fn unexpected(&self, answer: &Value) -> Error {
        Error::Http { url: format!("http://127.0.0.1:{}/", self.port), message: format!("unexpected result: {answer}") }
    }

    /// Returns the folder given as `-datadir`; the chain's files are in its `regtest`.
    pub fn datadir(&self) -> &Path {
        &self.datadir
    }

    /// Returns the folder of the chain's block files.
    pub fn blocks_dir(&self) -> PathBuf {
        self.datadir.join("regtest/blocks")
    }

    /// Returns the path of the cookie file, which has the credentials of the RPC port.
    pub fn cookie(&self) -> PathBuf {
        self.datadir.join("regtest/.cookie")
    }

    /// Returns the path of the file that has the node's standard output and error.
    pub fn log(&self) -> PathBuf {
        self.datadir.join("bitcoind.log")
    }

    /// Returns the port of RPC and REST on 127.0.0.1.
    pub fn rpc_port(&self) -> u16 {
        self.port
    }

    /// Returns the process id while the node runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(ChildGuard::pid)
    }

    /// Stops the node by RPC and waits for its end, up to 10 minutes; does nothing when it does not run.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            self.rpc.call("stop", &json!([]))?;
            child.wait(STOP_PATIENCE)?;
        }
        Ok(())
    }

    /// Stops the node's process without ending it (SIGSTOP): it takes connections and answers nothing, as one whose
    /// disk hangs.
    pub fn pause(&self) -> Result<()> {
        self.signal("-STOP")
    }

    /// Lets the process go on after [`Self::pause`].
    pub fn resume(&self) -> Result<()> {
        self.signal("-CONT")
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.pid().ok_or_else(|| self.failed("does not run"))?;
        let sent = Command::new("kill").args([signal, &pid.to_string()]).status()?;
        if sent.success() { Ok(()) } else { Err(self.failed("takes no signal")) }
    }

    /// Kills the node with SIGKILL. Unlike a power cut this keeps the page cache.
    pub fn kill9(&mut self) {
        self.child = None;
    }

    /// Restarts the node as [`Self::restart`] does, this time with one more argument, for example `-reindex`.
    pub fn restart_once_with(&mut self, arg: &str) -> Result<()> {
        self.options.args.push(arg.to_owned());
        let restarted = self.restart();
        self.options.args.pop();
        restarted
    }

    /// Stops the node if it runs, and starts it again with the same port and data folder.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.launch(self.port)
    }

    fn launch_on_a_free_port(&mut self) -> Result<()> {
        let mut last = Ok(());
        for _ in 0..PORT_ATTEMPTS {
            last = self.launch(free_port()?);
            match &last {
                Err(Error::Start { log, .. }) if log.contains("Unable to bind") => {}
                _ => break,
            }
        }
        last
    }

    fn launch(&mut self, port: u16) -> Result<()> {
        let mut child = ChildGuard::spawn(self.command(port)?)?;
        let rpc = Rpc::new(port, self.cookie());
        child.until(START_PATIENCE, || Ok::<_, Error>(rpc.call("getblockcount", &json!([])).ok()))?;
        (self.child, self.rpc, self.port) = (Some(child), rpc, port);
        Ok(())
    }

    fn command(&self, port: u16) -> Result<Launch> {
        let mut args = base_args(&self.datadir);
        args.extend([format!("-rpcport={port}").into(), "-server=1".into(), "-rest=1".into()]);
        if self.options.indexes == Indexes::TxAndSpender {
            args.extend(["-txindex=1".into(), "-txospenderindex=1".into()]);
        }
        args.extend(self.options.args.iter().map(OsString::from));
        Ok(Launch { program: find_bitcoind()?, args, envs: Vec::new(), log: self.log() })
    }
}

/// Returns the arguments common to every start: no network except loopback, and a chain of any age counts as recent.
pub(crate) fn base_args(datadir: &Path) -> Vec<OsString> {
    let mut folder = OsString::from("-datadir=");
    folder.push(datadir);
    let fixed = [
        "-regtest",
        "-listen=0",
        "-connect=0",
        "-dnsseed=0",
        "-fixedseeds=0",
        "-printtoconsole=1",
        "-nodebuglogfile",
        // The default of regtest walks the whole block index at every step.
        "-checkblockindex=0",
        TIP_AGE_MAX_S,
    ];
    std::iter::once(folder).chain(fixed.into_iter().map(OsString::from)).collect()
}

/// Returns a loopback port that was free at the time of the call. It is below the range from which systems take the
/// ports of outgoing connections, so none of these takes it before a server binds it.
///
/// # Errors
/// [`Error`] if all ports are taken.
pub fn free_port() -> Result<u16> {
    static TURN: AtomicU16 = AtomicU16::new(0);
    let mut ports = (0..PORTS).map(|_| port_at(std::process::id(), TURN.fetch_add(1, Ordering::Relaxed)));
    let free = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::AddrInUse).into())
}

/// Returns the port that a process tries at its n-th turn. Processes begin at ports far apart.
fn port_at(process: u32, turn: u16) -> u16 {
    let begin = u16::try_from(process.wrapping_mul(7919) % u32::from(PORTS)).expect("a remainder of 16 bits");
    PORT_MIN + (begin + turn % PORTS) % PORTS
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ports_differ_and_are_none_of_outgoing_connections() {
        let ports: Vec<u16> = (0..100).map(|_| free_port().unwrap()).collect();
        assert!(ports.iter().all(|port| (PORT_MIN..32_768).contains(port)), "{ports:?}");
        assert_eq!(ports.iter().collect::<HashSet<_>>().len(), 100);
    }

    #[test]
    fn processes_begin_far_apart_and_try_every_port() {
        assert!((1..100).all(|process| port_at(process, 0).abs_diff(port_at(process + 1, 0)) > 1000));
        assert_eq!((0..PORTS).map(|turn| port_at(4711, turn)).collect::<HashSet<_>>().len(), usize::from(PORTS));
    }
}
