//! The key under which the connections of one client are counted together.
//!
//! A person has one IPv4 address or a whole IPv6 network, so addresses are cut to a prefix. Loopback and private
//! addresses identify nobody (a proxy without PROXY protocol, an onion service, a home network): each such connection
//! has a key of its own and is exempt from limits. Tor names the circuits of an onion service by addresses of a
//! reserved network (`HiddenServiceExportCircuitID haproxy`): each circuit has a key.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A client, as precisely as the server can identify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// The addresses of one network: its first address and the bits of its prefix.
    Network(IpAddr, u8),
    /// A Tor circuit and its number.
    Circuit(u64),
    /// A connection from a private address, by its id. Exempt from the limits of a client.
    Connection(u64),
}

/// Rules that map addresses to keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientKeying {
    /// Bits of an IPv4 address that make a key, 1 to 32.
    pub ipv4_bits: u8,
    /// Bits of an IPv6 address that make a key, 1 to 128. Providers give a home a network of 56 or 64 bits.
    pub ipv6_bits: u8,
    /// Treatment of loopback and private addresses.
    pub private: PrivateAddresses,
}

/// Treatment of loopback and private addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivateAddresses {
    /// Each connection has a key of its own and is exempt from limits.
    Exempt,
    /// They are counted like all other addresses.
    Counted,
}

/// The upper half of the addresses by which Tor names circuits.
const CIRCUITS: u64 = 0xfc00_dead_beef_4dad;

impl Default for ClientKeying {
    fn default() -> Self {
        Self { ipv4_bits: 32, ipv6_bits: 56, private: PrivateAddresses::Exempt }
    }
}

impl ClientKeying {
    /// Returns the key of a client at `address`: the address of its socket, or the one that a PROXY header names.
    pub fn key(&self, address: IpAddr, connection: u64) -> ClientKey {
        let address = address.to_canonical();
        if let IpAddr::V6(address) = address
            && upper_half(address) == CIRCUITS
        {
            return ClientKey::Circuit(lower_half(address));
        }
        if self.private == PrivateAddresses::Exempt && is_private(address) {
            return ClientKey::Connection(connection);
        }
        ClientKey::network(address, self.ipv4_bits, self.ipv6_bits)
    }
}

impl ClientKey {
    /// Returns the key of the network of an address, which has `ipv4_bits` or `ipv6_bits` bits.
    pub fn network(address: IpAddr, ipv4_bits: u8, ipv6_bits: u8) -> Self {
        match address {
            IpAddr::V4(address) => {
                let bits = ipv4_bits.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                Self::Network(Ipv4Addr::from_bits(address.to_bits() & mask).into(), bits)
            }
            IpAddr::V6(address) => {
                let bits = ipv6_bits.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                Self::Network(Ipv6Addr::from_bits(address.to_bits() & mask).into(), bits)
            }
        }
    }

    /// Returns `true` when no limit of a client applies.
    pub fn is_exempt(self) -> bool {
        matches!(self, Self::Connection(_))
    }
}

/// The form for operators: an address, a network, `circuit` and its number, or `private`.
impl std::fmt::Display for ClientKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Network(address, 32) if address.is_ipv4() => write!(formatter, "{address}"),
            Self::Network(address, bits) => write!(formatter, "{address}/{bits}"),
            Self::Circuit(number) => write!(formatter, "circuit {number:x}"),
            Self::Connection(_) => formatter.write_str("private"),
        }
    }
}

/// Returns `true` for loopback, private and link-local addresses, which identify no client.
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local(),
    }
}

fn upper_half(address: Ipv6Addr) -> u64 {
    u64::try_from(address.to_bits() >> 64).expect("64 bits are left")
}

fn lower_half(address: Ipv6Addr) -> u64 {
    u64::try_from(address.to_bits() & u128::from(u64::MAX)).expect("64 bits are left")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn text(keying: ClientKeying, address: &str) -> String {
        keying.key(address.parse().unwrap(), 7).to_string()
    }

    #[test]
    fn addresses_are_cut_to_their_network() {
        let wide = ClientKeying { ipv4_bits: 24, ipv6_bits: 48, ..ClientKeying::default() };
        let table = [
            ("203.0.113.77", "203.0.113.77", "203.0.113.0/24"),
            ("::ffff:203.0.113.77", "203.0.113.77", "203.0.113.0/24"),
            ("2001:db8:1:203:4:5:6:7", "2001:db8:1:200::/56", "2001:db8:1::/48"),
        ];
        for (address, narrow_key, wide_key) in table {
            assert_eq!(text(ClientKeying::default(), address), narrow_key);
            assert_eq!(text(wide, address), wide_key);
        }
    }

    #[test]
    fn private_addresses_are_exempt_unless_counted() {
        let counted = ClientKeying { private: PrivateAddresses::Counted, ..ClientKeying::default() };
        let private =
            ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.0.1", "::1", "fd00::1", "fe80::1"];
        for address in private {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(ClientKeying::default().key(address, 7), ClientKey::Connection(7), "{address}");
            assert!(!counted.key(address, 7).is_exempt(), "{address}");
        }
    }

    #[test]
    fn each_tor_circuit_is_a_client_of_its_own() {
        let key = |address: &str| ClientKeying::default().key(address.parse().unwrap(), 7);
        assert_eq!(key("fc00:dead:beef:4dad::1:2"), ClientKey::Circuit(0x1_0002));
        assert_ne!(key("fc00:dead:beef:4dad::1:2"), key("fc00:dead:beef:4dad::1:3"));
        assert!(!key("fc00:dead:beef:4dad::1:2").is_exempt());
    }

    #[test]
    fn all_addresses_may_be_one_client() {
        let one = ClientKeying { ipv4_bits: 0, ipv6_bits: 0, ..ClientKeying::default() };
        assert_eq!(text(one, "203.0.113.77"), "0.0.0.0/0");
        assert_eq!(text(one, "2001:db8::1"), "::/0");
    }
}
