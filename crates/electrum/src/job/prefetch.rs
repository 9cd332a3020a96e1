//! Blocks that a pruned node has removed, fetched before a client asks for the transactions of a history in them.
//!
//! A wallet that is restored asks for histories first, and for their transactions later, some of them one by one. Until
//! then the blocks of its histories are fetched, in turns of the client; what it asks for meanwhile has turns left. It
//! ends with the connection.

use std::sync::{Arc, Weak};

use birdhouse_chain::{HistoryEntry, Snapshot, giving_way};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use crate::client::Client;
use crate::error::RpcError;
use crate::job::shared::Job;
use crate::protocol::Answer;
use crate::service::Service;
use crate::settings::Prefetch;

/// A history whose blocks are fetched.
struct Ahead {
    service: Arc<Service>,
    client: Weak<Client>,
    at_once: Arc<Semaphore>,
    /// One for each transaction, until it is fetched.
    room: OwnedSemaphorePermit,
}

impl Job {
    /// Begins to fetch the removed blocks of a history that is the answer, if the setting is on. Transactions
    /// beyond the room of the connection wait until the client asks for them.
    pub(super) fn prefetch(&self, result: &Result<Answer, RpcError>) {
        let (Prefetch::On, Ok(Answer::History { confirmed, .. }), Ok(at)) =
            (self.service.settings.prefetch, result, &self.view.snapshot)
        else {
            return;
        };
        let prefetches = self.client().prefetches();
        let count = confirmed.len().min(prefetches.room.available_permits());
        let permits = u32::try_from(count).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&prefetches.room).try_acquire_many_owned(permits) else { return };
        if count == 0 {
            return;
        }
        let ahead = Ahead {
            service: Arc::clone(&self.service),
            client: Arc::downgrade(&self.replies.client),
            at_once: Arc::clone(&prefetches.at_once),
            room,
        };
        Handle::current().spawn(ahead.fetch(Arc::clone(at), confirmed[..count].to_vec()));
    }
}

impl Ahead {
    async fn fetch(mut self, at: Arc<Snapshot>, entries: Vec<HistoryEntry>) {
        let Some(meter) = self.client.upgrade().map(|client| Arc::clone(&client.meter)) else { return };
        let turn = self.service.reads.processors.take(&meter).await;
        let parts = spawn_blocking(move || {
            let parts = giving_way(|| at.removed_parts(&entries));
            drop(turn);
            parts
        });
        // A failure shows when the client asks.
        let Ok(Ok(parts)) = parts.await else { return };
        for part in parts {
            let Ok(one) = Arc::clone(&self.at_once).acquire_owned().await else { return };
            let (service, room) = (Arc::clone(&self.service), self.room.split(1));
            let Some(client) = self.client.upgrade() else { return };
            let meter = Arc::clone(&client.meter);
            Handle::current().spawn(async move {
                let index = Arc::clone(&service.index);
                service.reads.fetch_all(&meter, &[part], move |part| index.fetch_removed(part).is_ok()).await;
                drop((one, room));
            });
        }
    }
}
