//! Logs: where they go, and the level that can be changed while the server runs.

use std::io::IsTerminal as _;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use tracing_subscriber::EnvFilter;

/// Changes what is logged.
#[derive(Clone)]
pub(crate) struct Level(Arc<Reload>);

type Reload = dyn Fn(EnvFilter) -> Result<()> + Send + Sync;

/// Starts to log. Logs go to standard error; standard output is for answers.
pub(crate) fn start(level: Option<&str>) -> Result<Level> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(level.unwrap_or("info"))?)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_filter_reloading();
    let handle = builder.reload_handle();
    builder.init();
    Ok(Level(Arc::new(move |filter| handle.reload(filter).context("logging has ended"))))
}

impl Level {
    /// From now on, what `level` says is logged: `error`, `warn`, `info`, `debug`, or levels by module.
    pub(crate) fn set(&self, level: &str) -> Result<()> {
        (self.0)(filter(level)?)
    }
}

fn filter(level: &str) -> Result<EnvFilter> {
    EnvFilter::try_new(level).with_context(|| format!("{level:?} is no log level"))
}
