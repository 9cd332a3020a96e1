//! Clients of npm, in node.

use std::path::PathBuf;
use std::process::Command;

use serde::de::DeserializeOwned;

/// Packages of npm that `scripts/peers` installs.
pub(crate) struct Npm {
    /// The variable that overrides their folder.
    pub(crate) variable: &'static str,
    /// The folder that `scripts/peers` makes in the cache.
    pub(crate) cached: &'static str,
    /// The one that is looked for.
    pub(crate) package: &'static str,
}

impl Npm {
    /// Where the packages are, if they are there.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let cache = || {
            let home = || std::env::home_dir().map(|home| home.join(".cache"));
            std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)
        };
        let cached = || Some(cache()?.join("birdhouse").join(self.cached).join("node_modules"));
        let folder = std::env::var_os(self.variable).map(PathBuf::from).or_else(cached)?;
        folder.join(self.package).is_dir().then_some(folder)
    }

    /// Runs a script with the folder of the packages and the URL of a relay. Returns what it prints, or nothing if the
    /// packages are not there.
    pub(crate) async fn run<T: DeserializeOwned>(&self, script: &'static str, url: String) -> Option<T> {
        let Some(packages) = self.folder() else {
            eprintln!("LEFT OUT: {} is not there; see scripts/peers", self.package);
            return None;
        };
        let run = move || Command::new("node").args(["--eval", script]).arg(packages).arg(url).output().unwrap();
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(serde_json::from_slice(&output.stdout).unwrap())
    }
}
