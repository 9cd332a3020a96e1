//! Birdhouse as a public operator runs it: behind a reverse proxy that says where clients come from.

use std::fs;
use std::path::Path;

use birdhouse_regtest::bitcoind::{Bitcoind, free_port};

use super::Target;
use crate::error::{Result, at};
use crate::peers::{Birdhouse, Home, Peer};
use crate::usage::Usage;

/// A server with a listener for strangers, one for strangers by TLS, and one for the operator himself.
#[derive(Debug)]
pub struct Exposed {
    /// The server; its own port is the operator's.
    pub server: Peer,
    tcp: u16,
    tls: u16,
}

impl Exposed {
    /// Runs `program` on the node with a temporary index.
    pub fn start(node: &Bitcoind, program: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("birdhouse-exposed-").tempdir()?;
        let (tcp, tls) = (free_port()?, free_port()?);
        let listener = |kind: &str, port: u16| {
            let lines = [
                "[[listener]]".to_owned(),
                format!("name = \"strangers-{kind}\""),
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
        // The file is read at the start alone.
        let server = Birdhouse::start_in(node, Home::Temporary, program, &args)?;
        Ok(Self { server, tcp, tls })
    }

    /// Where strangers connect.
    pub fn strangers(&self) -> Target {
        Target::Proxied(self.tcp)
    }

    /// Where strangers connect by TLS.
    pub fn strangers_by_tls(&self) -> Target {
        Target::Proxied(self.tls)
    }

    /// Where the operator's own clients connect; nothing is counted by client there.
    pub fn operator(&self) -> Target {
        Target::Direct(self.server.port())
    }

    /// Forgets what [`Self::memory_bytes`] was at most.
    pub fn forget_memory_peak(&self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.server.pid());
        Ok(fs::write(&path, "5").map_err(at(&path))?)
    }

    /// Memory that the server's process holds and has held at most, in bytes.
    pub fn memory_bytes(&self) -> Result<(u64, u64)> {
        let usage = Usage::of(self.server.pid())?;
        Ok((usage.resident_bytes, usage.resident_bytes_max))
    }
}
