//! The file of the operator's rules: in the folder of the relay, or of the index where there is no relay.

use std::path::PathBuf;

use anyhow::Result;
use birdhouse_relay::RuleBook;

use super::relay;
use crate::config::Options;
use crate::index::Setup;

/// Name of the file.
pub(crate) const FILE: &str = "rules";

/// Opens the rules. Mentions those that apply only with, or only without a relay.
pub(super) fn open(options: &Options, index: Option<&Setup>) -> Result<RuleBook> {
    let of_relay = relay::folder(options)?.join(FILE);
    let of_index = index.map(|setup| setup.index_dir.join(FILE));
    let (path, other): (PathBuf, _) = match of_index {
        Some(of_index) if !relay::is_on(options)? => (of_index, Some(of_relay)),
        of_index => (of_relay, of_index),
    };
    if let Some(other) = other.filter(|other| other.exists() && !path.exists()) {
        let (other, path) = (other.display(), path.display());
        tracing::info!(%other, %path, "bans were made with another setting of the relay; copy the file to apply them");
    }
    Ok(RuleBook::open(path)?)
}
