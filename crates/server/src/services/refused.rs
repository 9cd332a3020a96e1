//! Addresses that no connection of the server's own may reach: a message there would be a command.

use std::sync::Arc;

use birdhouse_node::{Rpc, announced_ports};
use birdhouse_watch::channel::{Refused, RefusedAddress};

use crate::config::Options;
use crate::index::{NodePorts, Setup, node_conf};

const PEERS: &str = "the node's port for peers";

/// Returns the addresses of the node (RPC, peer-to-peer, ZMQ), those of this server's operator, and that of Tor's
/// control port. Names are looked up when they are used.
pub(crate) fn refused(options: &Options, setup: Option<&Setup>) -> Refused {
    let Some(setup) = setup else {
        let node = node_conf(options).ok();
        let (address, ports) = node.map(|node| (node.rpc_address.clone(), NodePorts::of(&node))).unwrap_or_default();
        return Refused::new(known(options, &address, &ports));
    };
    let address = setup.rpc.as_ref().map_or("", |rpc| rpc.address());
    let refused = Refused::new(known(options, address, &setup.node_ports));
    match setup.rpc.clone() {
        Some(rpc) => refused.with_node(Arc::new(move || announced(&rpc))),
        None => refused,
    }
}

/// Returns the addresses that the settings and the configuration of the node name.
fn known(options: &Options, rpc: &str, ports: &NodePorts) -> Vec<RefusedAddress> {
    let node = RefusedAddress::parse("the node's RPC", rpc);
    let zmq = ports.zmq.as_deref().and_then(|address| RefusedAddress::parse("the node's ZMQ", address));
    let peers = node.iter().flat_map(|node| ports.peers.iter().map(|port| node.with_port(PEERS, *port)));
    let own = [
        ("this server's dashboard", options.ops_addr),
        ("this server's port for replicas", options.replicas_addr),
        ("this server's port for replicas", options.replicas_tls_addr),
        ("Tor's control port", options.tor_control_addr.or_else(|| "127.0.0.1:9051".parse().ok())),
    ];
    let own = own.into_iter().filter_map(|(name, socket)| Some(RefusedAddress::of_socket(name, socket?)));
    node.clone().into_iter().chain(peers).chain(zmq).chain(own).collect()
}

/// Asks the node for the ports that it announces to its peers; `None` if it does not answer.
fn announced(rpc: &Rpc) -> Option<Vec<RefusedAddress>> {
    let Some(node) = RefusedAddress::parse("the node's RPC", rpc.address()) else { return Some(Vec::new()) };
    let ports = announced_ports(rpc).ok()?;
    Some(ports.into_iter().map(|port| node.with_port(PEERS, port)).collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_node_and_the_operator_are_refused_and_clients_ports_are_not() {
        let options = Options {
            ops_addr: Some("127.0.0.1:9100".parse().unwrap()),
            relay_addr: Some("127.0.0.1:7777".parse().unwrap()),
            ..Options::default()
        };
        let ports = NodePorts { peers: vec![8333, 9333], zmq: Some("tcp://127.0.0.1:28332".into()) };
        for node in ["127.0.0.1:8332", "a-name-that-nobody-knows:8332"] {
            let refused = known(&options, node, &ports);
            let ports: Vec<_> = refused.iter().map(RefusedAddress::port).collect();
            assert_eq!(ports, [8332, 8333, 9333, 28_332, 9100, 9051]);
        }
    }
}
