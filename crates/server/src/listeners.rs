//! Where clients connect: from flags and `[[listener]]` tables to bound sockets.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use birdhouse_electrum::{
    Certificate, Discovery, Host, Limits, LimitsGiven, Listener, Proxy, Reach, ServerLimits, ServerLimitsGiven,
    Transport,
};
use bitcoin::Network;
use ipnet::IpNet;
use serde::Deserialize;
use tokio::net::TcpListener;

use crate::config::Options;

/// What a listener speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Lines.
    Tcp,
    /// Lines in TLS.
    #[serde(alias = "ssl")]
    Tls,
    /// WebSocket.
    Ws,
    /// WebSocket in TLS.
    Wss,
}

/// An address to listen on; without a port, the usual one of kind and network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct ListenAddr {
    ip: IpAddr,
    port: Option<u16>,
}

/// `[limits.public]`, `[limits.private]`, `[limits.server]` and `[limits.relay]` of the configuration file: the bounds to change.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitsOptions {
    public: LimitsGiven,
    private: LimitsGiven,
    server: ServerLimitsGiven,
    relay: birdhouse_relay::LimitsGiven,
}

/// Bounds by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LimitsName {
    /// For strangers.
    Public,
    /// For the operator's own clients.
    Private,
}

/// One `[[listener]]` of the configuration file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct ListenerOptions {
    name: String,
    kind: Kind,
    addr: ListenAddr,
    /// Networks of the reverse proxies that connect here, with a PROXY header. Without it clients connect themselves.
    proxy_from: Option<Vec<IpNet>>,
    /// Default: private on loopback when clients connect themselves, else public.
    limits: Option<LimitsName>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
}

/// A listener that is not open yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) name: String,
    kind: Kind,
    pub(crate) addr: SocketAddr,
    proxy_from: Option<Vec<IpNet>>,
    limits: Limits,
    /// Certificate and key; without them the self-signed ones.
    tls_files: Option<(PathBuf, PathBuf)>,
}

impl Kind {
    /// The name by which the usual listener of this kind goes, and its flag.
    const USUAL: [(Self, &'static str); 4] =
        [(Self::Tcp, "tcp"), (Self::Tls, "tls"), (Self::Ws, "ws"), (Self::Wss, "wss")];

    /// The port of Electrum servers by convention.
    pub(crate) fn port(self, network: Network) -> u16 {
        let tcp = match network {
            Network::Bitcoin => 50001,
            Network::Testnet => 60001,
            Network::Testnet4 => 40001,
            Network::Signet => 60601,
            Network::Regtest => 60401,
        };
        match self {
            Self::Tcp => tcp,
            Self::Tls => tcp + 1,
            Self::Ws => tcp + 2,
            Self::Wss => tcp + 3,
        }
    }
}

impl FromStr for ListenAddr {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Ok(addr) = text.parse::<SocketAddr>() {
            return Ok(addr.into());
        }
        let ip =
            text.parse().ok().with_context(|| format!("{text:?} is not an address like 0.0.0.0:50002 or 0.0.0.0"))?;
        Ok(Self { ip, port: None })
    }
}

impl TryFrom<String> for ListenAddr {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<SocketAddr> for ListenAddr {
    fn from(addr: SocketAddr) -> Self {
        Self { ip: addr.ip(), port: Some(addr.port()) }
    }
}

// === planning ===

/// All listeners that the options ask for; when they ask for none, plain TCP on loopback.
pub(crate) fn plan(options: &Options, network: Network) -> Result<Vec<Plan>> {
    let usual = [options.electrum_addr, options.electrum_tls_addr, options.electrum_ws_addr, options.electrum_wss_addr];
    let named = Kind::USUAL.into_iter().zip(usual);
    let mut all: Vec<ListenerOptions> =
        named.filter_map(|((kind, name), addr)| Some(ListenerOptions::usual(kind, name, addr?))).collect();
    all.extend(options.listener.iter().flatten().cloned());
    if all.is_empty() {
        let loopback = ListenAddr { ip: Ipv4Addr::LOCALHOST.into(), port: None };
        all.push(ListenerOptions::usual(Kind::Tcp, "tcp", loopback));
    }
    for (place, listener) in all.iter().enumerate() {
        if all[..place].iter().any(|other| other.name == listener.name) {
            bail!("two listeners have the name {:?}", listener.name);
        }
    }
    all.into_iter().map(|listener| listener.plan(options, network)).collect()
}

impl ListenerOptions {
    fn usual(kind: Kind, name: &str, addr: ListenAddr) -> Self {
        Self { name: name.into(), kind, addr, proxy_from: None, limits: None, tls_cert: None, tls_key: None }
    }

    fn plan(self, options: &Options, network: Network) -> Result<Plan> {
        let is_private = self.addr.ip.is_loopback() && self.proxy_from.is_none();
        let limits = self.limits.unwrap_or(if is_private { LimitsName::Private } else { LimitsName::Public });
        let own_files = (self.tls_cert, self.tls_key);
        let files =
            if own_files == (None, None) { (options.tls_cert.clone(), options.tls_key.clone()) } else { own_files };
        let tls_files = match files {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => bail!("listener {:?}: tls-cert and tls-key go together", self.name),
        };
        Ok(Plan {
            addr: SocketAddr::new(self.addr.ip, self.addr.port.unwrap_or_else(|| self.kind.port(network))),
            limits: options.limits.clone().unwrap_or_default().of(limits),
            name: self.name,
            kind: self.kind,
            proxy_from: self.proxy_from,
            tls_files,
        })
    }
}

impl LimitsOptions {
    /// The bounds of a listener.
    fn of(&self, name: LimitsName) -> Limits {
        let (mut limits, given) = match name {
            LimitsName::Public => (Limits::public(), &self.public),
            LimitsName::Private => (Limits::private(), &self.private),
        };
        given.apply_to(&mut limits);
        limits
    }

    /// The bounds that all listeners share.
    pub(crate) fn of_server(&self) -> ServerLimits {
        let mut limits = ServerLimits::default();
        self.server.apply_to(&mut limits);
        limits
    }

    /// The bounds of the relay.
    pub(crate) fn of_relay(&self) -> birdhouse_relay::Limits {
        let mut limits = birdhouse_relay::Limits::default();
        self.relay.apply_to(&mut limits);
        limits
    }
}

// === opening ===

/// Binds every listener. A self-signed certificate is kept in `folder`, made for these hosts.
pub(crate) async fn open(plans: &[Plan], folder: &Path, hosts: &[Host]) -> Result<Vec<(TcpListener, Listener)>> {
    let mut certificates = Certificates { folder, hosts, known: HashMap::new() };
    let mut open = Vec::new();
    for plan in plans {
        let transport = match plan.kind {
            Kind::Tcp => Transport::Tcp,
            Kind::Tls => Transport::Tls(certificates.of(plan)?),
            Kind::Ws => Transport::Ws,
            Kind::Wss => Transport::Wss(certificates.of(plan)?),
        };
        let proxy = plan.proxy_from.clone().map_or(Proxy::Off, Proxy::From);
        let socket = TcpListener::bind(plan.addr).await.with_context(|| {
            format!("listener {:?} cannot listen on {}: is another server running there?", plan.name, plan.addr)
        })?;
        open.push((socket, Listener { name: plan.name.clone(), transport, proxy, limits: plan.limits.clone() }));
    }
    Ok(open)
}

/// Listeners with the same files share what was read.
struct Certificates<'a> {
    folder: &'a Path,
    hosts: &'a [Host],
    known: HashMap<Option<(PathBuf, PathBuf)>, Arc<Certificate>>,
}

impl Certificates<'_> {
    fn of(&mut self, plan: &Plan) -> Result<Arc<Certificate>> {
        if let Some(certificate) = self.known.get(&plan.tls_files) {
            return Ok(Arc::clone(certificate));
        }
        let names = || self.hosts.iter().map(|host| host.name.clone()).collect::<Vec<_>>();
        let certificate = match &plan.tls_files {
            Some((cert, key)) => Certificate::open(cert, key),
            None => Certificate::self_signed(self.folder, &names()),
        };
        let certificate = Arc::new(certificate.with_context(|| format!("listener {:?}", plan.name))?);
        self.known.insert(plan.tls_files.clone(), Arc::clone(&certificate));
        Ok(certificate)
    }
}

// === announcing ===

/// An address under which the public reaches the server: `ssl://electrum.example.org:50002`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct PublicHost {
    kind: Kind,
    name: String,
    port: Option<u16>,
}

impl FromStr for PublicHost {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || format!("{text:?} is not like ssl://electrum.example.org:50002 (tcp, ssl, ws, wss)");
        let (scheme, rest) = text.split_once("://").with_context(wrong)?;
        let kind = match scheme {
            "tcp" => Kind::Tcp,
            "ssl" | "tls" => Kind::Tls,
            "ws" => Kind::Ws,
            "wss" => Kind::Wss,
            _ => bail!(wrong()),
        };
        let (name, port) = match rest.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port.parse().with_context(wrong)?)),
            _ => (rest, None),
        };
        let name = name.trim_matches(['[', ']']).to_ascii_lowercase();
        if name.is_empty() || name.contains(['/', ' ']) {
            bail!(wrong());
        }
        Ok(Self { kind, name, port })
    }
}

impl TryFrom<String> for PublicHost {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

/// What `server.features` says of where the server is.
pub(crate) fn hosts(public: &[PublicHost], network: Network) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    for PublicHost { kind, name, port } in public {
        let place = hosts.iter().position(|host| host.name == *name).unwrap_or_else(|| {
            hosts.push(Host { name: name.clone(), ..Host::default() });
            hosts.len() - 1
        });
        let host = &mut hosts[place];
        let slot = match kind {
            Kind::Tcp => &mut host.tcp_port,
            Kind::Tls => &mut host.ssl_port,
            Kind::Ws => &mut host.ws_port,
            Kind::Wss => &mut host.wss_port,
        };
        *slot = Some(port.unwrap_or_else(|| kind.port(network)));
    }
    hosts
}

/// Other servers to begin with. Those of a private chain may be anywhere.
pub(crate) fn discovery(peers: &[PublicHost], network: Network) -> Result<Discovery> {
    let seeds = hosts(peers, network);
    if let Some(seed) = seeds.iter().find(|seed| seed.tcp_port.or(seed.ssl_port).is_none()) {
        bail!("peer {:?}: other servers are asked by tcp or ssl", seed.name);
    }
    if let Some(seed) = seeds.iter().find(|seed| seed.name.rsplit('.').next() == Some("onion")) {
        bail!("peer {:?}: onion services cannot be reached from here", seed.name);
    }
    let reach = if network == Network::Regtest { Reach::Everywhere } else { Reach::Internet };
    Ok(Discovery { seeds, reach })
}

#[cfg(test)]
#[path = "listeners_tests.rs"]
mod tests;
