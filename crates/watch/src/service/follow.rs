//! The task that follows the updates of the index.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use birdhouse_chain::source::BlockPart;
use birdhouse_chain::{Index, Touched, Update, Waiting};
use bitcoin::Network;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::running::{Next, Running};
use crate::api::Following;
use crate::error::Error;

/// Time after which the watches are compared without an update: a transaction that left the mempool counts as dropped
/// after a while, whether or not anything happens.
const TICK: Duration = Duration::from_mins(1);
/// Pause after a failure, and between two looks at an index that is not ready.
const PAUSE: Duration = Duration::from_secs(5);
/// Pause after removed blocks that no peer sent.
const FETCH_PAUSE: Duration = Duration::from_mins(1);

impl Running {
    /// Follows the index for as long as the runtime lives.
    pub(super) async fn follow(self: Arc<Self>) {
        let mut updates = self.index.updates();
        let mut next = None;
        loop {
            if let Some(reason) = held_back(&self.index, self.network) {
                *self.waiting.lock() = Some(reason);
                // A snapshot keeps replaced files on the disk.
                self.followed.lock().at = None;
                tokio::time::sleep(PAUSE).await;
                next = None;
                continue;
            }
            let Some(now) = next.take().or_else(|| self.look(&mut updates)) else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let running = Arc::clone(&self);
            let announced = tokio::task::spawn_blocking(move || running.tell(&now)).await;
            // A panic leaves the engine without knowledge, so that it takes up what is committed.
            next = match announced.unwrap_or(Err(Error::Panicked)) {
                Ok(left) => {
                    *self.waiting.lock() = None;
                    self.fetch(left.wanted);
                    if left.is_scanning {
                        next_of(&mut updates)
                    } else {
                        self.next(&mut updates, left.retry_in.unwrap_or(TICK)).await
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to look for payments of the watches; trying again");
                    *self.waiting.lock() = Some(error.to_string());
                    tokio::time::sleep(PAUSE).await;
                    None
                }
            };
        }
    }

    /// Begins anew at the newest snapshot, of which every script is read; `None` if there is none.
    fn look(&self, updates: &mut Receiver<Arc<Update>>) -> Option<Next> {
        // None of the updates is older than the snapshot: a stream would go back.
        let Following { at, updates: after, .. } = Following::of_index(&self.index)?;
        *updates = after;
        Some(Next::Tell(Arc::new(Update { snapshot: at, touched: Touched::Any })))
    }

    /// Waits for the next thing to do, and for no longer than until a watch that failed is tried again; `None` is a
    /// look at everything.
    async fn next(&self, updates: &mut Receiver<Arc<Update>>, retry_in: Duration) -> Option<Next> {
        tokio::select! {
            update = updates.recv() => match update {
                Ok(update) => Some(Next::Tell(update)),
                Err(RecvError::Lagged(_)) => None,
                // The index lives as long as this.
                Err(RecvError::Closed) => std::future::pending().await,
            },
            () = self.changed.notified() => None,
            () = self.fetched.notified() => Some(Next::Tick),
            // Blocks may be installed for minutes before they are announced.
            () = tokio::time::sleep(retry_in.min(TICK)) => {
                if retry_in >= TICK && self.is_behind() { None } else { Some(Next::Tick) }
            }
        }
    }

    /// Fetches blocks that the node has removed, unless some are under way, and then looks again.
    fn fetch(self: &Arc<Self>, parts: Vec<BlockPart>) {
        if parts.is_empty() || self.is_fetching.swap(true, Ordering::Relaxed) {
            return;
        }
        let running = Arc::clone(self);
        tokio::spawn(async move {
            let index = Arc::clone(&running.index);
            let fetch = move || parts.into_iter().filter(|part| index.fetch_removed(*part).is_ok()).count();
            if tokio::task::spawn_blocking(fetch).await.unwrap_or(0) == 0 {
                tokio::time::sleep(FETCH_PAUSE).await;
            }
            running.is_fetching.store(false, Ordering::Relaxed);
            running.fetched.notify_one();
        });
    }
}

/// The next thing to do at once; `None` is a look at everything.
fn next_of(updates: &mut Receiver<Arc<Update>>) -> Option<Next> {
    match updates.try_recv() {
        Ok(update) => Some(Next::Tell(update)),
        Err(TryRecvError::Lagged(_)) => None,
        Err(TryRecvError::Empty | TryRecvError::Closed) => Some(Next::Tick),
    }
}

/// The reason why the index is not announced of: what it has is of the past.
fn held_back(index: &Index, network: Network) -> Option<String> {
    if !index.is_ready() {
        return Some("waiting for the first build of the index".into());
    }
    match index.waiting() {
        // A private chain may have an old tip for ever.
        Some(Waiting::NodeDownloads { node, best_header }) if network == Network::Regtest && node == best_header => {
            None
        }
        Some(waiting @ Waiting::NodeDownloads { .. }) => Some(waiting.to_string()),
        _ => index.downloading().map(|progress| progress.to_string()),
    }
}
