//! Shutdown by Ctrl-C and `SIGTERM`: one flag for every part of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use birdhouse_chain::Index;
use tokio::signal::unix::{SignalKind, signal};

/// A flag that is set once, when the process has to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shutdown {
    requested: Arc<AtomicBool>,
}

impl Shutdown {
    pub(crate) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.requested
    }

    pub(crate) fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Waits for Ctrl-C or `SIGTERM`.
    pub(crate) async fn signalled() -> Result<()> {
        let mut terminate = signal(SignalKind::terminate()).context("failed to watch for SIGTERM")?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted.context("failed to watch for Ctrl-C"),
            _ = terminate.recv() => Ok(()),
        }
    }

    /// Watches for signals on a thread of its own. A signal sets the flag and cancels the build.
    pub(crate) fn watch(&self, index: &Arc<Index>) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (shutdown, index) = (self.clone(), Arc::clone(index));
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            if let Err(error) = runtime.block_on(Self::signalled()) {
                tracing::error!(%error, "failed to watch for signals");
                return;
            }
            shutdown.request();
            index.progress().cancel();
        })?;
        Ok(())
    }
}
