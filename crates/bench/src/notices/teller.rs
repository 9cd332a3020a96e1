//! A program that tells of payments, running or not.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::Bitcoind;
use birdhouse_testkit::peers::{Birdhouse, Home, Past, Peer, Sentrum, Wanted};
use birdhouse_testkit::sequence::SequencePublisher;
use birdhouse_testkit::usage::Usage;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::chain::descriptor;
use super::hook::Hook;
use super::plan::{Feed, Plan, Program, Subject};

const POLL: Duration = Duration::from_millis(100);

/// A program with its folder, and the server that it asks.
pub(super) struct Teller<'a> {
    program: Program,
    birdhouse: &'a Path,
    scripts: u32,
    patience: Duration,
    /// Publishes the changes of the node's mempool, where the server hears of them by ZMQ.
    publisher: Option<SequencePublisher>,
    folder: TempDir,
    /// Birdhouse: the program itself, or the one that `sentrum` asks.
    server: Option<Peer>,
    sentrum: Option<Sentrum>,
}

/// CPU time and memory of the program, and of the server that it asks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    pub(super) program: Usage,
    /// Nothing for a program that is the server.
    pub(super) server: Usage,
}

impl<'a> Teller<'a> {
    /// Prepares the program; it does not run yet.
    pub(super) fn new(subject: Subject, plan: &'a Plan, node: &Bitcoind) -> Result<Self> {
        let publisher = match subject.feed {
            Feed::Polled => None,
            Feed::Zmq => Some(SequencePublisher::start(node)?),
        };
        Ok(Self {
            program: subject.program,
            birdhouse: &plan.birdhouse,
            scripts: plan.scripts,
            patience: Duration::from_secs(plan.patience_s),
            publisher,
            folder: tempfile::Builder::new().prefix("birdhouse-notices-").tempdir()?,
            server: None,
            sentrum: None,
        })
    }

    /// Starts the program and the server that it needs, and waits until it knows all scripts.
    pub(super) fn start(&mut self, node: &Bitcoind, hook: &Hook) -> Result<()> {
        let home = self.folder.path().join("birdhouse");
        fs::create_dir_all(&home)?;
        if self.program == Program::Birdhouse {
            write_watches(&home.join("watches.toml"), &hook.command(None)?)?;
        }
        if self.server.is_none() {
            self.server = Some(self.start_server(node, Home::Folder(home.clone()))?);
        }
        match self.program {
            Program::Birdhouse => self.wait_for_watch(&home),
            Program::Unwatched => Ok(()),
            Program::Sentrum => self.start_sentrum(hook, Past::Silent),
            Program::SentrumPast => self.start_sentrum(hook, Past::Announced),
        }
    }

    /// Starts the server, and waits until it hears of the mempool.
    fn start_server(&self, node: &Bitcoind, home: Home) -> Result<Peer> {
        let quiet = ["--log", "warn"];
        let Some(publisher) = &self.publisher else {
            return Ok(Birdhouse::start_in(node, home, self.birdhouse, &quiet)?);
        };
        let address = publisher.address();
        let args = [&quiet[..], &["--zmq-sequence-addr", &address]].concat();
        let server = Birdhouse::start_in(node, home, self.birdhouse, &args)?;
        publisher.wait_for_subscriber()?;
        Ok(server)
    }

    /// Kills the program; a server that it asks goes on.
    pub(super) fn kill(&mut self) {
        match self.program {
            Program::Birdhouse | Program::Unwatched => self.server = None,
            Program::Sentrum | Program::SentrumPast => self.sentrum = None,
        }
    }

    /// Waits until the server has the node's tip.
    pub(super) fn wait_for_tip(&mut self, node: &Bitcoind) -> Result<()> {
        Ok(self.server.as_mut().context("it does not run")?.wait_for_tip(node)?)
    }

    /// Returns what the program and its server have used until now.
    pub(super) fn cost(&self) -> Result<Cost> {
        let server = Usage::of(self.server.as_ref().context("it does not run")?.pid())?;
        Ok(match &self.sentrum {
            Some(sentrum) => Cost { program: Usage::of(sentrum.pid())?, server },
            None => Cost { program: server, server: Usage::default() },
        })
    }

    fn start_sentrum(&mut self, hook: &Hook, past: Past) -> Result<()> {
        let wanted = Wanted {
            folder: self.folder.path().join("sentrum"),
            electrum_port: self.server.as_ref().context("it has no server")?.port(),
            descriptor: descriptor(),
            command: hook.command(Some("{txid}"))?,
            past,
        };
        self.sentrum = Some(Sentrum::start(&wanted)?);
        Ok(())
    }

    fn wait_for_watch(&self, home: &Path) -> Result<()> {
        let started = Instant::now();
        loop {
            let mut command = Command::new(self.birdhouse);
            command.args(["watch", "--network=regtest", "--data-dir"]).arg(home).args(["list", "--json"]);
            let said = String::from_utf8(command.output()?.stdout)?;
            let status: Option<Value> = said.lines().last().and_then(|line| serde_json::from_str(line).ok());
            let known = status.as_ref().and_then(|status| status["watches"][0]["scripts"].as_u64()).unwrap_or(0);
            if known >= u64::from(self.scripts) {
                return Ok(());
            }
            ensure!(started.elapsed() < self.patience, "it knows {known} scripts of {}", self.scripts);
            sleep(POLL);
        }
    }
}

impl Cost {
    /// Returns the CPU seconds of program and server since an earlier time.
    pub(super) fn cpu_s_since(&self, before: &Self) -> [f64; 2] {
        let since = |now: Usage, before: Usage| now.cpu.saturating_sub(before.cpu).as_secs_f64();
        [since(self.program, before.program), since(self.server, before.server)]
    }
}

/// Writes the file of one watch, whose notices run a command.
fn write_watches(path: &Path, command: &[String]) -> Result<()> {
    let text = format!(
        "[[channel]]\nname = \"hook\"\nkind = \"command\"\ncommand = {}\n[[watch]]\nname = \"watched\"\n\
         descriptor = \"{}\"\nconfirmations = [0]\nchannels = [\"hook\"]\n",
        json!(command),
        descriptor()
    );
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, Permissions::from_mode(0o600))?)
}
