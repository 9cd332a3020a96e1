//! Signals to `birdhouse run`: SIGTERM and Ctrl-C stop it, and a second one ends it at once; SIGHUP reads certificates,
//! lists and rates again; SIGUSR1 asks the node for news now, as electrs does.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

/// Exit code after a second signal: the clean end was cut off.
const CUT_OFF: i32 = 1;

/// The signals that have arrived and were not handled yet; several of one kind count once. The default never has one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals(Arc<Arrived>);

#[derive(Debug, Default)]
struct Arrived {
    stop: Notify,
    reload: Notify,
    look: Notify,
    /// Set when the server can end cleanly.
    is_serving: AtomicBool,
}

/// The kinds of signals that a task watches for.
struct Watched {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    user: Signal,
}

/// A signal's meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Stop,
    Reload,
    Look,
}

impl Signals {
    /// Watches for signals on a thread of its own, so that no busy part of the server delays them.
    pub(crate) fn watch() -> Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let mut watched = {
            let _entered = runtime.enter();
            Watched::new().context("failed to watch for signals")?
        };
        let signals = Self::default();
        let arrived = Arc::clone(&signals.0);
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            let mut is_stopping = false;
            loop {
                match runtime.block_on(watched.next()) {
                    Meaning::Stop if is_stopping => {
                        tracing::warn!("ended at once by a second signal");
                        process::exit(CUT_OFF);
                    }
                    Meaning::Stop if !arrived.is_serving.load(Ordering::Acquire) => process::exit(0),
                    Meaning::Stop => {
                        is_stopping = true;
                        arrived.stop.notify_one();
                    }
                    Meaning::Reload => arrived.reload.notify_one(),
                    Meaning::Look => arrived.look.notify_one(),
                }
            }
        })?;
        Ok(signals)
    }

    /// From now on the first signal to stop is handled by [`Self::stopped`]; before, it ends the process.
    pub(crate) fn serving(&self) {
        self.0.is_serving.store(true, Ordering::Release);
    }

    /// Waits for SIGTERM or Ctrl-C.
    pub(crate) async fn stopped(&self) {
        self.0.stop.notified().await;
    }

    /// Waits for SIGHUP.
    pub(crate) async fn reloaded(&self) {
        self.0.reload.notified().await;
    }

    /// Waits for SIGUSR1.
    pub(crate) async fn looked(&self) {
        self.0.look.notified().await;
    }
}

impl Watched {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined1())?,
        })
    }

    async fn next(&mut self) -> Meaning {
        tokio::select! {
            _ = self.interrupt.recv() => Meaning::Stop,
            _ = self.terminate.recv() => Meaning::Stop,
            _ = self.hangup.recv() => Meaning::Reload,
            _ = self.user.recv() => Meaning::Look,
        }
    }
}
