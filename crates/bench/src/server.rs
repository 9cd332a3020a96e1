//! Who is measured, and how each is started.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use birdhouse_testkit::Bitcoind;
use birdhouse_testkit::peers::{Birdhouse, Electrs, ElectrumX, Fulcrum, Home, Peer};
use clap::ValueEnum;

use crate::Common;
use crate::record::{Measured, listed};
use crate::server_at::ServerAt;

/// A server, with its version where it is not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Server {
    /// Birdhouse with txids in its index.
    Full,
    /// Birdhouse without.
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

    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Self::Full | Self::Lean)
    }

    /// Birdhouse's name for its profile.
    pub(crate) fn profile(self) -> &'static str {
        if self == Self::Lean { "lean" } else { "full" }
    }

    /// Whether the node must keep its own indexes for it.
    pub(crate) fn needs_node_indexes(self) -> bool {
        matches!(self, Self::Fulcrum | Self::Ex)
    }

    /// The folder of its index below the work folder.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Full => "birdhouse-full",
            Self::Lean => "birdhouse-lean",
            Self::Fulcrum => "fulcrum",
            Self::Ex => "e-x",
            Self::Electrs => "electrs",
        }
    }

    /// Starts it on its index, and waits until it serves the node's tip; the first start builds the index.
    pub(crate) fn start(self, common: &Common, node: &Bitcoind) -> Result<Peer> {
        let home = Home::Folder(common.work.join(self.folder()));
        Ok(match self {
            Self::Full | Self::Lean => {
                Birdhouse::start_in(node, home, &common.birdhouse, &["--profile", self.profile(), "--log", "warn"])?
            }
            Self::Fulcrum => Fulcrum::start_in(node, home)?,
            Self::Ex => ElectrumX::start_in(node, home)?,
            Self::Electrs => Electrs::start_in(node, home)?,
        })
    }

    /// What differs from its defaults.
    fn settings(self) -> String {
        match self {
            Self::Full | Self::Lean => format!("--profile {}", self.profile()),
            Self::Fulcrum => listed(&Fulcrum::SETTINGS),
            Self::Ex => listed(&ElectrumX::SETTINGS) + "; small answers are not held back",
            Self::Electrs => Electrs::FLAGS.join(" "),
        }
    }
}

/// Who was measured, for a record.
pub(crate) fn measured(common: &Common) -> Result<Vec<Measured>> {
    let one = |server: &Server| {
        let version = if server.is_ours() { version_of(&common.birdhouse)? } else { server.title().to_owned() };
        Ok(Measured::new(server.title(), Some(&version), server.settings()))
    };
    common.servers.iter().map(one).collect()
}

/// Starts all of them on their indexes, one after the other; those that cannot be started say why.
pub(crate) fn start_all(common: &Common, node: &Bitcoind) -> Vec<Result<Peer>> {
    common.servers.iter().map(|server| server.start(common, node)).collect()
}

/// Where they are.
pub(crate) fn addresses(common: &Common, peers: &[Result<Peer>]) -> Vec<ServerAt> {
    let at = |(server, peer): (&Server, &Result<Peer>)| ServerAt::started(server.title(), peer);
    common.servers.iter().zip(peers).map(at).collect()
}

/// What a program says to `--version`.
pub(crate) fn version_of(program: &Path) -> Result<String> {
    let output =
        Command::new(program).arg("--version").output().with_context(|| format!("run {}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
