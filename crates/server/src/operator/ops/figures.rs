//! Pages of figures, made one at a time. Whoever asks for them, and reads none, takes a share of one processor.

use std::time::Duration;

use birdhouse_net::offload;
use hyper::Response;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// Factor from the time that a page took to the pause before the next one: pages take a fifth of a processor.
const PAUSE_FACTOR: u32 = 4;
/// Longest pause, after a page that waited for the disk.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The turn to make a page.
#[derive(Debug)]
pub(super) struct Figures {
    /// The moment from which the next page may be made.
    next: Mutex<Instant>,
}

impl Default for Figures {
    fn default() -> Self {
        Self { next: Mutex::new(Instant::now()) }
    }
}

impl Figures {
    /// Makes a page in its turn, apart from the runtime's threads.
    pub(super) async fn make(&self, page: impl FnOnce() -> Response<String>) -> Response<String> {
        let mut next = self.next.lock().await;
        sleep_until(*next).await;
        let began = Instant::now();
        let page = offload(page);
        *next = Instant::now() + (began.elapsed() * PAUSE_FACTOR).min(PAUSE_MAX);
        page
    }
}
