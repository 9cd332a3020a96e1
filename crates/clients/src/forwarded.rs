//! The client's address behind a reverse proxy, from the HTTP header `X-Forwarded-For`.

use std::net::IpAddr;

use ipnet::IpNet;

/// Returns the address under which a connection is counted.
///
/// It is the address of the socket, unless that is a trusted reverse proxy: then it is the last address in
/// `X-Forwarded-For` that is no trusted proxy. The client may have forged every address before that one.
pub fn client_address(socket: IpAddr, forwarded_for: &str, proxies: &[IpNet]) -> IpAddr {
    let is_proxy = |address: &IpAddr| proxies.iter().any(|network| network.contains(address));
    let socket = socket.to_canonical();
    if !is_proxy(&socket) {
        return socket;
    }
    let mut address = socket;
    for hop in forwarded_for.rsplit(',') {
        let Some(before) = parse(hop.trim()) else { break };
        address = before;
        if !is_proxy(&address) {
            break;
        }
    }
    address
}

/// Parses an address; some proxies add the port.
fn parse(hop: &str) -> Option<IpAddr> {
    let address = hop.parse().ok().or_else(|| Some(hop.parse::<std::net::SocketAddr>().ok()?.ip()));
    address
        .or_else(|| hop.strip_prefix('[')?.strip_suffix(']')?.parse().ok())
        .map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn trusted_proxy_is_believed_and_forged_addresses_are_not() {
        let proxies = ["127.0.0.0/8".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
        let table = [
            ("203.0.113.1", "198.51.100.7", "203.0.113.1"),
            ("127.0.0.1", "198.51.100.7", "198.51.100.7"),
            ("127.0.0.1", "1.2.3.4, 198.51.100.7", "198.51.100.7"),
            ("127.0.0.1", "1.2.3.4, 198.51.100.7,10.1.1.1", "198.51.100.7"),
            ("127.0.0.1", "nonsense, 198.51.100.7", "198.51.100.7"),
            ("127.0.0.1", "198.51.100.7, nonsense", "127.0.0.1"),
            ("127.0.0.1", "", "127.0.0.1"),
            ("::ffff:127.0.0.1", "198.51.100.7:1234", "198.51.100.7"),
            ("127.0.0.1", "[2001:db8::1]:80", "2001:db8::1"),
            ("127.0.0.1", "[2001:db8::1]", "2001:db8::1"),
            ("127.0.0.1", "10.1.1.1", "10.1.1.1"),
        ];
        for (socket, forwarded_for, expected) in table {
            let address = client_address(socket.parse().unwrap(), forwarded_for, &proxies);
            assert_eq!(address.to_string(), expected, "{socket} {forwarded_for}");
        }
    }
}
