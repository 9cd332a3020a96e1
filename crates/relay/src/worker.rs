//! Background threads, which end before the store that they use is closed, and what they tell of themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Pauses between attempts to do what has failed.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_mins(1);

/// A thread. Dropping it waits for its end.
pub(crate) struct Thread(Option<JoinHandle<()>>);

/// A thread that does periodic work. Dropping it ends the thread.
pub(crate) struct Worker {
    // Dropped first: the thread ends when it is gone.
    _stop: SyncSender<()>,
    _thread: Thread,
}

/// Pause until the next attempt, which doubles with every failure.
#[derive(Debug)]
pub(crate) struct Retry(Duration);

/// State of a thread, for others to see. A clone is another handle.
#[derive(Debug, Clone)]
pub(crate) struct Heartbeat(Arc<Beat>);

#[derive(Debug)]
struct Beat {
    started: Instant,
    /// Milliseconds from `started` to the work under way; [`RESTING`] between two pieces.
    began_ms: AtomicU64,
    failure: Mutex<Option<String>>,
}

const RESTING: u64 = u64::MAX;

impl Default for Retry {
    fn default() -> Self {
        Self(RETRY_MIN)
    }
}

impl Retry {
    /// Returns the pause after another failure.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(RETRY_MAX);
        pause
    }
}

impl Heartbeat {
    pub(crate) fn new(now: Instant) -> Self {
        Self(Arc::new(Beat { started: now, began_ms: AtomicU64::new(RESTING), failure: Mutex::new(None) }))
    }

    /// Reports that a piece of work begins.
    pub(crate) fn begin(&self, now: Instant) {
        let began = now.saturating_duration_since(self.0.started).as_millis();
        self.0.began_ms.store(u64::try_from(began).unwrap_or(0), Ordering::Relaxed);
    }

    /// Reports that the thread waits for work.
    pub(crate) fn rest(&self) {
        self.0.began_ms.store(RESTING, Ordering::Relaxed);
    }

    /// Reports the outcome of the last piece: the reason of a failure.
    pub(crate) fn report(&self, failure: Option<String>) {
        *self.0.failure.lock() = failure;
    }

    /// Returns the time that the piece under way has taken so far.
    pub(crate) fn busy(&self, now: Instant) -> Option<Duration> {
        let began = self.0.began_ms.load(Ordering::Relaxed);
        (began != RESTING).then(|| now.saturating_duration_since(self.0.started + Duration::from_millis(began)))
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.0.failure.lock().clone()
    }
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
