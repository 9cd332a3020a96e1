//! Background threads, which end before the store that they use is closed.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A thread. Dropping it waits for its end.
pub(crate) struct Thread(Option<JoinHandle<()>>);

/// A thread that does periodic work. Dropping it ends the thread.
pub(crate) struct Worker {
    // Dropped first: the thread ends when it is gone.
    _stop: SyncSender<()>,
    _thread: Thread,
}

impl Thread {
    /// Starts a thread of this name.
    pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Self {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
        Self(Some(thread.expect("the system has a thread to give at the start")))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // One that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

impl Worker {
    /// Starts a thread of this name. `work` gets a function that sleeps and returns whether to go on.
    pub(crate) fn start(name: &str, work: impl FnOnce(&dyn Fn(Duration) -> bool) + Send + 'static) -> Self {
        let (stop, stopped) = sync_channel::<()>(1);
        let wait = move |pause| matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout));
        Self { _stop: stop, _thread: Thread::start(name, move || work(&wait)) }
    }
}
