//! Probe of one server: it must be where it says it is, and serve our chain.
//!
//! A stranger chooses the address to which this server connects. So it can only be the stranger's own address, and one
//! of the public Internet unless [`PeerScope`] allows others; the address that was checked is the one that is used.

use std::io::{Error, Result};
use std::net::IpAddr;
use std::time::Duration;

use birdhouse_clients::is_private;
use birdhouse_net::Stream;
use bitcoin::BlockHash;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::features::Features;
use super::known::Introducer;
use super::talk::{Talk, tls};
use crate::protocol::{Peer, Version};
use crate::settings::{Host, PeerScope, Settings};

/// Time for the whole probe of one server.
const PATIENCE: Duration = Duration::from_secs(20);

/// Probes servers.
#[derive(Debug)]
pub(super) struct Prober {
    scope: PeerScope,
    pub(super) genesis_hash: BlockHash,
    own_names: Vec<String>,
    /// This server's own features, if it has a public name to announce.
    own_features: Option<String>,
}

impl Prober {
    pub(super) fn new(scope: PeerScope, settings: &Settings, genesis_hash: BlockHash) -> Self {
        let own_names: Vec<String> = settings.hosts.iter().map(|host| host.name.to_ascii_lowercase()).collect();
        let own_features = (!own_names.is_empty()).then(|| Features::own(settings, genesis_hash));
        Self { scope, genesis_hash, own_names, own_features }
    }

    /// Returns true if the name is one of this server's own.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.own_names.iter().any(|own| own == name)
    }

    /// Asks a server for its features.
    ///
    /// # Errors
    /// The server does not answer in time, or as its listing would say.
    pub(super) async fn probe(&self, host: &Host, introduced_by: Introducer) -> Result<Peer> {
        timeout(PATIENCE, self.connect(host, introduced_by)).await?
    }

    async fn connect(&self, host: &Host, introduced_by: Introducer) -> Result<Peer> {
        let port = host.tcp_port.or(host.ssl_port).ok_or_else(|| Error::other("it has no port to connect to"))?;
        let mut addresses = lookup_host((host.name.as_str(), port)).await?;
        let address = addresses.find(|address| self.is_allowed(address.ip().to_canonical(), introduced_by));
        let address = address.ok_or_else(|| Error::other("its name leads elsewhere"))?;
        let socket = TcpStream::connect(address).await?;
        let is_plain = host.tcp_port.is_some();
        let stream: Stream = if is_plain { Box::new(socket) } else { Box::new(tls(socket, &host.name).await?) };
        let features = self.ask(Talk::new(stream)).await?;
        let host = features.host(&host.name).ok_or_else(|| Error::other("it does not know its name"))?;
        Ok(Peer { host, address: address.ip().to_canonical(), protocol_max: features.protocol_max() })
    }

    /// Returns the server's features, and announces this server to it.
    async fn ask(&self, mut talk: Talk) -> Result<Features> {
        let hello = format!(r#"["Birdhouse",["{}","{}"]]"#, Version::MIN, Version::MAX);
        talk.ask("server.version", &hello).await?;
        let features = Features::parse(&talk.ask("server.features", "[]").await?, self.genesis_hash)?;
        if let Some(own) = &self.own_features {
            // The other server may refuse to list this one.
            let _ = talk.ask("server.add_peer", &format!("[{own}]")).await;
        }
        Ok(features)
    }

    fn is_allowed(&self, address: IpAddr, introduced_by: Introducer) -> bool {
        let is_right = match introduced_by {
            Introducer::Operator => true,
            Introducer::Itself(from) => address == from,
        };
        is_right && (self.scope == PeerScope::Everywhere || is_public(address))
    }
}

/// Returns true if an address belongs to one machine of the Internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && (64..128).contains(&second);
            let is_bench = first == 198 && (18..20).contains(&second);
            let is_local = is_private(address.into());
            !(is_local || is_shared || is_bench || address.is_documentation() || first == 0 || first >= 224)
        }
        IpAddr::V6(address) => {
            let [first, second, ..] = address.segments();
            let is_global_unicast = first & 0xe000 == 0x2000;
            // 2001::/23 is for protocols, 2002::/16 leads to addresses of IPv4.
            let is_special = first == 0x2001 && second < 0x200 || first == 0x2002;
            let is_documentation = (first, second) == (0x2001, 0x0db8) || (first, second >> 12) == (0x3fff, 0);
            is_global_unicast && !is_special && !is_documentation
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_machines_of_the_internet_are_public() {
        for public in ["8.8.8.8", "100.128.0.1", "172.32.0.1", "2a01:4f8::1"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        let others = "0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 169.254.169.254 172.16.0.1 192.168.0.1 224.0.0.1 \
                      255.255.255.255 :: ::1 fe80::1 fd00::1 ff02::1 2001:db8::1 fc00:dead:beef:4dad::1 \
                      64:ff9b::7f00:1 2002:7f00:1::1 2001::1 198.18.0.1 3fff::1";
        for other in others.split(' ') {
            assert!(!is_public(other.parse().unwrap()), "{other}");
        }
    }
}
