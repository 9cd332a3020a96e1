//! Listeners: from flags and `[[listener]]` tables to bound sockets.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use birdhouse_electrum::{Discovery, Host, Limits, PeerScope};
use birdhouse_net::{Certificate, Listener, Proxy, Transport, WebPages};
use bitcoin::Network;
use hyper::Uri;
use ipnet::IpNet;
use tokio::net::TcpListener;

use crate::config::{Kind, LimitsName, ListenAddr, ListenerKind, ListenerOptions, Options, PublicHost};
use crate::sockets::bind;
use crate::sockets::protocols::{Protocol, Security};

/// A listener that is not bound yet, with the bounds of its protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan<L = Limits> {
    pub(crate) name: String,
    kind: Kind,
    pub(crate) addr: SocketAddr,
    proxy_from: Option<Vec<IpNet>>,
    pub(crate) limits: L,
    /// Certificate and key; `None` is the self-signed certificate.
    tls_files: Option<(PathBuf, PathBuf)>,
}

/// The origin of a listener's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CertificateFiles {
    /// The operator's chain and key.
    Own(PathBuf, PathBuf),
    /// The pair that the server makes for itself.
    SelfSigned,
}

// === planning ===

/// Returns all Electrum listeners of the settings; without any, plain TCP on loopback.
pub(crate) fn plan(options: &Options, network: Network) -> Result<Vec<Plan>> {
    let mut plans = Vec::new();
    for listener in all(options)? {
        if let Some(kind) = listener.kind.electrum() {
            plans.push(Plan::of_electrum(listener, kind, options, network)?);
        }
    }
    if plans.is_empty() {
        let loopback = ListenAddr { ip: Ipv4Addr::LOCALHOST.into(), port: None };
        let listener = ListenerOptions::simple(ListenerKind::Tcp, "tcp", loopback);
        plans.push(Plan::of_electrum(listener, Kind::Tcp, options, network)?);
    }
    Ok(plans)
}

/// Returns all listeners of a protocol that is not the wallets'.
pub(crate) fn plan_of(options: &Options, protocol: &Protocol) -> Result<Vec<Plan<()>>> {
    let planned = |listener: ListenerOptions| {
        let kind = protocol.transport(listener.kind)?;
        Some(Plan::with_own_limits(listener, kind, options, protocol))
    };
    all(options)?.into_iter().filter_map(planned).collect()
}

/// Returns the listeners of the settings, whose names differ.
fn all(options: &Options) -> Result<Vec<ListenerOptions>> {
    let all = options.listeners();
    for (index, listener) in all.iter().enumerate() {
        if all[..index].iter().any(|other| other.name == listener.name) {
            bail!("two listeners have the name {:?}; rename one of them", listener.name);
        }
    }
    Ok(all)
}

impl Plan {
    fn of_electrum(listener: ListenerOptions, kind: Kind, options: &Options, network: Network) -> Result<Self> {
        let is_private = listener.addr.ip.is_loopback() && listener.proxy_from.is_none();
        let limits = listener.limits.unwrap_or(if is_private { LimitsName::Private } else { LimitsName::Public });
        let limits = options.limits.clone().unwrap_or_default().listener(limits);
        let port = listener.addr.port.unwrap_or_else(|| kind.port(network));
        Plan::of(listener, kind, port, limits, options)
    }
}

impl Plan<()> {
    /// Plans a listener of a protocol whose limits are not those of wallets.
    fn with_own_limits(listener: ListenerOptions, kind: Kind, options: &Options, protocol: &Protocol) -> Result<Self> {
        let (name, serves) = (&listener.name, protocol.serves);
        if listener.limits.is_some() {
            let bound = protocol.limits_table().map(|table| format!(", which [limits.{table}] bounds"));
            bail!("listener {name:?} is for {serves}{}; remove its limits", bound.unwrap_or_default());
        }
        let Some(port) = listener.addr.port else {
            let usual = protocol.usual_port;
            bail!("listener {name:?} is for {serves} and has no port; use an address like 0.0.0.0:{usual}");
        };
        Plan::of(listener, kind, port, (), options)
    }
}

impl<L> Plan<L> {
    /// Returns `true` for a listener that speaks WebSocket.
    pub(crate) fn is_websocket(&self) -> bool {
        matches!(self.kind, Kind::Ws | Kind::Wss)
    }

    /// Returns its encryption.
    pub(crate) fn security(&self) -> Security {
        if matches!(self.kind, Kind::Tls | Kind::Wss) { Security::Tls } else { Security::Plain }
    }

    /// Returns the files of its certificate; `None` without TLS.
    pub(crate) fn tls(&self) -> Option<CertificateFiles> {
        (self.security() == Security::Tls).then(|| match self.tls_files.clone() {
            Some((chain, key)) => CertificateFiles::Own(chain, key),
            None => CertificateFiles::SelfSigned,
        })
    }

    fn of(listener: ListenerOptions, kind: Kind, port: u16, limits: L, options: &Options) -> Result<Self> {
        let own_files = (listener.tls_cert, listener.tls_key);
        let files =
            if own_files == (None, None) { (options.tls_cert.clone(), options.tls_key.clone()) } else { own_files };
        let tls_files = match files {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => bail!("listener {:?} has only one of tls-cert and tls-key; set both", listener.name),
        };
        let addr = SocketAddr::new(listener.addr.ip, port);
        Ok(Self { addr, limits, name: listener.name, kind, proxy_from: listener.proxy_from, tls_files })
    }
}

// === opening ===

/// Binds every listener. A self-signed certificate is for `names` and is kept in `folder`.
pub(crate) async fn open<L: Clone>(
    plans: &[Plan<L>],
    folder: &Path,
    names: &[String],
) -> Result<Vec<(TcpListener, Listener<L>)>> {
    let mut certificates = Certificates { folder, names, known: HashMap::new() };
    let mut open = Vec::new();
    for plan in plans {
        let transport = match plan.kind {
            Kind::Tcp => Transport::Tcp,
            Kind::Tls => Transport::Tls(certificates.of(plan)?),
            Kind::Ws => Transport::Ws,
            Kind::Wss => Transport::Wss(certificates.of(plan)?),
        };
        let proxy = plan.proxy_from.clone().map_or(Proxy::Off, Proxy::From);
        let socket = bind::listen(&format!("listener {:?}", plan.name), plan.addr).await?;
        open.push((socket, Listener { name: plan.name.clone(), transport, proxy, limits: plan.limits.clone() }));
    }
    Ok(open)
}

/// Certificates by their files: listeners with the same files share one.
struct Certificates<'a> {
    folder: &'a Path,
    names: &'a [String],
    known: HashMap<Option<(PathBuf, PathBuf)>, Arc<Certificate>>,
}

impl Certificates<'_> {
    fn of<L>(&mut self, plan: &Plan<L>) -> Result<Arc<Certificate>> {
        if let Some(certificate) = self.known.get(&plan.tls_files) {
            return Ok(Arc::clone(certificate));
        }
        let certificate = match &plan.tls_files {
            Some((cert, key)) => Certificate::open(cert, key),
            None => Certificate::self_signed(self.folder, self.names),
        };
        let certificate = Arc::new(
            certificate.with_context(|| format!("failed to load the certificate of listener {:?}", plan.name))?,
        );
        self.known.insert(plan.tls_files.clone(), Arc::clone(&certificate));
        Ok(certificate)
    }
}

// === announcing ===

/// Returns the hosts that `server.features` announces.
pub(crate) fn hosts(public: &[PublicHost], network: Network) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    for PublicHost { kind, name, port } in public {
        let index = hosts.iter().position(|host| host.name == *name).unwrap_or_else(|| {
            hosts.push(Host { name: name.clone(), ..Host::default() });
            hosts.len() - 1
        });
        let host = &mut hosts[index];
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

/// Returns the public names of the hosts, which a self-signed certificate has; none without an index.
pub(crate) fn host_names(options: &Options) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    if options.has_bitcoin() {
        for PublicHost { name, .. } in options.public_host.iter().flatten() {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names
}

/// Returns the web pages that may open a WebSocket over loopback: those that reach this server by a public name, and
/// those of the settings.
pub(crate) fn web_pages(options: &Options) -> WebPages {
    let hosts = options.public_host.iter().flatten().map(|host| host.name.clone());
    // A URL without a name leads nobody here.
    let urls = options.relay_url.iter().flatten().filter_map(|url| url.parse::<Uri>().ok()?.host().map(str::to_owned));
    WebPages::new(hosts.chain(urls).collect(), options.web_origin.clone().unwrap_or_default())
}

/// Returns the first peers to probe. Those of a private chain may have any address.
pub(crate) fn discovery(peers: &[PublicHost], network: Network) -> Result<Discovery> {
    let seeds = hosts(peers, network);
    if let Some(seed) = seeds.iter().find(|seed| seed.tcp_port.or(seed.ssl_port).is_none()) {
        bail!("peer {:?} has no tcp or ssl address; peers are probed over these only", seed.name);
    }
    if let Some(seed) = seeds.iter().find(|seed| seed.name.rsplit('.').next() == Some("onion")) {
        bail!("peer {:?} is an onion service; peers are probed over the Internet only", seed.name);
    }
    let scope = if network == Network::Regtest { PeerScope::Everywhere } else { PeerScope::Internet };
    Ok(Discovery { seeds, scope })
}

#[cfg(test)]
#[path = "listeners_tests.rs"]
mod tests;
