//! Programs of others, which `scripts/peers` installs.

use std::path::PathBuf;
use std::process::Command;

use serde::de::DeserializeOwned;

/// A folder of packages.
pub(crate) struct Peer {
    /// The variable that overrides the folder.
    variable: &'static str,
    /// The folder that `scripts/peers` makes in the cache.
    cached: &'static str,
}

/// `standardwebhooks` of npm and `PyPI`, and `aiosmtpd`.
pub(crate) const RECEIVERS: Peer = Peer { variable: "NOTICE_RECEIVERS", cached: "notice-receivers-1" };

impl Peer {
    /// Returns the folder, if it is there.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let cache = || {
            let home = || std::env::home_dir().map(|home| home.join(".cache"));
            std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)
        };
        let cached = || Some(cache()?.join("birdhouse").join(self.cached));
        let folder = std::env::var_os(self.variable).map(PathBuf::from).or_else(cached)?;
        if folder.is_dir() {
            return Some(folder);
        }
        eprintln!("LEFT OUT: {} is not there; see scripts/peers", folder.display());
        None
    }
}

/// Runs a program to its end, and returns the JSON that it prints.
pub(crate) async fn run<T: DeserializeOwned>(mut command: Command) -> T {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
