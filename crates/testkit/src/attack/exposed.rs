//! Birdhouse as a public operator runs it: behind a reverse proxy whose PROXY header names the client's address.

use std::fs;
use std::path::Path;

use birdhouse_regtest::bitcoind::{Bitcoind, free_port};

use super::target::Target;
use crate::error::{Result, at};
use crate::peers::{Birdhouse, Home, Peer};
use crate::usage::Usage;

/// A server with two public listeners, TCP and TLS, and one for the operator's own clients.
#[derive(Debug)]
pub struct Exposed {
    /// The server; its port is the operator's.
    pub server: Peer,
    tcp: u16,
    tls: u16,
}

impl Exposed {
    /// Runs `program` on the node, with a temporary index.
    pub fn start(node: &Bitcoind, program: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("birdhouse-exposed-").tempdir()?;
        let (tcp, tls) = (free_port()?, free_port()?);
        let listener = |kind: &str, port: u16| {
            let lines = [
                "[[listener]]".to_owned(),
                format!("name = \"public-{kind}\""),
                format!("kind = \"{kind}\""),
                format!("addr = \"127.0.0.1:{port}\""),
                "proxy-from = [\"127.0.0.1/32\"]".to_owned(),
                "limits = \"public\"".to_owned(),
            ];
            lines.join("\n")
        };
        let config = folder.path().join("birdhouse.toml");
        let text = [listener("tcp", tcp), listener("tls", tls)].join("\n\n");
        fs::write(&config, text).map_err(at(&config))?;
        let args = ["--config", &config.to_string_lossy(), "--log", "info"];
        // The server reads the file at its start only, so the folder may be removed afterwards.
        let server = Birdhouse::start_in(node, Home::Temporary, program, &args)?;
        Ok(Self { server, tcp, tls })
    }

    /// Returns the public TCP listener.
    pub fn public(&self) -> Target {
        Target::Proxied(self.tcp)
    }

    /// Returns the public TLS listener.
    pub fn public_tls(&self) -> Target {
        Target::Proxied(self.tls)
    }

    /// Returns the operator's listener, where no limits by client apply.
    pub fn operator(&self) -> Target {
        Target::Direct(self.server.port())
    }

    /// Resets the maximum of [`Self::memory_bytes`].
    pub fn reset_memory_peak(&self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.server.pid());
        Ok(fs::write(&path, "5").map_err(at(&path))?)
    }

    /// Returns the resident memory of the server's process in bytes, now and at its maximum.
    pub fn memory_bytes(&self) -> Result<(u64, u64)> {
        let usage = Usage::of(self.server.pid())?;
        Ok((usage.resident_bytes, usage.resident_bytes_max))
    }
}
