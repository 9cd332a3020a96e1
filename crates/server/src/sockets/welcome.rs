//! Connection data for a wallet's user: host, port, certificate, and the lines of torrc for Tor users. On a terminal it
//! is shown at start; `birdhouse connect` shows it at any time.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use birdhouse_dashboard::{Endpoint as Shown, Link};
use birdhouse_net::{Certificate, Transport};
use bitcoin::Network;
use bitcoin::hashes::{Hash as _, sha256};
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use qrcode::types::QrError;

use super::BoundListener;
use crate::process::container;

/// An address that no packet is sent to: it asks the system which of its own addresses reaches the network.
const SOMEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// The address under which this machine is known in its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnAddress {
    /// There is no network.
    Unknown,
    /// Other machines of the network reach it.
    Machine(IpAddr),
    /// It is a container's: only its host reaches it.
    Container(IpAddr),
}

impl OwnAddress {
    /// Returns the address of this machine.
    pub(crate) fn find() -> Self {
        match own_ip() {
            None => Self::Unknown,
            Some(ip) if container::has_inner_network() => Self::Container(ip),
            Some(ip) => Self::Machine(ip),
        }
    }

    fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Unknown => None,
            Self::Machine(ip) | Self::Container(ip) => Some(ip),
        }
    }
}

/// A listener for wallets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) addr: SocketAddr,
    /// SHA-256 of the certificate, hexadecimal; `None` without TLS.
    pub(crate) fingerprint: Option<String>,
}

impl Endpoint {
    /// Returns the endpoint of a listener whose wallets use no WebSocket.
    pub(crate) fn of(listener: &BoundListener) -> Option<Self> {
        let addr = listener.addr;
        match &listener.transport {
            Transport::Tcp => Some(Self { addr, fingerprint: None }),
            Transport::Tls(certificate) => Some(Self { addr, fingerprint: Some(fingerprint(certificate)?) }),
            Transport::Ws | Transport::Wss(_) => None,
        }
    }

    /// Returns what to type, on a machine with this address.
    pub(crate) fn shown(&self, own: OwnAddress) -> Shown {
        let ip = reached(self.addr, own);
        let is_local = ip.is_loopback();
        Shown {
            host: host(ip),
            port: self.addr.port(),
            is_tls: self.fingerprint.is_some(),
            is_local,
            is_inner: !is_local && matches!(own, OwnAddress::Container(_)),
            fingerprint: self.fingerprint.clone(),
        }
    }
}

/// Returns the address to type: the listener's, or the machine's own if it listens on all.
fn reached(addr: SocketAddr, own: OwnAddress) -> IpAddr {
    if addr.ip().is_unspecified() { own.ip().unwrap_or(Ipv4Addr::LOCALHOST.into()) } else { addr.ip() }
}

fn host(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// A listener of a service other than the wallets'.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Other {
    /// Name of the service, such as "the explorer".
    pub(crate) serves: &'static str,
    /// Scheme of its URLs.
    pub(crate) scheme: &'static str,
    /// Its address.
    pub(crate) addr: SocketAddr,
}

impl Other {
    /// Returns its links: by the address of this machine, and by public names if it serves HTTP to other machines. The
    /// relay has public URLs of its own; an onion service has ports of its own.
    fn links(self, own: OwnAddress, public: &[Shown]) -> Vec<Link> {
        let Self { serves, scheme, addr } = self;
        let is_public = !addr.ip().is_loopback() && ["http", "https"].contains(&scheme);
        let names = public.iter().filter(|endpoint| is_public && !endpoint.is_onion());
        let mut hosts = vec![host(reached(addr, own))];
        hosts.extend(names.map(|endpoint| endpoint.host.clone()));
        let mut seen = HashSet::new();
        hosts.retain(|host| seen.insert(host.clone()));
        let serves = serves.trim_start_matches("the ");
        let link =
            |host: &String| Link { serves: serves.to_owned(), url: format!("{scheme}://{host}:{}", addr.port()) };
        hosts.iter().map(link).collect()
    }
}

/// Returns the links to the other services: those of listeners, also by public names, and the relay's public URLs. The
/// documentation of the REST API is a page of the explorer; without one, the document for programs.
pub(crate) fn links(others: &[Other], own: OwnAddress, public: &[Shown], relay_urls: &[String]) -> Vec<Link> {
    let mut links: Vec<Link> = others.iter().flat_map(|other| other.links(own, public)).collect();
    let docs = |serves: &str, path: &str| -> Vec<Link> {
        let documenting = links.iter().filter(|link| link.serves == serves);
        documenting.map(|link| Link { serves: "REST docs".to_owned(), url: format!("{}{path}", link.url) }).collect()
    };
    let of_explorer = docs("explorer", "/rest");
    links.extend(if of_explorer.is_empty() { docs("REST API", "/openapi.json") } else { of_explorer });
    links.extend(relay_urls.iter().map(|url| Link { serves: "relay".to_owned(), url: url.clone() }));
    links
}

/// Returns the SHA-256 of a certificate, in hexadecimal.
pub(crate) fn fingerprint(certificate: &Certificate) -> Option<String> {
    certificate.leaf().ok().map(|leaf| sha256::Hash::hash(&leaf).to_string())
}

/// Returns the address of this system from which packets leave.
fn own_ip() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(SOMEWHERE).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
}

/// Returns the flag of the wallet Electrum for a network.
pub(crate) fn electrum_flag(network: Network) -> &'static str {
    match network {
        Network::Bitcoin => "",
        Network::Testnet => "--testnet",
        Network::Testnet4 => "--testnet4",
        Network::Signet => "--signet",
        Network::Regtest => "--regtest",
    }
}

/// Returns the instructions for wallets; empty if they have no listener. `network` is a flag of Electrum such as
/// `--regtest`, or nothing.
pub(crate) fn text(endpoints: &[Endpoint], own: OwnAddress, network: &str) -> String {
    let mut text = String::new();
    for endpoint in endpoints {
        text += &to_type(&endpoint.shown(own), network);
    }
    if let Some(endpoint) = endpoints.iter().find(|endpoint| endpoint.fingerprint.is_none()) {
        let port = endpoint.addr.port();
        let target = if endpoint.addr.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { endpoint.addr.ip() };
        push(
            &mut text,
            "For wallets over Tor, add to torrc and restart tor; the host name is then in `hostname` there:",
        );
        push(&mut text, "  HiddenServiceDir /var/lib/tor/birdhouse/");
        push(&mut text, "  HiddenServiceVersion 3");
        push(&mut text, &format!("  HiddenServicePort {port} {}", SocketAddr::new(target, port)));
    }
    text
}

/// Returns what to type into each wallet.
pub(crate) fn to_type(endpoint: &Shown, network: &str) -> String {
    let mut text = String::new();
    let Shown { host, port, is_tls, is_local, is_inner, fingerprint } = endpoint;
    let (tls, ssl) = if *is_tls { ("TLS", "on") } else { ("no TLS", "off") };
    let electrum = ["electrum", network, "--oneserver --server", &endpoint.server()].map(str::to_owned);
    let electrum: Vec<String> = electrum.into_iter().filter(|word| !word.is_empty()).collect();
    push(&mut text, &format!("Wallets connect to {host}, port {port}, {tls}:"));
    push(&mut text, &format!("  Sparrow     Settings > Server > Private Electrum: {host}, {port}, Use SSL {ssl}"));
    push(&mut text, &format!("  Electrum    {}", electrum.join(" ")));
    push(&mut text, &format!("  BlueWallet  Settings > Network > Electrum server: {host}, {port}, SSL {ssl}"));
    if let Some(fingerprint) = fingerprint {
        push(&mut text, &format!("  Certificate SHA-256 {fingerprint}"));
    }
    if *is_local {
        push(&mut text, "  Only wallets on this machine reach it; electrum-tls-addr = \"0.0.0.0\" opens it to others.");
    }
    if *is_inner {
        push(
            &mut text,
            "  This is the address of a container. Other machines use the host's, at the port that it publishes;",
        );
        push(&mut text, "  set public-host to show that.");
    }
    text
}

/// Returns the addresses of the other services, a line each.
pub(crate) fn others(links: &[Link]) -> String {
    let mut text = String::new();
    if !links.is_empty() {
        push(&mut text, "Other services:");
    }
    for Link { serves, url } in links {
        push(&mut text, &format!("  {serves:<10}  {url}"));
    }
    text
}

/// Returns a QR code, for the camera of a phone, of each endpoint that other machines reach.
///
/// # Errors
/// The host's name is too long for one.
pub(crate) fn qr(endpoints: &[Shown]) -> Result<String, QrError> {
    let mut text = String::new();
    for endpoint in endpoints.iter().filter(|endpoint| !endpoint.is_local && !endpoint.is_inner) {
        let server = endpoint.server();
        let code = QrCode::new(server.as_bytes())?.render::<Dense1x2>().build();
        push(&mut text, &format!("{server}\n{code}"));
    }
    Ok(text)
}

fn push(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to memory never fails");
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn endpoint(addr: &str, fingerprint: Option<&str>) -> Endpoint {
        Endpoint { addr: addr.parse().unwrap(), fingerprint: fingerprint.map(str::to_owned) }
    }

    fn machine(ip: &str) -> OwnAddress {
        OwnAddress::Machine(ip.parse().unwrap())
    }

    #[test]
    fn the_address_of_a_container_is_shown_as_such_and_public_names_alone_have_a_qr_code() {
        let own = OwnAddress::Container("172.17.0.2".parse().unwrap());
        for addr in ["0.0.0.0:50001", "172.17.0.2:50001"] {
            let shown = endpoint(addr, None).shown(own);
            let text = to_type(&shown, "");
            assert!(text.contains("172.17.0.2, port 50001") && text.contains("address of a container"), "{text}");
            let named = Shown { host: "birds.example.org".into(), port: 50_001, ..Shown::default() };
            assert_eq!(qr(std::slice::from_ref(&shown)).unwrap(), "");
            let codes = qr(&[shown, named]).unwrap();
            assert!(codes.starts_with("birds.example.org:50001:t\n") && !codes.contains("172.17"), "{codes}");
        }
        let local = endpoint("127.0.0.1:50001", None).shown(own);
        assert_eq!((local.is_local, local.is_inner), (true, false));
    }

    #[test]
    fn a_wallet_in_the_network_gets_the_machines_address_and_the_certificate() {
        let own = machine("192.168.1.5");
        let text = text(&[endpoint("0.0.0.0:50002", Some("ab12"))], own, "");
        for part in [
            "192.168.1.5, port 50002, TLS",
            "Private Electrum: 192.168.1.5, 50002, Use SSL on",
            "  Electrum    electrum --oneserver --server 192.168.1.5:50002:s\n",
            "Electrum server: 192.168.1.5, 50002, SSL on",
            "Certificate SHA-256 ab12",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(!text.contains("torrc") && !text.contains("Only wallets on this machine"), "{text}");
    }

    #[test]
    fn a_listener_on_loopback_is_for_this_machine_and_for_tor() {
        let text = text(&[endpoint("127.0.0.1:60401", None)], OwnAddress::Unknown, "--regtest");
        for part in [
            "electrum --regtest --oneserver --server 127.0.0.1:60401:t",
            "Only wallets on this machine",
            "HiddenServicePort 60401 127.0.0.1:60401",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }

    #[test]
    fn the_qr_code_holds_host_port_and_tls() {
        let own = machine("192.168.1.5");
        let text = qr(&[endpoint("0.0.0.0:50002", Some("ab")).shown(own)]).unwrap();
        assert!(text.starts_with("192.168.1.5:50002:s\n"), "{text}");
        assert!(text.lines().filter(|line| line.contains(['█', '▀', '▄'])).count() >= 10, "{text}");
    }

    #[test]
    fn an_address_that_a_phone_cannot_reach_has_no_qr_code() {
        for addr in ["127.0.0.1:50001", "[::1]:50001", "0.0.0.0:50001"] {
            // Without a network of its own a machine that listens on all addresses has loopback alone.
            assert_eq!(qr(&[endpoint(addr, None).shown(OwnAddress::Unknown)]).unwrap(), "", "{addr}");
        }
    }

    #[test]
    fn other_services_are_links_to_what_other_machines_type() {
        let own = machine("192.168.1.5");
        let at = |serves, scheme, addr: &str| Other { serves, scheme, addr: addr.parse().unwrap() };
        let listeners = [
            at("the REST API", "http", "0.0.0.0:3000"),
            at("the explorer", "http", "[2001:db8::1]:8080"),
            at("the relay", "ws", "127.0.0.1:7777"),
        ];
        let links = links(&listeners, own, &[], &["wss://relay.example.org".to_owned()]);
        let expected = "Other services:\n  REST API    http://192.168.1.5:3000\n  explorer    http://[2001:db8::1]:8080\n  \
                        relay       ws://127.0.0.1:7777\n  REST docs   http://[2001:db8::1]:8080/rest\n  \
                        relay       wss://relay.example.org\n";
        assert_eq!(others(&links), expected);
    }

    #[test]
    fn services_that_other_machines_reach_are_linked_by_public_names_too() {
        let at = |serves, scheme, addr: &str| Other { serves, scheme, addr: addr.parse().unwrap() };
        let named = |host: &str| Shown { host: host.to_owned(), ..Shown::default() };
        let public = ["birds.example.org", "birds.example.org", "abc.onion"].map(named);
        let urls = |listeners: &[Other]| -> Vec<String> {
            links(listeners, OwnAddress::Unknown, &public, &[]).into_iter().map(|link| link.url).collect()
        };
        let rest = "http://birds.example.org:3000";
        let open = urls(&[at("the REST API", "http", "192.0.2.1:3000"), at("the relay", "ws", "192.0.2.1:7777")]);
        let documents = ["http://192.0.2.1:3000/openapi.json", &format!("{rest}/openapi.json")].map(str::to_owned);
        assert_eq!(open[..3], ["http://192.0.2.1:3000", rest, "ws://192.0.2.1:7777"]);
        assert_eq!(open[3..], documents);
        let local = urls(&[at("the explorer", "http", "127.0.0.1:8080")]);
        assert_eq!(local, ["http://127.0.0.1:8080", "http://127.0.0.1:8080/rest"]);
    }
}
