//! Birdhouse as a public operator runs it: behind a reverse proxy whose PROXY header names the client's address.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use birdhouse_regtest::bitcoind::{Bitcoind, free_port};

use super::asked_of_relay::store;
use super::kind::{Attack, Door};
use super::target::Target;
use crate::clients::http_client::HttpClient;
use crate::error::{Error, Result, at};
use crate::measure::usage::Usage;
use crate::peers::{Birdhouse, Home, Peer};

/// A server with public listeners for TCP, TLS, REST, the explorer and the relay, three for the operator's own clients,
/// one for replicas, and the dashboard.
#[derive(Debug)]
pub struct Exposed {
    /// The server; its port is the operator's.
    pub server: Peer,
    ports: Ports,
}

#[derive(Debug)]
struct Ports {
    tcp: u16,
    tls: u16,
    rest: u16,
    explorer: u16,
    relay: u16,
    operator_rest: u16,
    operator_relay: u16,
    replicas: u16,
    operations: u16,
}

impl Ports {
    fn free() -> Result<Self> {
        Ok(Self {
            tcp: free_port()?,
            tls: free_port()?,
            rest: free_port()?,
            explorer: free_port()?,
            relay: free_port()?,
            operator_rest: free_port()?,
            operator_relay: free_port()?,
            replicas: free_port()?,
            operations: free_port()?,
        })
    }
}

impl Exposed {
    /// Runs `program` on the node, with a temporary index and a relay that has large events.
    pub fn start(node: &Bitcoind, program: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("birdhouse-exposed-").tempdir()?;
        let ports = Ports::free()?;
        let listener = |kind: &str, port: u16| {
            // REST and relay have limits of their own, the same on every listener.
            let limits = if matches!(kind, "rest" | "http" | "relay") { "" } else { "limits = \"public\"" };
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
        let Ports { tcp, tls, rest, explorer, relay, operator_rest, operator_relay, replicas, operations } = ports;
        let listeners = [("tcp", tcp), ("tls", tls), ("rest", rest), ("http", explorer), ("relay", relay)];
        let text = listeners.map(|(kind, port)| listener(kind, port)).join("\n\n");
        // The proxy names public addresses, which send no key in clear unless it is set.
        let head = "silent-payments = \"scan\"\n\n[limits.public]\nscan-keys = \"any\"\n\n";
        fs::write(&config, head.to_owned() + &text).map_err(at(&config))?;
        let secret = folder.path().join("secret");
        fs::write(&secret, "01".repeat(32)).map_err(at(&secret))?;
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).map_err(at(&secret))?;
        let own = |flag: &str, port: u16| format!("--{flag}-addr=127.0.0.1:{port}");
        let args = [
            format!("--config={}", config.display()),
            format!("--replica-secret-file={}", secret.display()),
            "--log=info".to_owned(),
            own("rest", operator_rest),
            own("relay", operator_relay),
            own("replicas", replicas),
            own("ops", operations),
        ];
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        // The server reads the files at its start only, so the folder may be removed afterwards.
        let server = Birdhouse::start_in(node, Home::Temporary, program, &args)?;
        store(operator_relay)?;
        Ok(Self { server, ports })
    }

    /// Returns the public TCP listener.
    pub fn public(&self) -> Target {
        Target::Proxied(self.ports.tcp)
    }

    /// Returns the public listener of the REST API.
    pub fn public_rest(&self) -> Target {
        Target::Proxied(self.ports.rest)
    }

    /// Returns the public listener that an attack aims at; replicas and dashboard have one each.
    pub fn public_for(&self, attack: Attack) -> Target {
        match attack.door() {
            Door::Wallets => self.public(),
            Door::WalletsTls => Target::Proxied(self.ports.tls),
            Door::Rest => self.public_rest(),
            Door::Explorer => Target::Proxied(self.ports.explorer),
            Door::Replicas => Target::Direct(self.ports.replicas),
            Door::Operations => self.operations(),
            Door::Relay => Target::Proxied(self.ports.relay),
        }
    }

    /// Returns the dashboard's listener.
    pub fn operations(&self) -> Target {
        Target::Direct(self.ports.operations)
    }

    /// Returns the operator's listener that an attack aims at: no limits by client apply to wallets there. The explorer
    /// has no other listener.
    pub fn operator_for(&self, attack: Attack) -> Target {
        match attack.door() {
            Door::Wallets | Door::WalletsTls => Target::Direct(self.server.port()),
            Door::Rest => Target::Direct(self.ports.operator_rest),
            Door::Relay => Target::Direct(self.ports.operator_relay),
            Door::Explorer | Door::Replicas | Door::Operations => self.public_for(attack),
        }
    }

    /// Returns the number of transactions that were scanned for silent payments, once for each key.
    ///
    /// # Errors
    /// The dashboard does not answer.
    pub fn silent_scanned(&self) -> Result<u64> {
        let socket = self.operations().connect(Ipv4Addr::LOCALHOST)?;
        let page = HttpClient::over(socket)?.text("/metrics")?;
        let line = page.lines().find_map(|line| line.strip_prefix("birdhouse_electrum_silent_scanned_total "));
        line.and_then(|count| count.parse().ok()).ok_or_else(|| Error::Protocol("no number of scans".into()))
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
