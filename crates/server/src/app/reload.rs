//! Signals that change a running server: SIGHUP and SIGUSR1.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use birdhouse_watch::Watches;

use crate::config::Options;
use crate::index::Setup;
use crate::process::{Level, Signals};
use crate::services::{self, Service};

/// Time between two attempts to put a watch file to work that failed. A full disk has room again later, and a mistake
/// is mended.
const RETRY: Duration = Duration::from_mins(1);

/// The parts that take new settings while they run.
pub(super) struct Reload {
    /// The settings of flags and variables; those of the file are read each time.
    pub(crate) flags: Options,
    pub(crate) level: Level,
    pub(crate) services: Vec<Arc<dyn Service>>,
    pub(crate) watches: Option<Watches>,
}

impl Reload {
    /// Reads settings and certificates at each SIGHUP. A file with an error changes nothing.
    pub(crate) async fn serve(self, signals: Signals) {
        loop {
            signals.reloaded().await;
            if let Some(watches) = self.watches.clone() {
                let _ = tokio::task::spawn_blocking(move || read_watches(&watches)).await;
            }
            match self.read() {
                Ok(()) => tracing::info!(
                    "read certificates, log level, streams, and the relay's lists, rates, retention rules and floor of \
                     free disk again; other settings apply at the next start"
                ),
                Err(error) => tracing::error!(error = format!("{error:#}"), "kept the settings"),
            }
        }
    }

    /// Reads settings and certificates once.
    pub(super) fn read(&self) -> Result<()> {
        let options = self.flags.clone().with_file()?;
        services::check_streams(&options)?;
        self.level.set(options.log.as_deref().unwrap_or(Level::DEFAULT))?;
        for service in &self.services {
            service.reload(&options);
        }
        for certificate in services::certificates(&self.services) {
            certificate.reload();
        }
        Ok(())
    }
}

/// Reads the watch file. One with a mistake changes nothing, and ends nothing else.
pub(super) fn read_watches(watches: &Watches) {
    match watches.reload() {
        Ok(()) => {
            let file = watches.file();
            if !file.watches.is_empty() || !file.channels.is_empty() {
                tracing::info!(watches = file.watches.len(), channels = file.channels.len(), "read the watch file");
            }
        }
        Err(error) if watches.state().is_some() => tracing::error!(%error, "kept the watches as they were"),
        Err(error) => tracing::error!(%error, "nothing is watched; trying again every minute"),
    }
}

/// Reads a watch file again that could not be put to work, for as long as the future is polled.
pub(super) async fn retry_watches(watches: Watches) {
    loop {
        tokio::time::sleep(RETRY).await;
        if watches.status().fault.is_none() {
            continue;
        }
        let again = watches.clone();
        let read = tokio::task::spawn_blocking(move || again.reload()).await;
        if matches!(read, Ok(Ok(()))) {
            tracing::info!("the watch file is in effect");
        }
    }
}

/// Brings the index to the node's tip and mempool at each SIGUSR1, without waiting for the node's next announcement.
pub(super) async fn look(signals: Signals, setup: Arc<Setup>) {
    let Some(node) = setup.node.clone() else { return };
    loop {
        signals.looked().await;
        let (index, node) = (Arc::clone(&setup.index), Arc::clone(&node));
        match tokio::task::spawn_blocking(move || index.sync(&*node)).await {
            Ok(Ok(changed)) => tracing::info!(changed, "asked the node for news"),
            Ok(Err(error)) => tracing::warn!(%error, "failed to ask the node for news"),
            Err(error) => tracing::error!(%error, "failed to ask the node for news"),
        }
    }
}
