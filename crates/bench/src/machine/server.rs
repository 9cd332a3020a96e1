//! The servers that are measured, and their start.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use birdhouse_testkit::Bitcoind;
use birdhouse_testkit::peers::{Birdhouse, Electrs, ElectrumX, Fulcrum, Home, Peer};
use birdhouse_testkit::usage::Usage;
use clap::ValueEnum;

use crate::machine::args::default_birdhouse;
use crate::machine::server_at::ServerAt;
use crate::report::record::{Measured, listed};

/// Chain, folders and servers of a measurement.
#[derive(Debug, clap::Args)]
pub(crate) struct Setup {
    /// Data folder of a stopped node with the chain; the node is started and stopped by this program.
    #[arg(long)]
    pub(crate) chain: PathBuf,
    /// Folder for the indexes, which are kept and used again.
    #[arg(long)]
    pub(crate) work: PathBuf,
    /// Server binary to measure [default: the one beside this program].
    #[arg(long, default_value_os_t = default_birdhouse(), hide_default_value = true)]
    pub(crate) birdhouse: PathBuf,
    /// Servers to measure, in this order.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Server::ALL)]
    pub(crate) servers: Vec<Server>,
}

/// A kind of server; servers other than Birdhouse have a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Server {
    /// Birdhouse with txids in its index.
    Full,
    /// Birdhouse without txids in its index.
    Lean,
    /// Fulcrum 2.1.1, the program that `$FULCRUM` names.
    Fulcrum,
    /// ElectrumX 2.0.0.
    Ex,
    /// electrs 0.12.0.
    Electrs,
}

impl Server {
    pub(crate) const ALL: [Self; 5] = [Self::Full, Self::Lean, Self::Fulcrum, Self::Ex, Self::Electrs];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Full => "birdhouse full",
            Self::Lean => "birdhouse lean",
            Self::Fulcrum => "Fulcrum 2.1.1",
            Self::Ex => "e-x 2.0.0",
            Self::Electrs => "electrs 0.12.0",
        }
    }

    pub(crate) fn is_birdhouse(self) -> bool {
        matches!(self, Self::Full | Self::Lean)
    }

    /// Returns Birdhouse's name of the profile.
    pub(crate) fn profile(self) -> &'static str {
        if self == Self::Lean { "lean" } else { "full" }
    }

    /// Returns true for a server that needs the node's own indexes.
    pub(crate) fn needs_node_indexes(self) -> bool {
        matches!(self, Self::Fulcrum | Self::Ex)
    }

    /// Returns the name of its folder below the work folder.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Full => "birdhouse-full",
            Self::Lean => "birdhouse-lean",
            Self::Fulcrum => "fulcrum",
            Self::Ex => "e-x",
            Self::Electrs => "electrs",
        }
    }

    /// Starts the server on its index and waits until it serves the node's tip. The first start builds the index.
    pub(crate) fn start(self, setup: &Setup, node: &Bitcoind) -> Result<Peer> {
        let home = Home::Folder(setup.work.join(self.folder()));
        Ok(match self {
            Self::Full | Self::Lean => {
                Birdhouse::start_in(node, home, &setup.birdhouse, &["--profile", self.profile(), "--log", "warn"])?
            }
            Self::Fulcrum => Fulcrum::start_in(node, home)?,
            Self::Ex => ElectrumX::start_in(node, home)?,
            Self::Electrs => Electrs::start_in(node, home)?,
        })
    }

    /// Starts the server as [`Self::start`] does. Returns it with the wall time in seconds and its usage until then.
    pub(crate) fn start_measured(self, setup: &Setup, node: &Bitcoind) -> Result<(Peer, f64, Usage)> {
        let started = Instant::now();
        let peer = self.start(setup, node)?;
        let wall_s = started.elapsed().as_secs_f64();
        let usage = Usage::of(peer.pid())?;
        Ok((peer, wall_s, usage))
    }

    /// Returns the settings that change its defaults.
    fn settings(self) -> String {
        match self {
            Self::Full | Self::Lean => format!("--profile {}", self.profile()),
            Self::Fulcrum => listed(&Fulcrum::SETTINGS),
            Self::Ex => listed(&ElectrumX::SETTINGS) + "; small answers are not delayed",
            Self::Electrs => Electrs::FLAGS.join(" "),
        }
    }
}

/// Returns the measured servers, for a record.
pub(crate) fn measured(setup: &Setup) -> Result<Vec<Measured>> {
    let one = |server: &Server| {
        let version = if server.is_birdhouse() { version_of(&setup.birdhouse)? } else { server.title().to_owned() };
        Ok(Measured::new(server.title(), Some(&version), server.settings()))
    };
    setup.servers.iter().map(one).collect()
}

/// Starts all servers on their indexes in sequence; a server that does not start has its error.
pub(crate) fn start_all(setup: &Setup, node: &Bitcoind) -> Vec<Result<Peer>> {
    setup.servers.iter().map(|server| server.start(setup, node)).collect()
}

/// Returns the addresses of started servers.
pub(crate) fn addresses(setup: &Setup, peers: &[Result<Peer>]) -> Vec<ServerAt> {
    let at = |(server, peer): (&Server, &Result<Peer>)| ServerAt::started(server.title(), peer);
    setup.servers.iter().zip(peers).map(at).collect()
}

/// Returns the output of `--version`.
pub(crate) fn version_of(program: &Path) -> Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("failed to run {}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
