//! A private Bitcoin Core on regtest: the real node of every test.
//!
//! It listens on loopback only, on a port the system picked, has no peers, and dies with us.

use std::env;
use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bitcoin::{Block, BlockHash, consensus};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::error::{Error, Result, at};
use crate::guarded::{Guarded, Launch};
use crate::rpc::Rpc;

/// Where `scripts/bitcoind` keeps what it built, below the user's cache folder.
const CACHED: &str = "birdhouse/bitcoind-31.99/bin/bitcoind";
/// A start replays blocks after a kill: long chains take their time.
const START_PATIENCE: Duration = Duration::from_mins(10);
const STOP_PATIENCE: Duration = Duration::from_mins(10);
/// Another process may take a port between our choosing and Core's binding it.
const PORT_ATTEMPTS: u32 = 5;
/// Generated chains carry old timestamps; with this the node takes any tip for recent and leaves initial download.
const TIP_AGE_MAX_S: &str = "-maxtipage=3000000000";

/// How the node is to run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// An existing or new folder that stays when the node goes; `None`: a temporary one.
    pub datadir: Option<PathBuf>,
    /// Keep `txindex` and `txospenderindex`, as `ElectrumX` wants them.
    pub indexes: Indexes,
    /// More arguments, for example `-blocksxor=0`.
    pub args: Vec<String>,
}

/// Which of Core's own optional indexes run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Indexes {
    /// None: all that Birdhouse needs.
    #[default]
    None,
    /// `txindex` and `txospenderindex`.
    TxAndSpender,
}

impl Options {
    /// Uses this folder, and leaves it when the node goes.
    #[must_use]
    pub fn in_datadir(mut self, datadir: impl Into<PathBuf>) -> Self {
        self.datadir = Some(datadir.into());
        self
    }

    /// Turns on Core's own indexes.
    #[must_use]
    pub fn with_indexes(mut self) -> Self {
        self.indexes = Indexes::TxAndSpender;
        self
    }

    /// The node writes into its log what [`SequencePublisher`](crate::sequence::SequencePublisher) publishes.
    #[must_use]
    pub fn telling_changes(self) -> Self {
        self.arg("-debug=validation")
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }
}

/// A running (or stopped, or killed) node. Dropping it kills and reaps it.
#[derive(Debug)]
pub struct Bitcoind {
    // Before the folder: fields are dropped in order, and the node must be gone first.
    child: Option<Guarded>,
    rpc: Rpc,
    port: u16,
    options: Options,
    datadir: PathBuf,
    _temporary: Option<TempDir>,
}

impl Bitcoind {
    /// Starts a node and waits until it answers.
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

    /// One call by position: `node.rpc("getblockhash", json!([0]))`.
    #[expect(clippy::needless_pass_by_value, reason = "call sites pass json!([..])")]
    pub fn rpc(&self, method: &str, params: Value) -> Result<Value> {
        self.rpc.call(method, &params)
    }

    /// `GET /rest/<path>` as bytes.
    pub fn rest(&self, path: &str) -> Result<Vec<u8>> {
        self.rpc.rest(path)
    }

    /// Hands a block to the node. A block that is valid but not on the best branch is fine.
    pub fn submit(&self, height: u32, block: &Block) -> Result<()> {
        match self.rpc("submitblock", json!([consensus::encode::serialize_hex(block)]))? {
            Value::Null => Ok(()),
            Value::String(reason) if reason == "inconclusive" || reason == "duplicate" => Ok(()),
            reason => Err(Error::BlockRefused { height, reason: reason.to_string() }),
        }
    }

    /// Height of the active chain.
    pub fn height(&self) -> Result<u32> {
        let count = self.rpc("getblockcount", json!([]))?;
        let height = count.as_u64().and_then(|count| u32::try_from(count).ok());
        height.ok_or_else(|| self.unexpected(&count))
    }

    /// Hash of the active chain's tip.
    pub fn tip(&self) -> Result<BlockHash> {
        self.hash(&self.rpc("getbestblockhash", json!([]))?)
    }

    /// Hash of the active chain's block at this height.
    pub fn block_hash(&self, height: u32) -> Result<BlockHash> {
        self.hash(&self.rpc("getblockhash", json!([height]))?)
    }

    /// Makes the node forget that it ever thought this block valid; it goes back to the best other branch.
    pub fn invalidate(&self, hash: BlockHash) -> Result<()> {
        self.rpc("invalidateblock", json!([hash.to_string()])).map(drop)
    }

    /// Undoes [`Self::invalidate`].
    pub fn reconsider(&self, hash: BlockHash) -> Result<()> {
        self.rpc("reconsiderblock", json!([hash.to_string()])).map(drop)
    }

    fn hash(&self, answer: &Value) -> Result<BlockHash> {
        let hash = answer.as_str().and_then(|text| text.parse().ok());
        hash.ok_or_else(|| self.unexpected(answer))
    }

    fn unexpected(&self, answer: &Value) -> Error {
        Error::Http { url: format!("http://127.0.0.1:{}/", self.port), message: format!("unexpected answer: {answer}") }
    }

    /// The folder given as `-datadir`; the chain's files are in its `regtest`.
    pub fn datadir(&self) -> &Path {
        &self.datadir
    }

    /// `blocks/` of the chain.
    pub fn blocks_dir(&self) -> PathBuf {
        self.datadir.join("regtest/blocks")
    }

    /// The cookie file that opens the RPC port.
    pub fn cookie(&self) -> PathBuf {
        self.datadir.join("regtest/.cookie")
    }

    /// RPC and REST, on 127.0.0.1.
    pub fn rpc_port(&self) -> u16 {
        self.port
    }

    /// The process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Guarded::pid)
    }

    /// Stops the node as an operator does, and waits for its end. Nothing happens when it is not running.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            self.rpc.call("stop", &json!([]))?;
            child.wait(STOP_PATIENCE)?;
        }
        Ok(())
    }

    /// Kills the node as a power cut does (the page cache survives).
    pub fn kill9(&mut self) {
        self.child = None;
    }

    /// Starts it again on the same port and datadir, after stopping it when it still runs.
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
        let mut child = Guarded::spawn(self.command(port)?)?;
        let rpc = Rpc::new(port, self.cookie());
        child.until(START_PATIENCE, || Ok(rpc.call("getblockcount", &json!([])).ok()))?;
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
        Ok(Launch { program: find_bitcoind()?, args, envs: Vec::new(), log: self.datadir.join("bitcoind.log") })
    }
}

/// What every start of ours has: no network but loopback, and a chain of any age is good.
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

/// `$BITCOIND`, else `bitcoind` in `PATH`, else the one that `scripts/bitcoind` built.
pub fn find_bitcoind() -> Result<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&folders).map(|folder| folder.join("bitcoind")).find(|path| path.is_file());
    find_program("bitcoind", "BITCOIND", in_path, CACHED, "scripts/bitcoind")
}

/// The program that `variable` names, else `other`, else the one in the cache.
pub(crate) fn find_program(
    program: &'static str,
    variable: &'static str,
    other: Option<PathBuf>,
    cached: &str,
    script: &'static str,
) -> Result<PathBuf> {
    set(variable)
        .or(other)
        .or_else(|| cache_dir().map(|cache| cache.join(cached)).filter(|path| path.is_file()))
        .ok_or(Error::Missing { program, script, variable })
}

fn set(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// `$XDG_CACHE_HOME`, else `~/.cache`.
fn cache_dir() -> Option<PathBuf> {
    set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))
}

/// A loopback port that was free a moment ago.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
