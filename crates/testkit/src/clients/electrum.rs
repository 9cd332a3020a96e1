//! The Electrum wallet (Debian's package `electrum`) without a screen: a daemon that is called by its own JSON-RPC.
//!
//! It has a folder of its own, connects only to the server it is given, and ends with the process that started it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use birdhouse_regtest::Error as RegtestError;
use birdhouse_regtest::bitcoind::free_port;
use birdhouse_regtest::child_guard::{ChildGuard, Launch};
use birdhouse_regtest::program::find_program;
use birdhouse_regtest::rpc::base64;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::error::{Error, Result, at};

/// The time that Python may take to start and load a wallet on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
const STOP_PATIENCE: Duration = Duration::from_secs(20);
const USER: &str = "birdhouse";
const PASSWORD: &str = "loopback-only";

/// A wallet on disk that no process has opened.
#[derive(Debug)]
pub struct ElectrumWallet {
    program: PathBuf,
    folder: TempDir,
}

/// A wallet that is open and connected. Dropping it stops its daemon.
#[derive(Debug)]
pub struct Electrum {
    // Declared before the folder: fields are dropped in order, and the daemon must end before its folder is removed.
    child: ChildGuard,
    agent: ureq::Agent,
    url: String,
    wallet: ElectrumWallet,
}

impl ElectrumWallet {
    /// Restores a regtest wallet from seed words or a master key, without a network.
    pub fn restore(secret: &str) -> Result<Self> {
        let in_path = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .map(|folder| folder.join("electrum"))
            .find(|path| path.is_file());
        let program = find_program("electrum", "ELECTRUM", in_path, "birdhouse/electrum", "scripts/prepare peers")?;
        let folder = tempfile::Builder::new().prefix("birdhouse-electrum-").tempdir()?;
        let wallet = Self { program, folder };
        wallet.offline(&["restore", secret])?;
        Ok(wallet)
    }

    /// Returns its receiving or its change addresses up to the gap limit.
    pub fn addresses(&self, which: Addresses) -> Result<Vec<String>> {
        let flag = match which {
            Addresses::Receiving => "--receiving",
            Addresses::Change => "--change",
        };
        let listed = self.offline(&["listaddresses", flag])?;
        serde_json::from_str(&listed).map_err(|_| self.failed(format!("listed no addresses: {listed}")))
    }

    /// Opens the wallet, connected to the server on this loopback port and to no other.
    pub fn open(self, server_port: u16) -> Result<Electrum> {
        self.open_with(&format!("127.0.0.1:{server_port}:t"))
    }

    /// Opens the wallet, connected by TLS.
    pub fn open_by_tls(self, server_port: u16) -> Result<Electrum> {
        self.open_with(&format!("127.0.0.1:{server_port}:s"))
    }

    fn open_with(self, server: &str) -> Result<Electrum> {
        let rpc_port = free_port()?;
        let config = self.folder.path().join("regtest/config");
        let settings = json!({
            "rpcsock": "tcp", "rpchost": "127.0.0.1", "rpcport": rpc_port, "rpcuser": USER, "rpcpassword": PASSWORD,
            "check_updates": false,
        });
        fs::write(&config, settings.to_string()).map_err(at(&config))?;
        let args = self.args(&["daemon", "--oneserver", "--server", server]);
        let (program, log) = (self.program.clone(), self.folder.path().join("daemon.log"));
        let child = ChildGuard::spawn(Launch { program, args, envs: self.envs(), log })?;
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None);
        let agent = config.timeout_global(Some(PATIENCE)).build().new_agent();
        let url = format!("http://127.0.0.1:{rpc_port}/");
        let mut electrum = Electrum { child, agent, url, wallet: self };
        let ask = electrum.asker();
        electrum.child.until(PATIENCE, || Ok::<_, Error>(ask("getinfo", json!({})).ok()))?;
        ask("load_wallet", json!({ "wallet_path": electrum.wallet.file() }))?;
        Ok(electrum)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("wallet")
    }

    /// Runs a command that needs neither daemon nor network; returns its output.
    fn offline(&self, command: &[&str]) -> Result<String> {
        let mut args = self.args(command);
        args.extend(["--offline".into(), "--wallet".into(), self.file().into()]);
        let output = Command::new(&self.program).args(args).envs(self.envs()).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(self.failed(format!("{}: {}{}", command[0], text(&output.stdout), text(&output.stderr))))
        }
    }

    fn args(&self, command: &[&str]) -> Vec<OsString> {
        let mut args: Vec<OsString> = command.iter().map(OsString::from).collect();
        args.extend(["--regtest".into(), "--dir".into(), self.folder.path().into()]);
        args
    }

    /// Returns the environment, in which the user's own wallet is invisible.
    fn envs(&self) -> Vec<(String, OsString)> {
        vec![("HOME".into(), self.folder.path().into())]
    }

    fn failed(&self, what: String) -> Error {
        RegtestError::Start { program: self.program.display().to_string(), what, log: String::new() }.into()
    }
}

/// A branch of a wallet's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// Addresses for payments from others.
    Receiving,
    /// Addresses for its own change.
    Change,
}

impl Electrum {
    /// Runs a command of the wallet with its parameters by name; returns the result.
    pub fn command(&self, name: &str, mut params: Value) -> Result<Value> {
        params["wallet"] = json!(self.wallet.file());
        self.asker()(name, params)
    }

    /// Broadcasts a signed transaction through the server; returns the txid.
    pub fn broadcast(&self, tx: &str) -> Result<String> {
        let txid = self.asker()("broadcast", json!({ "tx": tx }))?;
        txid.as_str().map(str::to_owned).ok_or_else(|| self.wallet.failed(format!("returned {txid} to broadcast")))
    }

    /// Calls `ready` until it returns a value.
    ///
    /// # Errors
    /// A timeout, with the awaited `what` and the end of the daemon's log.
    pub fn until<T>(
        &mut self,
        what: &str,
        mut ready: impl FnMut(&dyn Fn(&str) -> Result<Value>) -> Result<Option<T>>,
    ) -> Result<T> {
        let (ask, file) = (self.asker(), self.wallet.file());
        let command = |name: &str| ask(name, json!({ "wallet": file }));
        let result = self.child.until(PATIENCE, || ready(&command));
        result.map_err(|error| match error {
            Error::Regtest(RegtestError::Start { program, what: why, log }) => {
                RegtestError::Start { program, what: format!("{why} ({what})"), log }.into()
            }
            other => other,
        })
    }

    fn asker(&self) -> impl Fn(&str, Value) -> Result<Value> + use<> {
        let (agent, url) = (self.agent.clone(), self.url.clone());
        move |method, params| {
            let http = |message: String| RegtestError::Http { url: url.clone(), message };
            let body = json!({ "jsonrpc": "2.0", "id": 0, "method": method, "params": params }).to_string();
            let login = base64(format!("{USER}:{PASSWORD}").as_bytes());
            let request = agent.post(&url).header("Authorization", format!("Basic {login}"));
            let mut response = request.send(&body).map_err(|error| http(error.to_string()))?;
            let text = response.body_mut().read_to_string().map_err(|error| http(error.to_string()))?;
            let mut reply: Value = serde_json::from_str(&text).map_err(|_| http(format!("not JSON: {text}")))?;
            match &reply["error"] {
                Value::Null => Ok(reply["result"].take()),
                error => Err(http(format!("{method}: {error}")).into()),
            }
        }
    }

    /// Returns the folder of the daemon, for tests that check that nothing remains.
    pub fn folder(&self) -> &Path {
        self.wallet.folder.path()
    }

    /// Returns the process id of the daemon.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }
}

impl Drop for Electrum {
    /// Stops the daemon by command, as a user does; if that fails its guard kills it.
    fn drop(&mut self) {
        if self.asker()("stop", json!({})).is_ok() {
            let _ = self.child.wait(STOP_PATIENCE);
        }
    }
}
