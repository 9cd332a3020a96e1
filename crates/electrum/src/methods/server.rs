//! `server.*`: the server's description of itself.

use bitcoin::BlockHash;

use crate::answer::{Answer, FeaturesForm};
use crate::settings::Settings;

/// `server.features`.
pub(crate) fn features(settings: &Settings, genesis_hash: BlockHash, form: FeaturesForm) -> Answer {
    let (hosts, server_version) = (settings.hosts.clone(), settings.server_version.clone());
    Answer::Features { hosts, genesis_hash, server_version, form }
}
