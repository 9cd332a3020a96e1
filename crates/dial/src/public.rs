//! Addresses that everybody may name: those of the public Internet. A stranger's list that leads elsewhere would make
//! the server a way into its own network.
//!
//! Source: the registries of special addresses,
//! <https://www.iana.org/assignments/iana-ipv4-special-registry> and `iana-ipv6-special-registry`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns true for an address of the public Internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && b & 0xc0 == 64;
    let is_of_protocols = [a, b, c] == [192, 0, 0];
    let is_of_benchmarks = a == 198 && b & 0xfe == 18;
    !(a == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || is_shared
        || is_of_protocols
        || is_of_benchmarks
        || a >= 224)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let (segments, octets) = (address.segments(), address.octets());
    if segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        // A translator to IPv4 (RFC 6052), which hosts without IPv4 depend on.
        return is_public_v4(Ipv4Addr::from_octets(*octets.last_chunk().expect("sixteen bytes")));
    }
    let [first, second, ..] = segments;
    let is_global = first & 0xe000 == 0x2000;
    let is_of_protocols = first == 0x2001 && second < 0x200;
    let is_of_documentation = [first, second] == [0x2001, 0xdb8] || (first == 0x3fff && second < 0x1000);
    let is_6to4 = first == 0x2002;
    is_global && !is_of_protocols && !is_of_documentation && !is_6to4
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_of_the_registries_are_not_public() {
        for special in [
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.9",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:a00:1::1",
            "3fff:fff::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
        for public in [
            "1.1.1.1",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:200::1",
            "2a00::1",
            "64:ff9b::1.1.1.1",
            "::ffff:1.1.1.1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }
}
