//! The measured servers: each with its Electrum listener, Birdhouse with REST too.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use birdhouse_testkit::Bitcoind;
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::peers::{Birdhouse, Home, Peer};

use crate::machine::server::{Server, Setup};
use crate::machine::server_at::ServerAt;

/// Esplora refuses more than 500 unspent outputs; the charts need them all, as the Electrum protocol lists them.
const CONFIG: &str = "[limits.rest]\nunspent = 1000000\n";

/// A server that was started, or the reason why not.
pub(super) struct Subject {
    pub(super) server: Server,
    pub(super) electrum: ServerAt,
    pub(super) rest: Option<ServerAt>,
    /// The process, which ends with this value.
    _peer: Result<Peer>,
}

impl Subject {
    pub(super) fn start_all(setup: &Setup, node: &Bitcoind) -> Vec<Self> {
        setup.servers.iter().map(|server| Self::start(*server, setup, node)).collect()
    }

    pub(super) fn start(server: Server, setup: &Setup, node: &Bitcoind) -> Self {
        if !server.is_birdhouse() {
            let peer = server.start(setup, node);
            return Self { server, electrum: ServerAt::started(server.title(), &peer), rest: None, _peer: peer };
        }
        let port = free_port();
        let peer =
            port.as_ref().map_err(|error| anyhow!("{error:#}")).and_then(|port| with_rest(server, setup, node, *port));
        let electrum = ServerAt::started(&format!("{}, Electrum", server.title()), &peer);
        let rest = ServerAt::beside(&format!("{}, REST", server.title()), &peer, port.unwrap_or_default());
        Self { server, electrum, rest: Some(rest), _peer: peer }
    }

    /// Returns `HOST:PORT` of the REST API.
    pub(super) fn rest_addr(&self) -> Result<&str> {
        self.rest.as_ref().context("the server has no REST API")?.addr()
    }
}

fn with_rest(server: Server, setup: &Setup, node: &Bitcoind, port: u16) -> Result<Peer> {
    let config = setup.work.join("rest.toml");
    fs::create_dir_all(&setup.work)?;
    fs::write(&config, CONFIG).with_context(|| format!("failed to write {}", config.display()))?;
    let (rest, config) = (format!("127.0.0.1:{port}"), text(&config)?);
    let args = ["--profile", server.profile(), "--log", "warn", "--rest-addr", &rest, "--config", config];
    let home = Home::Folder(setup.work.join(server.folder()));
    Ok(Birdhouse::start_in(node, home, &setup.birdhouse, &args)?)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not Unicode", path.display()))
}
