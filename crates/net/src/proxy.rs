//! The PROXY protocol, versions 1 and 2: a reverse proxy names the client whose connection it passes on.
//!
//! The header is the first thing on the connection, before TLS. On a listener that expects it, it must come, and
//! from an address that may send it: guessing would let a client choose its address.
//!
//! `ppp` parses a header that lies whole in memory, which is the smaller half of this file. The other half is reading:
//! not one byte beyond the header, of which version 1 does not give the length, and no memory for a length that a
//! stranger claims. That would be ours with it, too.
//!
//! Source: [The PROXY protocol](https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt).

use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use birdhouse_clients::Origin;
use ipnet::IpNet;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// The first bytes of version 2. Version 1 has no shorter header.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of version 2 before the addresses.
const V2_FIXED_BYTES: usize = 16;
/// Addresses and extensions of version 2; a proxy that sends certificates along may need a few kilobytes.
pub const V2_REST_BYTES_MAX: usize = 8 * 1024;
/// The longest line of version 1, with its end.
const V1_BYTES_MAX: usize = 107;

/// The reverse proxies before a listener.
#[derive(Debug, Clone, Default)]
pub enum Proxy {
    /// Clients connect themselves.
    #[default]
    Off,
    /// Every connection begins with a header and comes from one of these networks.
    From(Vec<IpNet>),
}

/// The client that a header names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Client(IpAddr),
    /// The proxy speaks for itself, as in health checks, or does not know for whom.
    Proxy,
}

/// Returns the origin by which the connection is counted. Reads the header, and nothing after it.
pub(crate) async fn origin(proxy: &Proxy, socket: &mut TcpStream, from: SocketAddr) -> Result<Origin> {
    let Proxy::From(trusted) = proxy else { return Ok(Origin::of(from.ip())) };
    let address = from.ip().to_canonical();
    if !trusted.iter().any(|network| network.contains(&address)) {
        return Err(Error::new(ErrorKind::PermissionDenied, "this address may not send a PROXY header"));
    }
    match read(socket).await? {
        Source::Client(address) => Ok(Origin::of(address)),
        Source::Proxy => Ok(Origin::Unnamed(address)),
    }
}

async fn read(socket: &mut TcpStream) -> Result<Source> {
    let mut header = vec![0; SIGNATURE.len()];
    socket.read_exact(&mut header).await?;
    if header == SIGNATURE {
        header.resize(V2_FIXED_BYTES, 0);
        socket.read_exact(&mut header[SIGNATURE.len()..]).await?;
        let rest = usize::from(u16::from_be_bytes([header[14], header[15]]));
        if rest > V2_REST_BYTES_MAX {
            return Err(malformed());
        }
        header.resize(V2_FIXED_BYTES + rest, 0);
        socket.read_exact(&mut header[V2_FIXED_BYTES..]).await?;
    } else if header.starts_with(b"PROXY ") {
        read_line(socket, &mut header).await?;
    }
    parse(&header).ok_or_else(malformed)
}

/// Reads up to the end of the line, and not one byte of what follows.
async fn read_line(socket: &mut TcpStream, line: &mut Vec<u8>) -> Result<()> {
    while line.last() != Some(&b'\n') {
        let mut ahead = [0; V1_BYTES_MAX];
        let seen = socket.peek(&mut ahead[line.len()..]).await?;
        if seen == 0 {
            // The client is gone, or the line is too long.
            return Err(malformed());
        }
        let seen = &ahead[line.len()..][..seen];
        let start = line.len();
        let length = seen.iter().position(|byte| *byte == b'\n').map_or(seen.len(), |end| end + 1);
        line.resize(start + length, 0);
        socket.read_exact(&mut line[start..]).await?;
    }
    Ok(())
}

fn malformed() -> Error {
    Error::new(ErrorKind::InvalidData, "PROXY header is missing or malformed")
}

/// Decodes a whole header of either version.
pub(crate) fn parse(header: &[u8]) -> Option<Source> {
    match header.strip_prefix(&SIGNATURE) {
        Some(rest) => v2(rest),
        None => v1(std::str::from_utf8(header).ok()?.strip_suffix("\r\n")?),
    }
}

/// `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443`
fn v1(line: &str) -> Option<Source> {
    let mut words = line.split(' ');
    let (Some("PROXY"), Some(family)) = (words.next(), words.next()) else { return None };
    if family == "UNKNOWN" {
        return Some(Source::Proxy);
    }
    let [source, destination, source_port, destination_port] = words.collect::<Vec<_>>().try_into().ok()?;
    port(source_port)?;
    port(destination_port)?;
    let (source, destination): (IpAddr, IpAddr) = (source.parse().ok()?, destination.parse().ok()?);
    let is_of_family = match family {
        "TCP4" => source.is_ipv4() && destination.is_ipv4(),
        "TCP6" => source.is_ipv6() && destination.is_ipv6(),
        _ => false,
    };
    is_of_family.then_some(Source::Client(source))
}

fn port(text: &str) -> Option<u16> {
    // `parse` alone would take a sign, too.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Decodes what follows the signature: version and command, family, length, addresses, extensions.
fn v2(header: &[u8]) -> Option<Source> {
    let (&[command, family, high, low], rest) = header.split_first_chunk()?;
    if rest.len() != usize::from(u16::from_be_bytes([high, low])) {
        return None;
    }
    match (command, family) {
        // LOCAL, whatever addresses come with it; then PROXY without addresses, and for a Unix socket.
        (0x20, _) | (0x21, 0x00 | 0x31) => Some(Source::Proxy),
        // PROXY: both addresses, both ports.
        (0x21, 0x11) if rest.len() >= 12 => Some(Source::Client(Ipv4Addr::from(*rest.first_chunk()?).into())),
        (0x21, 0x21) if rest.len() >= 36 => Some(Source::Client(Ipv6Addr::from(*rest.first_chunk()?).into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn client(address: &str) -> Source {
        Source::Client(address.parse().unwrap())
    }

    /// A header of version 2.
    fn v2_header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    #[test]
    fn version_1_as_in_its_specification() {
        assert_eq!(parse(b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n"), Some(client("192.0.2.1")));
        assert_eq!(parse(b"PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n"), Some(client("2001:db8::1")));
        assert_eq!(parse(b"PROXY UNKNOWN\r\n"), Some(Source::Proxy));
        assert_eq!(parse(b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n"), Some(Source::Proxy));
        let tor = b"PROXY TCP6 fc00:dead:beef:4dad::0:29 ::1 65535 42\r\n";
        assert_eq!(parse(tor), Some(client("fc00:dead:beef:4dad::29")));
    }

    #[test]
    fn version_1_refuses_what_its_specification_does_not_allow() {
        for line in [
            "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443",
            "PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443 9\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 +56324 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 65536 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1  443\r\n",
            "PROXY TCP4 192.0.2.256 198.51.100.1 1 443\r\n",
            "PROXY TCP4 2001:db8::1 2001:db8::2 1 443\r\n",
            "PROXY TCP6 192.0.2.1 198.51.100.1 1 443\r\n",
            "PROXY UDP4 192.0.2.1 198.51.100.1 1 443\r\n",
            "proxy TCP4 192.0.2.1 198.51.100.1 1 443\r\n",
            "PROXY\r\n",
            "",
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn version_2_as_in_its_specification() {
        let v4 = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 0x04, 1, 187];
        let v6 = [&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets()[..], &[9; 20]].concat();
        assert_eq!(parse(&v2_header(0x21, 0x11, &v4)), Some(client("192.0.2.1")));
        assert_eq!(parse(&v2_header(0x21, 0x21, &v6)), Some(client("2001:db8::1")));
        let with_extension = [&v4[..], &[4, 0, 1, 0]].concat();
        assert_eq!(parse(&v2_header(0x21, 0x11, &with_extension)), Some(client("192.0.2.1")));
        assert_eq!(parse(&v2_header(0x20, 0x11, &v4)), Some(Source::Proxy), "LOCAL");
        assert_eq!(parse(&v2_header(0x20, 0x00, &[])), Some(Source::Proxy), "LOCAL");
        assert_eq!(parse(&v2_header(0x21, 0x00, &[])), Some(Source::Proxy), "no addresses");
        assert_eq!(parse(&v2_header(0x21, 0x31, &[0; 216])), Some(Source::Proxy), "Unix socket");
    }

    #[test]
    fn version_2_refuses_what_its_specification_does_not_allow() {
        let v4 = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 0x04, 1, 187];
        assert_eq!(parse(&v2_header(0x11, 0x11, &v4)), None, "another version");
        assert_eq!(parse(&v2_header(0x22, 0x11, &v4)), None, "another command");
        assert_eq!(parse(&v2_header(0x21, 0x12, &v4)), None, "UDP");
        assert_eq!(parse(&v2_header(0x21, 0x11, &v4[..11])), None, "addresses cut off");
        assert_eq!(parse(&v2_header(0x21, 0x21, &v4)), None, "addresses of the other family");
        assert_eq!(parse(&v2_header(0x21, 0x11, &v4)[..20]), None, "shorter than it says");
    }

    proptest! {
        #[test]
        fn any_address_comes_back_from_both_versions(source: IpAddr, ports: (u16, u16)) {
            let (family, v2_family, destination) = match source {
                IpAddr::V4(_) => ("TCP4", 0x11, "127.0.0.1"),
                IpAddr::V6(_) => ("TCP6", 0x21, "::1"),
            };
            let line = format!("PROXY {family} {source} {destination} {} {}\r\n", ports.0, ports.1);
            prop_assert!(line.len() <= V1_BYTES_MAX);
            prop_assert_eq!(parse(line.as_bytes()), Some(Source::Client(source)));
            let mut rest = match source {
                IpAddr::V4(source) => source.octets().to_vec(),
                IpAddr::V6(source) => source.octets().to_vec(),
            };
            rest.resize(rest.len() * 2 + 4, 0);
            prop_assert_eq!(parse(&v2_header(0x21, v2_family, &rest)), Some(Source::Client(source)));
        }

        #[test]
        fn any_bytes_are_a_header_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..120), signed: bool) {
            let bytes = if signed { [&SIGNATURE[..], &bytes].concat() } else { bytes };
            let _ = parse(&bytes);
        }
    }
}
