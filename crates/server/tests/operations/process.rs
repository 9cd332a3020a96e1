//! The server as a child process, with its interfaces.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use birdhouse_testkit::Bitcoind;
use birdhouse_testkit::client::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(10);

/// A running server. Dropping it kills it.
pub(crate) struct Birdhouse {
    child: Child,
    /// `Some` until [`Self::into_dir`].
    dir: Option<TempDir>,
    envs: Vec<(String, String)>,
    args: Vec<String>,
}

/// An HTTP response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Birdhouse {
    pub(crate) fn start(node: &Bitcoind) -> Self {
        Self::start_with(node, &[])
    }

    /// Starts it with additional variables, and waits until it serves the node's tip.
    pub(crate) fn start_with(node: &Bitcoind, envs: &[(&str, &str)]) -> Self {
        Self::start_after(":", node, envs)
    }

    /// Starts it as [`Self::start_with`] does, in a shell that runs `prelude` before it, such as `umask 000`.
    pub(crate) fn start_after(prelude: &str, node: &Bitcoind, envs: &[(&str, &str)]) -> Self {
        Self::start_of(prelude, tempfile::Builder::new().prefix("birdhouse-ops-").tempdir().unwrap(), node, envs)
    }

    /// Starts it as [`Self::start_with`] does, with a copy of the data in a folder.
    pub(crate) fn start_in(data: &Path, node: &Bitcoind, envs: &[(&str, &str)]) -> Self {
        let dir = tempfile::Builder::new().prefix("birdhouse-ops-").tempdir().unwrap();
        let copied = Command::new("cp").arg("-a").arg(data.join(".")).arg(dir.path()).status().unwrap();
        assert!(copied.success());
        Self::start_of(":", dir, node, envs)
    }

    /// Starts it beside a node that may have stopped, and waits for nothing.
    pub(crate) fn start_early(node: &Bitcoind) -> Self {
        Self::start_early_in(tempfile::Builder::new().prefix("birdhouse-ops-").tempdir().unwrap(), node)
    }

    /// Starts it as [`Self::start_early`] does, in the folder of a server that has ended.
    pub(crate) fn start_early_in(dir: TempDir, node: &Bitcoind) -> Self {
        Self::spawn_of(":", dir, node, &[])
    }

    /// Starts it in a folder, with additional variables, and waits for nothing.
    pub(crate) fn start_building_in(dir: TempDir, node: &Bitcoind, envs: &[(&str, &str)]) -> Self {
        Self::spawn_of(":", dir, node, envs)
    }

    fn start_of(prelude: &str, dir: TempDir, node: &Bitcoind, envs: &[(&str, &str)]) -> Self {
        let server = Self::spawn_of(prelude, dir, node, envs);
        let height = node.height().unwrap();
        server.until("serves the tip", || {
            let mut client = server.try_client()?;
            let tip = client.call("blockchain.headers.subscribe", serde_json::json!([])).ok()?;
            (tip["height"] == height).then_some(())
        });
        server
    }

    fn spawn_of(prelude: &str, dir: TempDir, node: &Bitcoind, envs: &[(&str, &str)]) -> Self {
        let args = [
            "--network=regtest".to_owned(),
            format!("--node-dir={}", node.datadir().display()),
            format!("--rpc-addr=127.0.0.1:{}", node.rpc_port()),
            format!("--data-dir={}", dir.path().display()),
        ];
        Self::spawn(prelude, dir, args.into(), &["--electrum-addr=127.0.0.1:0"], envs)
    }

    /// Starts it without a flag but for the dashboard, beside a root that has the file of a packaged service.
    pub(crate) fn start_packaged(root: TempDir) -> Self {
        let envs = [("BIRDHOUSE_ROOT", root.path().display().to_string())];
        let envs: Vec<_> = envs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Self::spawn(":", root, Vec::new(), &[], &envs)
    }

    /// Starts the relay alone in a folder, without a node and without a home directory.
    pub(crate) fn start_relay(dir: TempDir, args: &[&str]) -> Self {
        Self::start_relay_after(":", dir, args)
    }

    /// Starts the relay alone as [`Self::start_relay`] does, in a shell that runs `prelude` before it.
    pub(crate) fn start_relay_after(prelude: &str, dir: TempDir, args: &[&str]) -> Self {
        let server = Self::start_relay_apart(prelude, dir, args);
        server.until("answers birdhouse ctl", || server.ctl(&["status"]).0.then_some(()));
        server
    }

    /// Starts the relay alone as [`Self::start_relay_after`] does, where `birdhouse ctl` may not see its folder.
    pub(crate) fn start_relay_apart(prelude: &str, dir: TempDir, args: &[&str]) -> Self {
        let server = Self::start_relay_early(prelude, dir, args);
        server.until("serves the relay", || server.port("serving the relay"));
        server.until("serves its health", || server.port("serving metrics and health"));
        server
    }

    /// Starts the relay alone as [`Self::start_relay_after`] does, and waits for nothing.
    pub(crate) fn start_relay_early(prelude: &str, dir: TempDir, args: &[&str]) -> Self {
        let always = ["--bitcoin=off".to_owned(), format!("--data-dir={}", dir.path().display())];
        let home = dir.path().join("no-home").display().to_string();
        let args = [&["--relay-addr=127.0.0.1:0"], args].concat();
        Self::spawn(prelude, dir, always.into(), &args, &[("HOME", &home)])
    }

    fn spawn(prelude: &str, dir: TempDir, args: Vec<String>, more: &[&str], envs: &[(&str, &str)]) -> Self {
        let log = File::create(dir.path().join("log")).unwrap();
        let child = Command::new("/bin/sh")
            .args(["-c", &format!("{prelude} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_birdhouse"), "run"])
            .args(&args)
            .arg("--ops-addr=127.0.0.1:0")
            .args(more)
            .envs(envs.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let envs = envs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { child, dir: Some(dir), envs, args }
    }

    /// Returns the folder after the server has ended, for another server.
    pub(crate) fn into_dir(mut self) -> TempDir {
        self.dir.take().unwrap()
    }

    pub(crate) fn dir(&self) -> &std::path::Path {
        self.dir.as_ref().unwrap().path()
    }

    /// Returns the number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Polls until `ask` returns a value, with a deadline.
    pub(crate) fn until<T>(&self, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(value) = ask() {
                return value;
            }
            assert!(start.elapsed() < PATIENCE, "the server never {what}:\n{}", self.log());
            sleep(POLL);
        }
    }

    /// Waits until the first derived index covers these blocks and the server answers: the first build gives its blocks
    /// to derived indexes before it is done.
    pub(crate) fn until_derived(&self, blocks: u32) {
        let covers = || self.ctl_json(&["status"])["derived"][0]["blocks"] == blocks;
        self.until("covers the chain", || covers().then_some(()));
        self.until("answers", || (self.get("/health").status == 200).then_some(()));
    }

    /// Waits until clients have this many connections: the server may not have seen yet that others have ended.
    pub(crate) fn until_connections(&self, count: u64) {
        let open = || {
            let status = self.ctl_json(&["status"]);
            let protocols = status["protocols"].as_array().unwrap();
            protocols.iter().map(|protocol| protocol["connections"].as_u64().unwrap()).sum::<u64>()
        };
        self.until("has these connections alone", || (open() == count).then_some(()));
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir().join("log")).unwrap()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir().join("regtest/ctl.sock")
    }

    pub(crate) fn client(&self) -> Client {
        Client::greet(self.port("serving the Electrum protocol").unwrap()).unwrap()
    }

    fn try_client(&self) -> Option<Client> {
        Client::greet(self.port("serving the Electrum protocol")?).ok()
    }

    /// Returns the port in a line of the log.
    pub(crate) fn port(&self, line: &str) -> Option<u16> {
        let log = self.log();
        let (_, after) = log.split_once(&format!("{line} addr=127.0.0.1:"))?;
        after.split_whitespace().next()?.parse().ok()
    }

    /// Runs `birdhouse ctl` with these arguments; returns success and all output.
    pub(crate) fn ctl(&self, words: &[&str]) -> (bool, String) {
        self.run("ctl", words)
    }

    /// Runs a command with the server's settings and these arguments; returns success and all output.
    pub(crate) fn run(&self, command: &str, words: &[&str]) -> (bool, String) {
        let mut program = Command::new(env!("CARGO_BIN_EXE_birdhouse"));
        let envs = self.envs.iter().map(|(name, value)| (name, value));
        let output = program.arg(command).args(&self.args).args(words).envs(envs).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }

    /// Returns the answer of `birdhouse ctl --json` with these arguments.
    pub(crate) fn ctl_json(&self, words: &[&str]) -> Value {
        let (done, said) = self.ctl(&[&["--json"], words].concat());
        assert!(done, "{said}");
        serde_json::from_str(&said).unwrap()
    }

    /// Sends a GET request over HTTP.
    pub(crate) fn get(&self, path: &str) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port("serving metrics and health").unwrap())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        Answer { status, body: body.to_owned() }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits until the process ends; returns its status and the time that took.
    pub(crate) fn wait(&mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, start.elapsed());
            }
            assert!(start.elapsed() < PATIENCE, "the server does not end:\n{}", self.log());
            sleep(POLL);
        }
    }
}

impl Drop for Birdhouse {
    fn drop(&mut self) {
        // Both fail only if the process has ended and was reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
