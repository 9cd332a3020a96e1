//! The settings that the status shows beside the counts.

use birdhouse_dashboard::Endpoint;

use crate::config::{Kind, PublicHost};
use crate::sockets::BoundListener;

/// Settings that the status shows.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// Listeners for wallets.
    pub(crate) listeners: Vec<BoundListener>,
    /// All other listeners.
    pub(crate) others: Vec<BoundListener>,
    /// Public URLs of the relay.
    pub(crate) relay_urls: Vec<String>,
    /// Public addresses of wallets' listeners.
    pub(crate) public: Vec<Endpoint>,
    /// Settings that do nothing in their combination.
    pub(crate) warnings: Vec<String>,
}

/// Returns a time, in seconds since 1970, in ISO 8601.
pub(super) fn iso(seconds: u64) -> String {
    let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
    birdhouse_esplora::clock::iso(seconds).replace(".000Z", "Z")
}

/// Returns the public addresses that wallets type; WebSocket is for web pages.
pub(crate) fn public_endpoints(hosts: &[PublicHost], network: bitcoin::Network) -> Vec<Endpoint> {
    let typed = hosts.iter().filter(|host| matches!(host.kind, Kind::Tcp | Kind::Tls));
    let endpoint = |host: &PublicHost| Endpoint {
        host: host.name.clone(),
        port: host.port.unwrap_or_else(|| host.kind.port(network)),
        is_tls: host.kind == Kind::Tls,
        is_local: false,
        is_inner: false,
        fingerprint: None,
    };
    typed.map(endpoint).collect()
}
