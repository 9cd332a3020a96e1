//! `sentrum` 0.1.9, which tells the owner of wallets of their transactions. It asks an Electrum server.
//!
//! It makes no message on regtest, because it knows no explorer for it (`get_tx_url_template` of its `message.rs`). So
//! it is set to testnet, whose output scripts and descriptors are the same.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use birdhouse_regtest::child_guard::{ChildGuard, Launch};
use birdhouse_regtest::program::find_program;

use crate::error::{Result, at};

/// The time that its first synchronization may take.
const PATIENCE: Duration = Duration::from_mins(30);
/// A line of its log: it announces what it sees from now on.
const LISTENS: &str = "listening for new relevant events";

/// The fate of the transactions that `sentrum` finds at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// It says nothing of them: its default.
    Silent,
    /// It announces all of them (`--notify-past-txs`).
    Announced,
}

/// Settings of a `sentrum`.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Folder of its wallet and its log.
    pub folder: PathBuf,
    /// Port of the Electrum server, on 127.0.0.1.
    pub electrum_port: u16,
    /// Output descriptor of the wallet.
    pub descriptor: String,
    /// Command line that it runs for each transaction; `{txid}` stands for the id.
    pub command: Vec<String>,
    /// Transactions that it finds at its start.
    pub past: Past,
}

/// A running `sentrum`. Dropping it kills the process and waits for its end.
#[derive(Debug)]
pub struct Sentrum(ChildGuard);

impl Sentrum {
    /// Settings that change its defaults, besides addresses and folders.
    pub const SETTINGS: [(&str, &str); 1] = [("network", "testnet")];

    /// Starts it, and waits until it has seen the wallet's past.
    ///
    /// # Errors
    /// The program is missing (`scripts/peers sentrum`), or ended.
    pub fn start(wanted: &Wanted) -> Result<Self> {
        let cached = "birdhouse/sentrum-0.1.9/bin/sentrum";
        let program = find_program("sentrum", "SENTRUM", None, cached, "scripts/peers sentrum")?;
        fs::create_dir_all(&wanted.folder).map_err(at(&wanted.folder))?;
        let (config, log) = (wanted.folder.join("sentrum.toml"), wanted.folder.join("sentrum.log"));
        fs::write(&config, wanted.config()).map_err(at(&config))?;
        let before = read(&log).len();
        let args =
            [config.into()].into_iter().chain((wanted.past == Past::Announced).then(|| "--notify-past-txs".into()));
        let envs = vec![("XDG_CACHE_HOME".to_owned(), wanted.folder.clone().into())];
        let mut child = ChildGuard::spawn(Launch { program, args: args.collect(), envs, log: log.clone() })?;
        child
            .until::<(), crate::error::Error>(PATIENCE, || Ok(read(&log)[before..].contains(LISTENS).then_some(())))?;
        Ok(Self(child))
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }
}

impl Wanted {
    fn config(&self) -> String {
        // A string of JSON is one of TOML.
        let quoted = |text: &String| serde_json::Value::from(text.as_str()).to_string();
        let (program, args) = self.command.split_first().expect("a command line has a program");
        let args: Vec<String> = args.iter().map(quoted).collect();
        let mut text = String::new();
        let _ = writeln!(text, "[[wallets]]\nname = \"watched\"\ndescriptor = {}", quoted(&self.descriptor));
        let _ = writeln!(text, "[[actions]]\ntype = \"command\"\ncmd = {}", quoted(program));
        let _ = writeln!(text, "args = [{}]", args.join(", "));
        let _ = writeln!(text, "[electrum]\nurl = \"tcp://127.0.0.1:{}\"\nnetwork = \"testnet\"", self.electrum_port);
        text
    }
}

fn read(log: &Path) -> String {
    fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
