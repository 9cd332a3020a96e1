//! Addresses that no channel of the watch file may reach: a message there would be a command.

use std::net::{SocketAddr, ToSocketAddrs as _};

use birdhouse_watch::channel::{Refused, RefusedAddress};
use bitcoin::Network;

use crate::config::Options;

/// Returns the addresses of the node (RPC, peer-to-peer, ZMQ), those of this server's operator, and that of Tor's
/// control port. Looks names up.
pub(crate) fn refused(options: &Options, rpc_address: &str, network: Network) -> Refused {
    let mut refused = Vec::new();
    let mut refuse = |name: &str, address: SocketAddr| {
        refused.push(RefusedAddress { name: name.to_owned(), address });
    };
    for address in resolved(rpc_address) {
        refuse("the node's RPC", address);
        refuse("the node's port for peers", SocketAddr::new(address.ip(), peer_port(network)));
    }
    for address in options.zmq_sequence_addr.as_deref().into_iter().flat_map(resolved) {
        refuse("the node's ZMQ", address);
    }
    let own = [
        ("this server's dashboard", options.ops_addr),
        ("this server's port for replicas", options.replicas_addr),
        ("this server's port for replicas", options.replicas_tls_addr),
        ("Tor's control port", options.tor_control_addr.or_else(|| "127.0.0.1:9051".parse().ok())),
    ];
    for (name, address) in own {
        if let Some(address) = address {
            refuse(name, address);
        }
    }
    Refused(refused)
}

/// Returns the addresses of `host:port`, with or without a scheme; none if the name is not found.
fn resolved(address: &str) -> Vec<SocketAddr> {
    let address = address.rsplit_once("://").map_or(address, |(_, address)| address).trim_end_matches('/');
    address.to_socket_addrs().map(Iterator::collect).unwrap_or_default()
}

/// Port at which a node listens for peers, unless `port=` names another: `nDefaultPort` in Core's
/// `src/kernel/chainparams.cpp`.
fn peer_port(network: Network) -> u16 {
    match network {
        Network::Bitcoin => 8333,
        Network::Testnet => 18_333,
        Network::Testnet4 => 48_333,
        Network::Signet => 38_333,
        Network::Regtest => 18_444,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_node_and_the_operator_are_refused_and_clients_ports_are_not() {
        let options = Options {
            ops_addr: Some("127.0.0.1:9100".parse().unwrap()),
            zmq_sequence_addr: Some("tcp://127.0.0.1:28332".into()),
            relay_addr: Some("127.0.0.1:7777".parse().unwrap()),
            ..Options::default()
        };
        let Refused(refused) = refused(&options, "127.0.0.1:8332", Network::Bitcoin);
        let ports: Vec<_> = refused.iter().map(|refused| refused.address.port()).collect();
        assert_eq!(ports, [8332, 8333, 28_332, 9100, 9051]);
    }
}
