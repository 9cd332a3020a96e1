//! A background thread that works now and then.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The thread. Dropping it waits for its end: the store must not be closed while it is used.
pub(crate) struct Worker {
    /// `Some` until it is dropped.
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread of this name. `work` gets a function that sleeps and returns whether to go on.
    pub(crate) fn start(name: &str, work: impl FnOnce(&dyn Fn(Duration) -> bool) + Send + 'static) -> Self {
        let (stop, stopped) = sync_channel::<()>(1);
        let wait = move |pause| matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout));
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(&wait))
            .expect("the system has a thread to give at the start");
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so itself.
            let _ = thread.join();
        }
    }
}
