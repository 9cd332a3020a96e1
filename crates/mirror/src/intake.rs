//! Events of the peer on their way into the store, in batches. While one is stored, the next one is read; the peer is
//! not read while more wait.

use std::sync::Arc;

use birdhouse_events::Filter;
use birdhouse_relay::Exchange;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::came::Came;
use crate::clock::WallClock;
use crate::limits::{BATCH_BYTES, BATCH_EVENTS, BATCHES_WAITING};
use crate::page::dated;
use crate::tally::SharedTally;

/// Events that wait to be stored.
pub(crate) struct Intake {
    batches: mpsc::Sender<Batch>,
    storing: JoinHandle<()>,
    batch: Batch,
    /// Where the ids of the events are kept, for a stream.
    came: Option<Arc<Came>>,
    /// The durable events so far.
    pub(crate) progress: watch::Receiver<Progress>,
}

/// Events that are stored together.
#[derive(Default)]
struct Batch {
    events: Vec<String>,
    bytes: usize,
    /// Newest `created_at` among them, for a stream.
    newest: u64,
}

/// The events that were stored so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The newest `created_at` among them, up to now; seconds since 1970.
    pub(crate) newest: u64,
    /// Events that this relay could not keep, for a reason that passes.
    pub(crate) failed: u64,
    /// Events that are no valid ones.
    pub(crate) invalid: u64,
}

impl Intake {
    /// Stores events that match a filter: what a peer sends is its own choice.
    pub(crate) fn start(
        exchange: Arc<Exchange>,
        wanted: Filter,
        tally: SharedTally,
        came: Option<Arc<Came>>,
        clock: WallClock,
    ) -> Self {
        let (batches, waiting) = mpsc::channel(BATCHES_WAITING);
        let (stored, progress) = watch::channel(Progress::default());
        let storing = tokio::spawn(store(exchange, wanted, tally, waiting, stored, clock));
        Self { batches, storing, batch: Batch::default(), came, progress }
    }

    /// Adds an event. Waits while too many batches wait.
    pub(crate) async fn add(&mut self, event: String) {
        if let Some(came) = &self.came
            && let Some(dated) = dated(&event)
        {
            came.add(dated.id);
            self.batch.newest = self.batch.newest.max(dated.created_at);
        }
        self.batch.bytes += event.len();
        self.batch.events.push(event);
        if self.batch.events.len() >= BATCH_EVENTS || self.batch.bytes >= BATCH_BYTES {
            self.flush().await;
        }
    }

    /// Has everything stored that was added.
    pub(crate) async fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if !batch.events.is_empty() {
            // It ends only by a defect, which `finish` reports.
            let _ = self.batches.send(batch).await;
        }
    }

    /// Waits until everything is stored.
    ///
    /// # Errors
    /// Storing has failed by a defect.
    pub(crate) async fn finish(mut self) -> Result<(), String> {
        self.flush().await;
        drop(self.batches);
        self.storing.await.map_err(|_| "storing the events failed; see the log".to_owned())
    }
}

async fn store(
    exchange: Arc<Exchange>,
    wanted: Filter,
    tally: SharedTally,
    mut batches: mpsc::Receiver<Batch>,
    stored: watch::Sender<Progress>,
    clock: WallClock,
) {
    while let Some(batch) = batches.recv().await {
        let outcomes = exchange.take(&batch.events, &wanted).await;
        let (mut failed, mut invalid) = (0, 0);
        for taken in outcomes {
            failed += u64::from(taken.has_failed());
            invalid += u64::from(tally.took(taken));
        }
        let newest = batch.newest.min(clock.seconds());
        stored.send_modify(|progress| {
            progress.newest = progress.newest.max(newest);
            progress.failed += failed;
            progress.invalid += invalid;
        });
    }
}
