//! Logging to standard error, with a level that can change while the server runs.

mod repeats;

use std::io::IsTerminal as _;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::repeats::Repeats;

/// A handle that changes the log level.
#[derive(Clone)]
pub(crate) struct Level(Arc<Reload>);

type Reload = dyn Fn(EnvFilter) -> Result<()> + Send + Sync;

/// Starts to log to standard error; standard output is for results.
pub(crate) fn start(level: Option<&str>) -> Result<Level> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(level.unwrap_or(Level::DEFAULT))?)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_filter_reloading();
    let handle = builder.reload_handle();
    builder.finish().with(Repeats::default()).try_init().context("failed to start the log")?;
    Ok(Level(Arc::new(move |filter| handle.reload(filter).context("failed to change the log level"))))
}

/// Checks a level as [`start`] does.
pub(crate) fn check(level: &str) -> Result<()> {
    filter(level).map(drop)
}

impl Level {
    /// The level of a server without settings.
    pub(crate) const DEFAULT: &str = "info";

    /// Returns a handle that changes nothing.
    #[cfg(test)]
    pub(crate) fn of_tests() -> Self {
        Self(Arc::new(|_| Ok(())))
    }

    /// Changes the level: a name, or levels of modules like `info,birdhouse_relay=debug`.
    pub(crate) fn set(&self, level: &str) -> Result<()> {
        (self.0)(filter(level)?)
    }
}

/// Parses a level. `EnvFilter` alone takes any word for the name of a module, so a misspelt level would log nothing.
fn filter(level: &str) -> Result<EnvFilter> {
    let wrong = || {
        format!(
            "invalid log level {level:?}; use off, error, warn, info, debug or trace, or levels of modules like \
             info,birdhouse_relay=debug"
        )
    };
    for directive in level.split(',') {
        let (module, level) = directive.split_once('=').unwrap_or(("all", directive));
        let is_module = module.chars().all(|char| char.is_ascii_alphanumeric() || "_:".contains(char));
        ensure!(is_module && !module.is_empty() && is_level(level), wrong());
    }
    EnvFilter::try_new(level).with_context(wrong)
}

fn is_level(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|char| char.is_ascii_alphabetic()) && name.parse::<LevelFilter>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_names_or_names_by_module() {
        for level in ["info", "OFF", "debug,hyper=warn", "info,birdhouse_relay::hub=trace"] {
            assert!(filter(level).is_ok(), "{level}");
        }
        for wrong in ["", "loud", "7", "info,", "birdhouse_relay", "birdhouse_relay=loud", "=info", "[span]=info"] {
            assert!(filter(wrong).is_err_and(|error| error.to_string().contains("invalid log level")), "{wrong}");
        }
    }
}
