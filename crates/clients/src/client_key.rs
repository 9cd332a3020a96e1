//! The key under which the connections of one client are counted together.
//!
//! A person has one IPv4 address or a whole IPv6 network, so addresses are cut to a prefix. Tor names the circuits of
//! an onion service by addresses of a reserved network (`HiddenServiceExportCircuitID haproxy`): each circuit has a
//! key. Clients that cannot be told apart share one key, that of the pool: those of an onion service without circuits,
//! of a reverse proxy that names nobody or is not trusted, and of this machine. The pool may use as much as
//! [`POOL_CLIENTS`] clients, and its connections take turns with each other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A client, as precisely as the server can identify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientKey {
    /// The addresses of one network: its first address and the bits of its prefix.
    Network(IpAddr, u8),
    /// A Tor circuit and its number.
    Circuit(u64),
    /// All clients that cannot be told apart.
    Pool,
}

/// Clients for which the pool counts: its limits are this multiple of those of one client.
pub const POOL_CLIENTS: u32 = 20;

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client at this address.
    Client(IpAddr),
    /// A client that nobody names, behind this address: that of a proxy, or loopback.
    Unnamed(IpAddr),
}

/// Rules that map addresses to keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientKeying {
    /// Bits of an IPv4 address that make a key, 1 to 32.
    pub ipv4_bits: u8,
    /// Bits of an IPv6 address that make a key, 1 to 128. Providers give a home a network of 56 or 64 bits.
    pub ipv6_bits: u8,
}

/// The upper half of the addresses by which Tor names circuits.
const CIRCUITS: u64 = 0xfc00_dead_beef_4dad;

impl Default for ClientKeying {
    fn default() -> Self {
        Self { ipv4_bits: 32, ipv6_bits: 56 }
    }
}

impl Origin {
    /// Returns the origin of a connection that comes from this address, or for which a trusted proxy names it. On
    /// loopback there are only proxies, and programs of this machine.
    pub fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        if address.is_loopback() { Self::Unnamed(address) } else { Self::Client(address) }
    }

    /// Returns the address.
    pub fn address(self) -> IpAddr {
        match self {
            Self::Client(address) | Self::Unnamed(address) => address,
        }
    }
}

impl ClientKeying {
    /// Returns the key of a client.
    pub fn key(&self, origin: Origin) -> ClientKey {
        let Origin::Client(address) = origin else { return ClientKey::Pool };
        let address = address.to_canonical();
        if let IpAddr::V6(address) = address
            && upper_half(address) == CIRCUITS
        {
            return ClientKey::Circuit(lower_half(address));
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

    /// Returns the number of clients for whose use the key counts.
    pub fn clients(self) -> u32 {
        if self == Self::Pool { POOL_CLIENTS } else { 1 }
    }
}

/// The form for operators: an address, a network, `circuit` and its number, or `pool`.
impl std::fmt::Display for ClientKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Network(address, 32) if address.is_ipv4() => write!(formatter, "{address}"),
            Self::Network(address, bits) => write!(formatter, "{address}/{bits}"),
            Self::Circuit(number) => write!(formatter, "circuit {number:x}"),
            Self::Pool => formatter.write_str("pool"),
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
        keying.key(Origin::of(address.parse().unwrap())).to_string()
    }

    #[test]
    fn addresses_are_cut_to_their_network() {
        let wide = ClientKeying { ipv4_bits: 24, ipv6_bits: 48 };
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
    fn private_addresses_are_counted_and_loopback_is_the_pool() {
        let key = |address: &str| ClientKeying::default().key(Origin::of(address.parse().unwrap()));
        for address in ["10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.0.1", "fd00::1", "fe80::1"] {
            assert_eq!(key(address).clients(), 1, "{address}");
        }
        for address in ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!((key(address), key(address).clients()), (ClientKey::Pool, POOL_CLIENTS), "{address}");
        }
        assert_eq!(ClientKeying::default().key(Origin::Unnamed([192, 0, 2, 1].into())), ClientKey::Pool);
    }

    #[test]
    fn each_tor_circuit_is_a_client_of_its_own() {
        let key = |address: &str| ClientKeying::default().key(Origin::of(address.parse().unwrap()));
        assert_eq!(key("fc00:dead:beef:4dad::1:2"), ClientKey::Circuit(0x1_0002));
        assert_ne!(key("fc00:dead:beef:4dad::1:2"), key("fc00:dead:beef:4dad::1:3"));
    }

    #[test]
    fn all_addresses_may_be_one_client() {
        let one = ClientKeying { ipv4_bits: 0, ipv6_bits: 0 };
        assert_eq!(text(one, "203.0.113.77"), "0.0.0.0/0");
        assert_eq!(text(one, "2001:db8::1"), "::/0");
    }
}
