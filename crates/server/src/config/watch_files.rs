//! Names of the files of watches.

use std::path::{Path, PathBuf};

/// The watch file, unless `watch-file` names another one: in the folder of a configuration file that is not the
/// packaged one, else in the data folder. A backup has it under this name.
pub(crate) const FILE: &str = "watches.toml";
/// The server's secret key at Nostr.
pub(crate) const KEY: &str = "watch.nsec";
/// The token of the API for programs, unless `watch-api-token-file` names another one.
pub(crate) const API_TOKEN: &str = "watch-api-token";

/// Returns the path of the notices and of what the watches know: a file a network, beside the folder of the index. That
/// folder may be removed at any time.
pub(crate) fn state(index_dir: &Path) -> PathBuf {
    let network = index_dir.file_name().unwrap_or_default();
    index_dir.with_file_name(format!("watch-{}.redb", network.display()))
}
