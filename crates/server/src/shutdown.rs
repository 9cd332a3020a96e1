//! Ctrl-C and `SIGTERM`: one flag that every part of the process watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use birdhouse_chain::Index;
use tokio::signal::unix::{SignalKind, signal};

/// Set once, when the process is to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shutdown {
    asked: Arc<AtomicBool>,
}

impl Shutdown {
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.asked
    }

    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Returns when a signal asks the process to end.
    pub(crate) async fn signalled() -> Result<()> {
        let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot watch for Ctrl-C"),
            _ = terminate.recv() => Ok(()),
        }
    }

    /// Watches for signals on a thread of its own; they set the flag and cancel the build.
    pub(crate) fn watch(&self, index: &Arc<Index>) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (shutdown, index) = (self.clone(), Arc::clone(index));
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            if let Err(error) = runtime.block_on(Self::signalled()) {
                tracing::error!(%error, "signals are not seen");
                return;
            }
            shutdown.ask();
            index.progress().cancel();
        })?;
        Ok(())
    }
}
