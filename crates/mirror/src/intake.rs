//! Events of the peer on their way into the store, in batches. While one is stored, the next one is read; the peer is
//! not read while more wait.

use std::sync::Arc;

use birdhouse_events::Filter;
use birdhouse_relay::Exchange;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::limits::{BATCH_BYTES, BATCH_EVENTS, BATCHES_WAITING};
use crate::tally::SharedTally;

/// Events that wait to be stored.
pub(crate) struct Intake {
    batches: mpsc::Sender<Vec<String>>,
    storing: JoinHandle<()>,
    batch: Vec<String>,
    bytes: usize,
}

impl Intake {
    /// Stores events that match a filter: what a peer sends is its own choice.
    pub(crate) fn start(exchange: Arc<Exchange>, wanted: Filter, tally: SharedTally) -> Self {
        let (batches, waiting) = mpsc::channel(BATCHES_WAITING);
        let storing = tokio::spawn(store(exchange, wanted, tally, waiting));
        Self { batches, storing, batch: Vec::new(), bytes: 0 }
    }

    /// Adds an event. Waits while too many batches wait.
    pub(crate) async fn add(&mut self, event: String) {
        self.bytes += event.len();
        self.batch.push(event);
        if self.batch.len() >= BATCH_EVENTS || self.bytes >= BATCH_BYTES {
            self.flush().await;
        }
    }

    /// Has everything stored that was added.
    pub(crate) async fn flush(&mut self) {
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        if !batch.is_empty() {
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

async fn store(exchange: Arc<Exchange>, wanted: Filter, tally: SharedTally, mut batches: mpsc::Receiver<Vec<String>>) {
    while let Some(batch) = batches.recv().await {
        let outcomes = exchange.take(&batch, &wanted).await;
        for taken in outcomes {
            tally.took(taken);
        }
    }
}
