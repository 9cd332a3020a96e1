//! Nostr relays, to be compared with: each on loopback, in a folder of its own, and dead when we are.
//!
//! What PATH holds is not looked at: a comparison has versions. Each takes in a file of events in the fastest way that leaves it
//! with a whole index.

mod birdhouse;
mod load;
mod nostr_rs_relay;
mod rnostr;
mod strfry;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use birdhouse_regtest::bitcoind::free_port;
use birdhouse_regtest::child_guard::{ChildGuard, Launch};
use tempfile::TempDir;

use crate::error::{Error, Result, at};
use crate::peers::Home;
use crate::pipe;

pub use self::load::Loaded;

/// SQLite may have a log to write back before it serves.
const START_PATIENCE: Duration = Duration::from_mins(10);
const STOP_PATIENCE: Duration = Duration::from_mins(1);

/// Which relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Ours.
    Birdhouse,
    /// rnostr 0.4.8, on LMDB, in Rust; from `scripts/peers rnostr`.
    Rnostr,
    /// nostr-rs-relay 0.8.12, on SQLite, in Rust; from `scripts/peers nostr-rs-relay`.
    NostrRsRelay,
    /// strfry, on LMDB, in C++; the program that `$STRFRY` names.
    Strfry,
}

/// A relay with its folder, whether it runs or not.
#[derive(Debug)]
pub struct Relay {
    kind: Kind,
    program: PathBuf,
    folder: PathBuf,
    _temporary: Option<TempDir>,
}

/// A relay that takes connections. Dropping it kills and reaps it.
#[derive(Debug)]
pub struct Running {
    child: ChildGuard,
    port: u16,
}

impl Kind {
    /// Its name, with its version where it is not ours.
    pub fn title(self) -> &'static str {
        match self {
            Self::Birdhouse => "Birdhouse",
            Self::Rnostr => "rnostr 0.4.8",
            Self::NostrRsRelay => "nostr-rs-relay 0.8.12",
            Self::Strfry => "strfry",
        }
    }

    /// What differs from its defaults, besides addresses and folders, by its own names. All are told to answer the same questions:
    /// of any size, whoever asks.
    pub fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Birdhouse => &birdhouse::SETTINGS,
            Self::Rnostr => &rnostr::SETTINGS,
            Self::NostrRsRelay => &nostr_rs_relay::SETTINGS,
            Self::Strfry => &strfry::SETTINGS,
        }
    }

    /// How it takes in a file of events, in a few words.
    pub fn way_of_loading(self) -> &'static str {
        match self {
            Self::Birdhouse => "birdhouse import",
            Self::Rnostr => "rnostr import, which proves no signature",
            Self::NostrRsRelay => "published over one WebSocket",
            Self::Strfry => "strfry import",
        }
    }

    fn program(self, birdhouse: &Path) -> Result<PathBuf> {
        match self {
            Self::Birdhouse => Ok(birdhouse.to_owned()),
            Self::Rnostr => rnostr::program(),
            Self::NostrRsRelay => nostr_rs_relay::program(),
            Self::Strfry => strfry::program(),
        }
    }
}

// === impl Relay ===

impl Relay {
    /// A relay that does not run yet. The program of ours is `birdhouse`; an error when another's is not there.
    pub fn new(kind: Kind, birdhouse: &Path, home: Home) -> Result<Self> {
        let program = kind.program(birdhouse)?;
        // A server that runs in a folder of its own finds a relative path no more.
        let program = program.canonicalize().map_err(at(program))?;
        let (folder, temporary) = home.open()?;
        Ok(Self { kind, program, folder, _temporary: temporary })
    }

    /// Which relay it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where its events lie, with nothing else of size.
    pub fn events_dir(&self) -> PathBuf {
        self.folder.join("events")
    }

    /// Starts it, and waits until it takes connections.
    pub fn start(&self) -> Result<Running> {
        let port = free_port()?;
        let mut child = ChildGuard::spawn(self.serve(port)?)?;
        child.until(START_PATIENCE, || Ok::<_, Error>(pipe::tcp(port).and_then(pipe::ws).ok()))?;
        Ok(Running { child, port })
    }

    /// Takes in a file of events, one a line; what that cost. It must not run meanwhile.
    pub fn load(&self, events: &Path) -> Result<Loaded> {
        let events = events.canonicalize().map_err(at(events))?;
        fs::create_dir_all(self.events_dir()).map_err(at(self.events_dir()))?;
        match self.kind {
            Kind::Birdhouse => load::by_program(birdhouse::import(self, &events)?),
            Kind::Rnostr => load::by_program(rnostr::import(self, &events)),
            Kind::Strfry => load::by_program(strfry::import(self, &events)?),
            Kind::NostrRsRelay => load::by_socket(self.start()?, &events),
        }
    }

    fn serve(&self, port: u16) -> Result<Launch> {
        fs::create_dir_all(self.events_dir()).map_err(at(self.events_dir()))?;
        match self.kind {
            Kind::Birdhouse => birdhouse::serve(self, port),
            Kind::Rnostr => rnostr::serve(self, port),
            Kind::NostrRsRelay => nostr_rs_relay::serve(self, port),
            Kind::Strfry => strfry::serve(self, port),
        }
    }

    fn launch(&self, args: Vec<std::ffi::OsString>) -> Launch {
        Launch { program: self.program.clone(), args, envs: Vec::new(), log: self.folder.join("log") }
    }

    /// Writes a configuration of lines `name = value`, which all of them read; names have dots.
    fn configure(&self, name: &str, place: &[(&str, String)]) -> Result<PathBuf> {
        let own = place.iter().map(|(name, value)| (*name, value.as_str()));
        let text = own.chain(self.kind.settings().iter().copied()).fold(String::new(), |mut text, (name, value)| {
            writeln!(text, "{name} = {value}").expect("a string takes everything");
            text
        });
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(at(&path))?;
        Ok(path)
    }
}

/// A path or a text as a value of a configuration.
fn quoted(text: impl AsRef<Path>) -> String {
    format!("{:?}", text.as_ref().to_string_lossy())
}

// === impl Running ===

impl Running {
    /// The port on 127.0.0.1 where it speaks WebSocket.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Asks it to end (SIGTERM), and waits until it has.
    pub fn stop(mut self) -> Result<()> {
        let asked = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status()?;
        if asked.success() {
            self.child.wait(STOP_PATIENCE)?;
        }
        Ok(())
    }
}
