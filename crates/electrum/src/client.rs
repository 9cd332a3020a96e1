//! Whom the bounds take for one client: an IPv4 address, an IPv6 network, or a circuit of the Tor network.
//!
//! It is kept in memory while the client is connected, and never logged.

use std::net::{IpAddr, Ipv6Addr};

/// Providers give a home a network of at least this prefix: a client has all addresses in it.
const IPV6_PREFIX: u32 = 56;
/// Tor tells the circuits of an onion service apart by made-up addresses in `fc00:dead:beef:4dad::/64`
/// (`HiddenServiceExportCircuitID haproxy`): the circuit's number is in the last 32 bits.
const TOR_CIRCUITS: u128 = 0xfc00_dead_beef_4dad << 64;

/// One client, however many connections it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    /// The address itself; of IPv6, its network.
    Address(IpAddr),
    /// The number of a circuit.
    TorCircuit(u32),
}

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::Address(address.into()),
            IpAddr::V6(address) if address.to_bits() >> 64 == TOR_CIRCUITS >> 64 => {
                let [.., a, b, c, d] = address.octets();
                Self::TorCircuit(u32::from_be_bytes([a, b, c, d]))
            }
            IpAddr::V6(address) => {
                let network = address.to_bits() & (u128::MAX << (128 - IPV6_PREFIX));
                Self::Address(Ipv6Addr::from_bits(network).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn client(address: &str) -> Client {
        Client::from(address.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn an_ipv4_address_is_a_client_however_it_is_written() {
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_are_one_client() {
        assert_eq!(client("2001:db8:1:200::1"), client("2001:db8:1:2ff:ffff::2"));
        assert_ne!(client("2001:db8:1:200::1"), client("2001:db8:1:300::1"));
    }

    #[test]
    fn each_tor_circuit_is_a_client() {
        assert_eq!(client("fc00:dead:beef:4dad::ffff:1"), Client::TorCircuit(0xffff_0001));
        assert_ne!(client("fc00:dead:beef:4dad::1"), client("fc00:dead:beef:4dad::2"));
    }
}
