//! Tidying beside everything else: a thread that merges what was sealed, and adds lists that an older index did not have.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use birdhouse_events::Events;
use tracing::{error, info};

/// How long it waits when there is nothing to do.
const PAUSE: Duration = Duration::from_secs(1);

/// The thread. Dropped, it is waited for: nobody may close the store while it is written.
pub(crate) struct Tidy {
    /// `Some` until it is dropped.
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tidy {
    pub(crate) fn start(events: Arc<Events>) -> Self {
        let (stop, stopped) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("tidy".to_owned())
            .spawn(move || {
                let mut unindexed = events.unindexed_events();
                if unindexed > 0 {
                    info!(events = unindexed, "adding lists to the index; answers are complete meanwhile");
                }
                let mut pause = Duration::ZERO;
                while matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                    pause = match events.tend() {
                        Ok(true) => Duration::ZERO,
                        Ok(false) => PAUSE,
                        Err(error) => {
                            error!(%error, "the index of events cannot be tidied: make room or mend the disk, then start again");
                            return;
                        }
                    };
                    if unindexed > 0 {
                        unindexed = events.unindexed_events();
                        info!(events = unindexed, "events whose lists are still to be added");
                    }
                }
            })
            .expect("the system has a thread to give at the start");
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Tidy {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so itself.
            let _ = thread.join();
        }
    }
}
