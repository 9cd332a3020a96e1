//! `server.*`: what the server says of itself.

use bitcoin::BlockHash;

use crate::response::{Answer, FeaturesForm};
use crate::settings::Settings;

/// `server.features`.
pub(crate) fn features(settings: &Settings, genesis_hash: BlockHash, form: FeaturesForm) -> Answer {
    let (hosts, server_version) = (settings.hosts.clone(), settings.server_version.clone());
    Answer::Features { hosts, genesis_hash, server_version, form }
}

/// `server.peers.subscribe`: this server looks for no others.
pub(crate) fn peers() -> Answer {
    Answer::Nothing
}

/// `server.add_peer`, with the JSON of the other server's features: this server takes none.
pub(crate) fn add_peer(_features: &str) -> Answer {
    Answer::Bool(false)
}
