//! Ports at which the node listens for peers, by its configuration. The command line of a running node is not known, so
//! the list may not be complete.
//!
//! Source: Core's `src/init.cpp` (`-port`, `-bind`, `-whitebind`), `src/chainparamsbase.cpp`,
//! `src/kernel/chainparams.cpp` (`nDefaultPort`).

use bitcoin::Network;

use super::Conf;

/// Returns the ports of a configuration, or the network's where it names none: each with the next one, at which a node
/// takes connections from Tor.
pub(super) fn of_conf(conf: &Conf, network: Network) -> Vec<u16> {
    let port = conf.get(network, "port").and_then(|port| port.parse().ok()).unwrap_or(default_port(network));
    let named = conf.all(network, "bind").chain(conf.all(network, "whitebind")).filter_map(port_of);
    let mut ports: Vec<u16> = [port, port.saturating_add(1)].into_iter().chain(named).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Returns the port of `[permissions@]address[:port][=onion]`.
fn port_of(bound: &str) -> Option<u16> {
    let address = bound.rsplit_once('@').map_or(bound, |(_, address)| address);
    let address = address.split_once('=').map_or(address, |(address, _)| address);
    let (host, port) = address.rsplit_once(':')?;
    // An IPv6 address without brackets has colons, and no port.
    let is_port = !host.contains(':') || host.ends_with(']');
    port.parse().ok().filter(|_| is_port)
}

fn default_port(network: Network) -> u16 {
    match network {
        Network::Bitcoin => 8333,
        Network::Testnet => 18_333,
        Network::Testnet4 => 48_333,
        Network::Signet => 38_333,
        Network::Regtest => 18_444,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_of_core_unless_the_configuration_names_others() {
        let found = |text: &str, network| of_conf(&Conf::parse(text), network);
        assert_eq!(found("", Network::Bitcoin), [8333, 8334]);
        assert_eq!(found("port=9000", Network::Bitcoin), [9000, 9001]);
        // Before all sections, these keys are of the main network.
        assert_eq!(found("port=9000\nbind=127.0.0.1:7", Network::Regtest), [18_444, 18_445]);
        let bound =
            "[regtest]\nbind=0.0.0.0\nbind=127.0.0.1:7=onion\nbind=[::1]:8\nbind=::1\nwhitebind=noban@10.0.0.1:9";
        assert_eq!(found(bound, Network::Regtest), [7, 8, 9, 18_444, 18_445]);
    }
}
