//! The binary as a child process, and its data folder.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use birdhouse_chain::Profile;
use birdhouse_testkit::client::Client;
use birdhouse_testkit::{Bitcoind, ChainBuilder};
use serde_json::json;
use tempfile::TempDir;

use super::answers::{self, Answers};

const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(20);

/// A data folder, with the arguments for it.
pub(crate) struct Home {
    pub(crate) dir: TempDir,
    pub(crate) profile: Profile,
    /// Arguments of every call.
    args: Vec<String>,
    blocks_dir: PathBuf,
}

impl Home {
    /// Returns a new folder for an index of this node's chain.
    pub(crate) fn new(node: &Bitcoind, profile: Profile) -> Self {
        let args = [
            "--network=regtest".to_owned(),
            format!("--node-dir={}", node.datadir().display()),
            format!("--rpc-addr=127.0.0.1:{}", node.rpc_port()),
        ];
        Self::with(args.into(), node.blocks_dir(), profile)
    }

    /// Returns a new folder for an index of block files without a node.
    pub(crate) fn without_node(blocks_dir: &Path) -> Self {
        let args = ["--network=regtest".to_owned(), format!("--blocks-dir={}", blocks_dir.display())];
        Self::with(args.into(), blocks_dir.to_owned(), Profile::Full)
    }

    /// Returns a new folder for a relay alone.
    pub(crate) fn of_relay(args: &[String]) -> Self {
        Self::with([&["--bitcoin=off".to_owned()], args].concat(), PathBuf::new(), Profile::Full)
    }

    fn with(mut args: Vec<String>, blocks_dir: PathBuf, profile: Profile) -> Self {
        let dir = tempfile::Builder::new().prefix("birdhouse-kill-").tempdir().unwrap();
        args.push(format!("--data-dir={}", dir.path().display()));
        args.push(format!("--profile={}", if profile == Profile::Lean { "lean" } else { "full" }));
        Self { dir, profile, args, blocks_dir }
    }

    /// Adds an argument to every call.
    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    pub(crate) fn index_dir(&self) -> PathBuf {
        self.dir.path().join("regtest")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// Returns the command `birdhouse <command> <arguments of this home>`.
    pub(crate) fn command_line(&self, command: &str) -> Vec<String> {
        let program = env!("CARGO_BIN_EXE_birdhouse").to_owned();
        let listen = (command == "run").then(|| "--electrum-addr=127.0.0.1:0".to_owned());
        [program, command.to_owned()].into_iter().chain(self.args.iter().cloned()).chain(listen).collect()
    }

    /// Starts a command, with its output appended to the log.
    pub(crate) fn start(&self, command: &str) -> Bird {
        self.spawn(&self.command_line(command))
    }

    /// Starts a program, with its output appended to the log.
    pub(crate) fn spawn(&self, line: &[String]) -> Bird {
        let log = OpenOptions::new().create(true).append(true).open(self.log_path()).unwrap();
        Bird::spawn(line, log)
    }

    /// Builds the index or catches up, and waits for the end.
    pub(crate) fn index(&self) {
        let status = self.start("index").wait();
        assert!(status.success(), "index ended with {status}:\n{}", self.log());
    }

    /// Runs a command to its end; returns success and all output.
    pub(crate) fn output(&self, command: &str, more: &[&str]) -> (bool, String) {
        let line = self.command_line(command);
        let output = Command::new(&line[0]).args(&line[1..]).args(more).stdin(Stdio::null()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    pub(crate) fn answers(&self, chain: &ChainBuilder) -> Answers {
        self.answers_with(&self.blocks_dir, chain)
    }

    /// Returns the answers with the transactions of another node's files.
    pub(crate) fn answers_with(&self, blocks_dir: &Path, chain: &ChainBuilder) -> Answers {
        answers::read(&self.index_dir(), blocks_dir, self.profile, chain)
    }

    /// Returns the answers without transactions, which the node need not have.
    pub(crate) fn answers_of_scripts(&self, chain: &ChainBuilder) -> Answers {
        answers::read_scripts(&self.index_dir(), &self.blocks_dir, self.profile, chain)
    }

    /// Proves that no trace of the kills is left: every row is that of a fresh build.
    pub(crate) fn assert_sound(&self, chain: &ChainBuilder, fresh: &Answers, context: &str) {
        let (proved, said) = self.output("verify", &["--all"]);
        assert!(proved && said.contains(" 0 differences"), "{context}: {said}");
        self.answers(chain).assert_equal(fresh, context);
        let left: Vec<_> = std::fs::read_dir(self.index_dir().join("build")).unwrap().collect();
        assert!(left.is_empty(), "{context}: temporary files are left: {left:?}");
        assert!(!self.log().contains("panicked"), "{context}: {}", self.log());
    }

    /// Waits until the log has `text` after its first `from` bytes.
    pub(crate) fn wait_for_log(&self, from: usize, text: &str) {
        self.wait_until(&format!("the log says {text:?}"), || self.log()[from..].contains(text));
    }

    /// Waits until the last started server is at the tip of `chain`.
    pub(crate) fn wait_for_tip(&self, chain: &ChainBuilder) {
        let tip = bitcoin::consensus::encode::serialize_hex(&chain.blocks().last().unwrap().header);
        self.wait_until("the server reaches the tip", || self.served_tip().as_deref() == Some(&tip));
    }

    /// Polls until the condition holds, with a deadline.
    pub(crate) fn wait_until(&self, what: &str, is_met: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_met() {
            assert!(start.elapsed() < PATIENCE, "never happened: {what}\n{}", self.log());
            sleep(POLL);
        }
    }

    /// Returns the height at which the last started server answers.
    pub(crate) fn served_height(&self) -> Option<u32> {
        u32::try_from(self.tip_answer()?["height"].as_u64()?).ok()
    }

    fn served_tip(&self) -> Option<String> {
        self.tip_answer()?["hex"].as_str().map(str::to_owned)
    }

    fn tip_answer(&self) -> Option<serde_json::Value> {
        self.ask("blockchain.headers.subscribe", json!([]))
    }

    /// Asks the last started server; `None` if it does not answer.
    pub(crate) fn ask(&self, method: &str, params: serde_json::Value) -> Option<serde_json::Value> {
        self.client_since(0)?.call(method, params).ok()
    }

    /// Connects to the last server that has written to the log after its first `from` bytes.
    pub(crate) fn client_since(&self, from: usize) -> Option<Client> {
        let log = self.log();
        let (_, after) = log.get(from..)?.rsplit_once("serving the Electrum protocol addr=127.0.0.1:")?;
        // A line may be written by half.
        let (port, _) = after.split_once(char::is_whitespace)?;
        Client::greet(port.parse().ok()?).ok()
    }
}

/// Builds a fresh index of the node's chain, which every other one must equal.
pub(crate) fn fresh_answers(node: &Bitcoind, chain: &ChainBuilder, profile: Profile) -> Answers {
    let home = Home::new(node, profile);
    home.index();
    home.answers(chain)
}

/// A running child. Dropping it kills it.
pub(crate) struct Bird(Child);

impl Bird {
    fn spawn(line: &[String], log: File) -> Self {
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Self(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until the process ends.
    pub(crate) fn wait(mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "birdhouse does not end");
            sleep(POLL);
        }
    }

    /// Kills it after `delay`. Returns the status if it ended by itself before.
    pub(crate) fn kill_after(mut self, delay: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        while start.elapsed() < delay {
            if let Some(status) = self.0.try_wait().unwrap() {
                return Some(status);
            }
            // A random moment of the server's work, not a wait for a condition.
            sleep(Duration::from_millis(1));
        }
        None
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        // SIGKILL; both fail only if the process has ended and was reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
