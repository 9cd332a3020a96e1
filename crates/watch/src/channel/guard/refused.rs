//! Addresses that no channel may reach: a message there would be a command.

use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Addresses that no channel may reach.
#[derive(Debug, Clone, Default)]
pub struct Refused(pub Vec<RefusedAddress>);

/// An address that no channel may reach. One of this machine stands for all addresses of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedAddress {
    /// Its owner, as in "the port of the node's RPC".
    pub name: String,
    /// The address; with `0.0.0.0` or `[::]`, every one of this machine.
    pub address: SocketAddr,
}

impl Refused {
    /// Checks an address.
    ///
    /// # Errors
    /// The name of the address that is refused.
    pub(super) fn check(&self, address: SocketAddr) -> Result<(), String> {
        let ip = address.ip().to_canonical();
        let of_port = || self.0.iter().filter(|refused| refused.address.port() == address.port());
        let is_same = |refused: &&RefusedAddress| refused.address.ip().to_canonical() == ip;
        let is_here = |refused: &&RefusedAddress| is_local(refused.address.ip().to_canonical());
        let found = of_port().find(is_same).or_else(|| of_port().find(is_here).filter(|_| is_local(ip)));
        match found {
            Some(refused) => Err(refused.name.clone()),
            None => Ok(()),
        }
    }
}

/// True for an address of this machine: only these can be bound.
fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified() || UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn refused(address: &str) -> Refused {
        Refused(vec![RefusedAddress { name: "the node's RPC".into(), address: address.parse().unwrap() }])
    }

    #[test]
    fn every_address_of_this_machine_is_refused_on_a_port_of_its_own() {
        for own in ["127.0.0.1:8332", "0.0.0.0:8332", "[::]:8332", "[::1]:8332"] {
            for tried in ["127.0.0.1", "127.0.0.9", "[::1]", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]"] {
                let address = format!("{tried}:8332").parse().unwrap();
                assert_eq!(refused(own).check(address), Err("the node's RPC".into()), "{own} {tried}");
            }
            assert_eq!(refused(own).check("127.0.0.1:8080".parse().unwrap()), Ok(()));
            assert_eq!(refused(own).check("192.0.2.7:8332".parse().unwrap()), Ok(()));
        }
    }

    #[test]
    fn an_address_of_another_machine_is_refused_alone() {
        let refused = refused("192.0.2.7:8332");
        assert!(refused.check("192.0.2.7:8332".parse().unwrap()).is_err());
        assert!(refused.check("[::ffff:192.0.2.7]:8332".parse().unwrap()).is_err());
        assert!(refused.check("127.0.0.1:8332".parse().unwrap()).is_ok());
        assert!(refused.check("192.0.2.8:8332".parse().unwrap()).is_ok());
    }
}
