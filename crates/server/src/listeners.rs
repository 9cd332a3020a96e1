//! Listeners for wallets: from flags and `[[listener]]` tables to bound sockets.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use birdhouse_electrum::{Certificate, Discovery, Host, Limits, Listener, PeerScope, Proxy, Transport};
use bitcoin::Network;
use ipnet::IpNet;
use tokio::net::TcpListener;

use crate::config::{Kind, LimitsName, ListenAddr, ListenerOptions, Options, PublicHost};

/// A listener that is not bound yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) name: String,
    kind: Kind,
    pub(crate) addr: SocketAddr,
    proxy_from: Option<Vec<IpNet>>,
    limits: Limits,
    /// Certificate and key; `None` is the self-signed certificate.
    tls_files: Option<(PathBuf, PathBuf)>,
}

// === planning ===

/// Names of the listeners that have a flag.
const SIMPLE: [(Kind, &str); 4] = [(Kind::Tcp, "tcp"), (Kind::Tls, "tls"), (Kind::Ws, "ws"), (Kind::Wss, "wss")];

/// Returns all listeners of the settings; without any, plain TCP on loopback.
pub(crate) fn plan(options: &Options, network: Network) -> Result<Vec<Plan>> {
    let addrs = [options.electrum_addr, options.electrum_tls_addr, options.electrum_ws_addr, options.electrum_wss_addr];
    let simple = SIMPLE.into_iter().zip(addrs);
    let mut all: Vec<ListenerOptions> =
        simple.filter_map(|((kind, name), addr)| Some(ListenerOptions::simple(kind, name, addr?))).collect();
    all.extend(options.listener.iter().flatten().cloned());
    if all.is_empty() {
        let loopback = ListenAddr { ip: Ipv4Addr::LOCALHOST.into(), port: None };
        all.push(ListenerOptions::simple(Kind::Tcp, "tcp", loopback));
    }
    for (index, listener) in all.iter().enumerate() {
        if all[..index].iter().any(|other| other.name == listener.name) {
            bail!("two listeners have the name {:?}; rename one of them", listener.name);
        }
    }
    all.into_iter().map(|listener| Plan::of(listener, options, network)).collect()
}

impl Plan {
    fn of(listener: ListenerOptions, options: &Options, network: Network) -> Result<Self> {
        let is_private = listener.addr.ip.is_loopback() && listener.proxy_from.is_none();
        let limits = listener.limits.unwrap_or(if is_private { LimitsName::Private } else { LimitsName::Public });
        let own_files = (listener.tls_cert, listener.tls_key);
        let files =
            if own_files == (None, None) { (options.tls_cert.clone(), options.tls_key.clone()) } else { own_files };
        let tls_files = match files {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => bail!("listener {:?} has only one of tls-cert and tls-key; set both", listener.name),
        };
        Ok(Self {
            addr: SocketAddr::new(listener.addr.ip, listener.addr.port.unwrap_or_else(|| listener.kind.port(network))),
            limits: options.limits.clone().unwrap_or_default().listener(limits),
            name: listener.name,
            kind: listener.kind,
            proxy_from: listener.proxy_from,
            tls_files,
        })
    }
}

// === opening ===

/// Binds every listener. A self-signed certificate names `hosts` and is kept in `folder`.
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
            format!("failed to bind listener {:?} to {} (is another server running there?)", plan.name, plan.addr)
        })?;
        open.push((socket, Listener { name: plan.name.clone(), transport, proxy, limits: plan.limits.clone() }));
    }
    Ok(open)
}

/// Certificates by their files: listeners with the same files share one.
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
