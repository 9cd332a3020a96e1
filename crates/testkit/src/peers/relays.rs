//! Nostr relays to compare with. Each runs on loopback in a folder of its own and ends with the process that started
//! it.
//!
//! A comparison has fixed versions, so programs in `PATH` are not used. Each relay loads a file of events in the
//! fastest way that leaves it with a complete index.

mod birdhouse;
mod folder;
mod load;
mod nostr_rs_relay;
mod rnostr;
mod running;
mod strfry;

use std::fs;
use std::path::{Path, PathBuf};

use birdhouse_regtest::bitcoind::free_port;
use birdhouse_regtest::child_guard::Launch;
use tempfile::TempDir;

use self::folder::RelayFolder;
pub use self::load::Loaded;
pub use self::running::Running;
use crate::error::{Result, at};
use crate::peers::Home;

/// A kind of relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Birdhouse.
    Birdhouse,
    /// rnostr 0.4.8, on LMDB, in Rust; from `scripts/peers rnostr`.
    Rnostr,
    /// nostr-rs-relay 0.8.12, on SQLite, in Rust; from `scripts/peers nostr-rs-relay`.
    NostrRsRelay,
    /// strfry, on LMDB, in C++; the program that `$STRFRY` names.
    Strfry,
}

/// A relay with its folder, running or not.
#[derive(Debug)]
pub struct Relay {
    kind: Kind,
    folder: RelayFolder,
    _temporary: Option<TempDir>,
}

impl Kind {
    /// Returns the name, with the version of a relay other than Birdhouse.
    pub fn title(self) -> &'static str {
        match self {
            Self::Birdhouse => "Birdhouse",
            Self::Rnostr => "rnostr 0.4.8",
            Self::NostrRsRelay => "nostr-rs-relay 0.8.12",
            Self::Strfry => "strfry",
        }
    }

    /// Returns the settings that change its defaults, besides addresses and folders, by its own names. They let every
    /// relay answer the same queries, of any size, to any client.
    pub fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Birdhouse => &birdhouse::SETTINGS,
            Self::Rnostr => &rnostr::SETTINGS,
            Self::NostrRsRelay => &nostr_rs_relay::SETTINGS,
            Self::Strfry => &strfry::SETTINGS,
        }
    }

    /// Returns a short description of the way it loads a file of events.
    pub fn way_of_loading(self) -> &'static str {
        match self {
            Self::Birdhouse => "birdhouse import",
            Self::Rnostr => "rnostr import, which verifies no signature",
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
    /// Makes a relay that does not run yet; `birdhouse` is the path of Birdhouse.
    ///
    /// # Errors
    /// When the program of another relay is missing.
    pub fn new(kind: Kind, birdhouse: &Path, home: Home) -> Result<Self> {
        let program = kind.program(birdhouse)?;
        // A relative path would be wrong for a server that runs in a folder of its own.
        let program = program.canonicalize().map_err(at(program))?;
        let (path, temporary) = home.open()?;
        Ok(Self { kind, folder: RelayFolder { program, path }, _temporary: temporary })
    }

    /// Returns the kind of relay.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the folder of the events, which holds nothing else of size.
    pub fn events_dir(&self) -> PathBuf {
        self.folder.events_dir()
    }

    /// Starts the relay and waits until it accepts connections.
    pub fn start(&self) -> Result<Running> {
        let port = free_port()?;
        Running::start(self.serve(port)?, port)
    }

    /// Loads a file of events, one a line, and returns the cost. The relay must not run meanwhile.
    pub fn load(&self, events: &Path) -> Result<Loaded> {
        let events = events.canonicalize().map_err(at(events))?;
        fs::create_dir_all(self.events_dir()).map_err(at(self.events_dir()))?;
        match self.kind {
            Kind::Birdhouse => load::by_program(birdhouse::import(&self.folder, &events)?),
            Kind::Rnostr => load::by_program(rnostr::import(&self.folder, &events)),
            Kind::Strfry => load::by_program(strfry::import(&self.folder, &events)?),
            Kind::NostrRsRelay => load::by_socket(self.start()?, &events),
        }
    }

    fn serve(&self, port: u16) -> Result<Launch> {
        fs::create_dir_all(self.events_dir()).map_err(at(self.events_dir()))?;
        match self.kind {
            Kind::Birdhouse => birdhouse::serve(&self.folder, port),
            Kind::Rnostr => rnostr::serve(&self.folder, port),
            Kind::NostrRsRelay => nostr_rs_relay::serve(&self.folder, port),
            Kind::Strfry => strfry::serve(&self.folder, port),
        }
    }
}
