//! Names of the files of watches. All but the notices lie in the data folder.

/// The watch file, unless `watch-file` or the folder of the configuration file says otherwise.
pub(crate) const FILE: &str = "watches.toml";
/// The server's secret key at Nostr.
pub(crate) const KEY: &str = "watch.nsec";
/// The token of the API for programs, unless `watch-api-token-file` names another one.
pub(crate) const API_TOKEN: &str = "watch-api-token";
/// Notices and what the watches know, in the folder of the index.
pub(crate) const STATE: &str = "watch.redb";
