//! What a server says of itself, as far as peers need it.

use std::collections::BTreeMap;
use std::io::{Error, Result};

use bitcoin::BlockHash;
use serde::Deserialize;

use crate::methods::server;
use crate::response::FeaturesForm;
use crate::settings::{Host, Settings};

/// Names of one server that are looked at.
const HOSTS_MAX: usize = 2;
/// The longest name in the DNS.
const NAME_BYTES_MAX: usize = 253;
/// The longest number of a protocol version that is told on.
const VERSION_BYTES_MAX: usize = 8;

/// The parts of `server.features`.
#[derive(Debug, Deserialize)]
pub(super) struct Features {
    genesis_hash: String,
    hosts: BTreeMap<String, Ports>,
    #[serde(default)]
    protocol_max: String,
}

#[derive(Debug, Deserialize)]
struct Ports {
    tcp_port: Option<u16>,
    ssl_port: Option<u16>,
}

impl Features {
    /// Reads the features of a server of our chain.
    pub(super) fn parse(json: &str, genesis_hash: BlockHash) -> Result<Self> {
        let features: Self = serde_json::from_str(json)?;
        if features.genesis_hash == genesis_hash.to_string() {
            Ok(features)
        } else {
            Err(Error::other("it serves another chain"))
        }
    }

    /// What this server tells others.
    pub(super) fn own(settings: &Settings, genesis_hash: BlockHash) -> String {
        let features = server::features(settings, genesis_hash, FeaturesForm::WithHashFunction);
        serde_json::to_string(&features).expect("features are always written to memory")
    }

    /// Where it says it can be reached, as far as that can be looked at.
    pub(super) fn hosts(&self) -> impl Iterator<Item = Host> {
        let named = self.hosts.iter().filter(|(name, _)| is_name(name)).map(|(name, ports)| Host {
            name: name.to_ascii_lowercase(),
            tcp_port: ports.tcp_port,
            ssl_port: ports.ssl_port,
            ..Host::default()
        });
        named.filter(|host| host.tcp_port.or(host.ssl_port).is_some()).take(HOSTS_MAX)
    }

    /// What it says of itself under this name.
    pub(super) fn host(&self, name: &str) -> Option<Host> {
        self.hosts().find(|host| host.name == name)
    }

    /// Its newest protocol version, if that looks like one.
    pub(super) fn protocol_max(&self) -> String {
        let is_version = self.protocol_max.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let is_short = (1..=VERSION_BYTES_MAX).contains(&self.protocol_max.len());
        if is_version && is_short { self.protocol_max.clone() } else { "1.4".into() }
    }
}

/// A name of the DNS or an address. Onion services cannot be looked at from here.
fn is_name(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:".contains(&byte));
    is_plain && !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.to_ascii_lowercase().ends_with(".onion")
}
