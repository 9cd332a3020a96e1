//! The client's address behind a reverse proxy, from the HTTP headers `X-Forwarded-For` and `Forwarded` ([RFC 7239]).
//!
//! Only a trusted proxy is believed, and it appends to what the client sent: so headers are read from their end, as
//! bytes, and whatever is not an address there names nobody. A proxy passes on the header that it does not write, so
//! two headers that disagree name nobody either.
//!
//! [RFC 7239]: https://www.rfc-editor.org/rfc/rfc7239

use std::net::IpAddr;

use ipnet::IpNet;

use crate::client_key::{Origin, is_private};

/// The forwarding headers of a request: the values of each, in their order.
#[derive(Debug, Clone, Default)]
pub struct Forwarding<'a> {
    /// Values of `X-Forwarded-For`.
    pub x_forwarded_for: Vec<&'a [u8]>,
    /// Values of `Forwarded`.
    pub forwarded: Vec<&'a [u8]>,
}

impl Forwarding<'_> {
    /// Returns true if there is no such header.
    pub fn is_empty(&self) -> bool {
        self.x_forwarded_for.is_empty() && self.forwarded.is_empty()
    }

    /// Returns the origin of a request that came from `socket`.
    ///
    /// Behind a trusted proxy it is the last address that is no trusted proxy. The client may have forged every address
    /// before that one. A proxy in a private network that is not trusted names nobody.
    pub fn origin(&self, socket: IpAddr, proxies: &[IpNet]) -> Origin {
        let socket = socket.to_canonical();
        if !is_proxy(&socket, proxies) {
            let is_proxied = !self.is_empty() && is_private(socket);
            return if is_proxied { Origin::Unnamed(socket) } else { Origin::of(socket) };
        }
        let chains = [(&self.x_forwarded_for, address as fn(&[u8]) -> _), (&self.forwarded, element)];
        let mut named = chains.into_iter().filter(|(values, _)| !values.is_empty());
        let mut named = std::iter::from_fn(|| named.next().map(|(values, parse)| client(values, parse, proxies)));
        match (named.next().flatten(), named.next()) {
            (Some(client), None) => Origin::of(client),
            (Some(client), Some(other)) if other == Some(client) => Origin::of(client),
            _ => Origin::Unnamed(socket),
        }
    }
}

/// Returns the client of one header; `None` if the header does not name it.
fn client(values: &[&[u8]], parse: fn(&[u8]) -> Option<IpAddr>, proxies: &[IpNet]) -> Option<IpAddr> {
    let mut last = None;
    for hop in values.iter().rev().flat_map(|value| value.rsplit(|byte| *byte == b',')) {
        let address = parse(hop.trim_ascii())?;
        last = Some(address);
        if !is_proxy(&address, proxies) {
            break;
        }
    }
    last
}

/// True if an address, in its canonical form, is in one of the networks of trusted proxies.
pub fn is_proxy(address: &IpAddr, proxies: &[IpNet]) -> bool {
    proxies.iter().any(|network| network.contains(address))
}

/// Parses an element of `Forwarded`, like `for="[2001:db8::1]:4711";proto=https`.
fn element(element: &[u8]) -> Option<IpAddr> {
    let node = element.split(|byte| *byte == b';').find_map(|pair| {
        let (name, value) = pair.split_at(pair.iter().position(|byte| *byte == b'=')?);
        name.trim_ascii().eq_ignore_ascii_case(b"for").then(|| value[1..].trim_ascii())
    })?;
    let unquoted = node.strip_prefix(b"\"").and_then(|node| node.strip_suffix(b"\""));
    address(unquoted.unwrap_or(node))
}

/// Parses an address; some proxies add the port.
fn address(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop).ok()?;
    let address = hop.parse().ok().or_else(|| Some(hop.parse::<std::net::SocketAddr>().ok()?.ip()));
    address
        .or_else(|| hop.strip_prefix('[')?.strip_suffix(']')?.parse().ok())
        .map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Returns the client's address, or `pool`.
    fn origin(socket: &str, x_forwarded_for: &[&[u8]], forwarded: &[&[u8]]) -> String {
        let proxies = ["127.0.0.0/8".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
        let forwarding = Forwarding { x_forwarded_for: x_forwarded_for.to_vec(), forwarded: forwarded.to_vec() };
        match forwarding.origin(socket.parse().unwrap(), &proxies) {
            Origin::Client(address) => address.to_string(),
            Origin::Unnamed(_) => "pool".to_owned(),
        }
    }

    #[test]
    fn trusted_proxy_is_believed_and_forged_addresses_are_not() {
        for (socket, value, expected) in [
            ("203.0.113.1", "198.51.100.7", "203.0.113.1"),
            ("127.0.0.1", "198.51.100.7", "198.51.100.7"),
            ("127.0.0.1", "1.2.3.4, 198.51.100.7", "198.51.100.7"),
            ("127.0.0.1", "1.2.3.4, 198.51.100.7,10.1.1.1", "198.51.100.7"),
            ("127.0.0.1", "nonsense, 198.51.100.7", "198.51.100.7"),
            ("127.0.0.1", "é, 198.51.100.7", "198.51.100.7"),
            ("127.0.0.1", "198.51.100.7, nonsense", "pool"),
            ("127.0.0.1", "198.51.100.7, é", "pool"),
            ("127.0.0.1", "", "pool"),
            ("::ffff:127.0.0.1", "198.51.100.7:1234", "198.51.100.7"),
            ("127.0.0.1", "[2001:db8::1]:80", "2001:db8::1"),
            ("127.0.0.1", "[2001:db8::1]", "2001:db8::1"),
            ("127.0.0.1", "10.1.1.1", "10.1.1.1"),
            ("127.0.0.1", "127.0.0.1", "pool"),
        ] {
            assert_eq!(origin(socket, &[value.as_bytes()], &[]), expected, "{socket} {value}");
        }
        assert_eq!(origin("127.0.0.1", &[b"1.2.3.4", b"198.51.100.7"], &[]), "198.51.100.7", "the last of two headers");
        assert_eq!(origin("127.0.0.1", &[b"1.2.3.4", b"\xff"], &[]), "pool", "bytes that are no text");
        assert_eq!(origin("127.0.0.1", &[], &[]), "pool", "a proxy that says nothing");
    }

    #[test]
    fn the_standard_header_is_read_as_well() {
        for (value, expected) in [
            ("for=198.51.100.7", "198.51.100.7"),
            ("for=1.2.3.4, For=\"198.51.100.7:80\";proto=https;by=10.0.0.1", "198.51.100.7"),
            ("proto=https; for=\"[2001:db8::1]:4711\"", "2001:db8::1"),
            ("for=198.51.100.7, for=10.0.0.2", "198.51.100.7"),
            ("for=unknown", "pool"),
            ("for=_hidden", "pool"),
            ("proto=https", "pool"),
            ("for", "pool"),
        ] {
            assert_eq!(origin("127.0.0.1", &[], &[value.as_bytes()]), expected, "{value}");
        }
    }

    #[test]
    fn two_headers_that_disagree_name_nobody() {
        assert_eq!(origin("127.0.0.1", &[b"198.51.100.7"], &[b"for=198.51.100.7"]), "198.51.100.7");
        assert_eq!(origin("127.0.0.1", &[b"198.51.100.7"], &[b"for=1.2.3.4"]), "pool");
        assert_eq!(origin("127.0.0.1", &[b"198.51.100.7"], &[b"for=unknown"]), "pool");
    }

    #[test]
    fn a_private_network_is_counted_by_address_unless_it_forwards_others() {
        assert_eq!(origin("192.168.1.5", &[], &[]), "192.168.1.5");
        assert_eq!(origin("192.168.1.5", &[b"198.51.100.7"], &[]), "pool");
        assert_eq!(origin("203.0.113.1", &[b"198.51.100.7"], &[b"for=1.2.3.4"]), "203.0.113.1");
    }
}
