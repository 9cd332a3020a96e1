//! Birdhouse as a public operator runs it: behind a reverse proxy whose PROXY header names the client's address.

use std::fs;
use std::path::Path;

use birdhouse_regtest::bitcoind::{Bitcoind, free_port};

use super::kind::Attack;
use super::target::Target;
use crate::error::{Result, at};
use crate::measure::usage::Usage;
use crate::peers::{Birdhouse, Home, Peer};

/// A server with public listeners for TCP, TLS and REST, and two for the operator's own clients.
#[derive(Debug)]
pub struct Exposed {
    /// The server; its port is the operator's.
    pub server: Peer,
    tcp: u16,
    tls: u16,
    rest: u16,
    operator_rest: u16,
}

impl Exposed {
    /// Runs `program` on the node, with a temporary index.
    pub fn start(node: &Bitcoind, program: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("birdhouse-exposed-").tempdir()?;
        let [tcp, tls, rest, operator_rest] = [free_port()?, free_port()?, free_port()?, free_port()?];
        let listener = |kind: &str, port: u16| {
            // REST has limits of its own, the same on every listener.
            let limits = if kind == "rest" { "" } else { "limits = \"public\"" };
            let lines = [
                "[[listener]]".to_owned(),
                format!("name = \"public-{kind}\""),
                format!("kind = \"{kind}\""),
                format!("addr = \"127.0.0.1:{port}\""),
                "proxy-from = [\"127.0.0.1/32\"]".to_owned(),
                limits.to_owned(),
            ];
            lines.join("\n")
        };
        let config = folder.path().join("birdhouse.toml");
        let text = [listener("tcp", tcp), listener("tls", tls), listener("rest", rest)].join("\n\n");
        fs::write(&config, text).map_err(at(&config))?;
        let operator = format!("127.0.0.1:{operator_rest}");
        let args = ["--config", &config.to_string_lossy(), "--log", "info", "--rest-addr", &operator];
        // The server reads the file at its start only, so the folder may be removed afterwards.
        let server = Birdhouse::start_in(node, Home::Temporary, program, &args)?;
        Ok(Self { server, tcp, tls, rest, operator_rest })
    }

    /// Returns the public TCP listener.
    pub fn public(&self) -> Target {
        Target::Proxied(self.tcp)
    }

    /// Returns the public TLS listener.
    pub fn public_tls(&self) -> Target {
        Target::Proxied(self.tls)
    }

    /// Returns the public listener of the REST API.
    pub fn public_rest(&self) -> Target {
        Target::Proxied(self.rest)
    }

    /// Returns the operator's listener of the REST API, which has the limits of the public one.
    pub fn operator_rest(&self) -> Target {
        Target::Direct(self.operator_rest)
    }

    /// Returns the public listener that an attack aims at.
    pub fn public_for(&self, attack: Attack) -> Target {
        match attack {
            Attack::TlsGarbage => self.public_tls(),
            Attack::RestFlood => self.public_rest(),
            _ => self.public(),
        }
    }

    /// Returns the operator's listener that an attack aims at.
    pub fn operator_for(&self, attack: Attack) -> Target {
        if attack == Attack::RestFlood { self.operator_rest() } else { self.operator() }
    }

    /// Returns the operator's listener, where no limits by client apply.
    pub fn operator(&self) -> Target {
        Target::Direct(self.server.port())
    }

    /// Resets the maximum of [`Self::memory_bytes`].
    pub fn reset_memory_peak(&self) -> Result<()> {
        Usage::reset_memory_peak(self.server.pid())
    }

    /// Returns the resident memory of the server's process in bytes, now and at its maximum.
    pub fn memory_bytes(&self) -> Result<(u64, u64)> {
        let usage = Usage::of(self.server.pid())?;
        Ok((usage.resident_bytes, usage.resident_bytes_max))
    }
}
