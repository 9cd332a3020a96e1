//! The connections that may subscribe by scan key. Pure.

use std::net::IpAddr;

use birdhouse_clients::is_private;
use birdhouse_net::Transport;

use crate::limits::ScanKeys;

/// Access of a connection to subscriptions by scan key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The listener takes no scan keys: its clients see no such method.
    Off,
    /// Others on the way could read the key.
    InClear,
    Open,
}

impl Access {
    /// Returns the access of a client at this address.
    pub(crate) fn of(setting: ScanKeys, transport: &Transport, address: IpAddr) -> Self {
        match setting {
            ScanKeys::Off => Self::Off,
            ScanKeys::Encrypted if transport.certificate().is_none() && !is_private(address.to_canonical()) => {
                Self::InClear
            }
            ScanKeys::Encrypted | ScanKeys::Any => Self::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_in_clear_from_private_addresses_alone_unless_set() {
        let access = |setting, address: &str| {
            Access::of(setting, &Transport::Tcp, address.parse().expect("an address of the test"))
        };
        let (public, private) = (
            ["203.0.113.7", "2001:db8::1", "::ffff:203.0.113.7"],
            ["127.0.0.1", "::1", "10.1.2.3", "192.168.7.7", "fd00::1", "::ffff:10.0.0.1"],
        );
        for address in public {
            assert_eq!(access(ScanKeys::Encrypted, address), Access::InClear, "{address}");
            assert_eq!(access(ScanKeys::Any, address), Access::Open, "{address}");
            assert_eq!(access(ScanKeys::Off, address), Access::Off, "{address}");
        }
        for address in private {
            assert_eq!(access(ScanKeys::Encrypted, address), Access::Open, "{address}");
            assert_eq!(access(ScanKeys::Off, address), Access::Off, "{address}");
        }
    }
}
