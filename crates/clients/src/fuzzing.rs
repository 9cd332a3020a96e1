//! Properties of forwarding headers, for the fuzz target and for tests like it.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::client_key::Origin;
use crate::forwarded::Forwarding;

/// Values that a client forges in front of those that the proxy appends.
const FORGED: [&[u8]; 2] = [b"192.0.2.66", b"for=192.0.2.66"];

/// Reads lines as the values of a header that a trusted proxy wrote the end of. The client that they name stays the
/// same, whatever the client itself sent before them.
///
/// # Panics
/// When this does not hold.
pub fn forwarded(bytes: &[u8]) {
    let values: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let proxies = [IpNet::from(IpAddr::V4(Ipv4Addr::LOCALHOST))];
    let [one, other] = [0, 1].map(|header| {
        let honest = origin(header, values.clone(), &proxies);
        let forged = [&FORGED[header..=header], &values].concat();
        if named(&honest).is_some_and(|address| !proxies[0].contains(&address)) {
            assert_eq!(named(&origin(header, forged, &proxies)), named(&honest));
        }
        named(&honest)
    });
    let both = Forwarding { x_forwarded_for: values.clone(), forwarded: values };
    let both = named(&both.origin(Ipv4Addr::LOCALHOST.into(), &proxies));
    assert!(both.is_none() || both == one && both == other, "headers that disagree name {both:?}");
}

fn origin(header: usize, values: Vec<&[u8]>, proxies: &[IpNet]) -> Origin {
    let forwarding = match header {
        0 => Forwarding { x_forwarded_for: values, ..Forwarding::default() },
        _ => Forwarding { forwarded: values, ..Forwarding::default() },
    };
    forwarding.origin(Ipv4Addr::LOCALHOST.into(), proxies)
}

fn named(origin: &Origin) -> Option<IpAddr> {
    match origin {
        Origin::Client(address) => Some(*address),
        Origin::Unnamed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngSeed};

    use super::*;

    /// Parts of headers, right and wrong.
    const PARTS: [&str; 14] = [
        "198.51.100.7",
        "127.0.0.1",
        "[2001:db8::1]:80",
        "2001:db8::1",
        "for=",
        "\"",
        ",",
        ";",
        "\n",
        " ",
        "proto=https",
        "unknown",
        "_hidden",
        "\u{e9}",
    ];

    proptest! {
        #![proptest_config(Config {
            cases: 4000, failure_persistence: None, rng_seed: RngSeed::Fixed(0x666f_7277), ..Config::default()
        })]

        #[test]
        fn damaged_headers_name_nobody_or_the_client_that_the_proxy_saw(parts in vec(0..PARTS.len(), 0..12)) {
            forwarded(parts.into_iter().map(|part| PARTS[part]).collect::<String>().as_bytes());
        }

        #[test]
        fn random_bytes_name_nobody_or_the_client_that_the_proxy_saw(bytes in vec(any::<u8>(), 0..60)) {
            forwarded(&bytes);
        }
    }
}
