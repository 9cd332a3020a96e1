//! The answer of a server to `server.features`, as far as peers need it.

use std::collections::BTreeMap;
use std::io::{Error, Result};

use bitcoin::BlockHash;
use serde::Deserialize;

use crate::protocol::{Answer, FeaturesForm, Offers};
use crate::settings::{Host, Settings};

/// Names of one server that are probed.
const HOSTS_MAX: usize = 2;
/// The longest name in the DNS.
const NAME_BYTES_MAX: usize = 253;
/// The longest protocol version that is listed.
const VERSION_BYTES_MAX: usize = 8;

/// The parts of `server.features`.
#[derive(Debug, Deserialize)]
pub(super) struct Features {
    genesis_hash: String,
    hosts: BTreeMap<String, Host>,
    #[serde(default)]
    protocol_max: String,
}

impl Features {
    /// Parses the features of a server.
    ///
    /// # Errors
    /// The JSON is malformed, or the server serves another chain.
    pub(super) fn parse(json: &str, genesis_hash: BlockHash) -> Result<Self> {
        let features: Self = serde_json::from_str(json)?;
        if features.genesis_hash == genesis_hash.to_string() {
            Ok(features)
        } else {
            Err(Error::other("it serves another chain"))
        }
    }

    /// Returns this server's own features, as JSON.
    pub(super) fn own(settings: &Settings, genesis_hash: BlockHash) -> String {
        // Each listener has its own, and clients ask it for them.
        let features = Answer::features(settings, genesis_hash, FeaturesForm::WithHashFunction, Offers::NONE);
        serde_json::to_string(&features).expect("features are always written to memory")
    }

    /// Returns the hosts at which the server says it can be reached, as far as they can be probed.
    pub(super) fn hosts(&self) -> impl Iterator<Item = Host> {
        let named = self.hosts.iter().filter(|(name, _)| is_name(name));
        let named = named.map(|(name, host)| Host { name: name.to_ascii_lowercase(), ..host.clone() });
        named.filter(|host| host.tcp_port.or(host.ssl_port).is_some()).take(HOSTS_MAX)
    }

    /// Returns the host of this name.
    pub(super) fn host(&self, name: &str) -> Option<Host> {
        self.hosts().find(|host| host.name == name)
    }

    /// Returns the server's newest protocol version; 1.4 if it states none that looks like one.
    pub(super) fn protocol_max(&self) -> String {
        let is_version = self.protocol_max.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let is_short = (1..=VERSION_BYTES_MAX).contains(&self.protocol_max.len());
        if is_version && is_short { self.protocol_max.clone() } else { "1.4".into() }
    }
}

/// Returns true for a DNS name or an address. Onion services cannot be reached from here.
fn is_name(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:".contains(&byte));
    is_plain && !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.to_ascii_lowercase().ends_with(".onion")
}
