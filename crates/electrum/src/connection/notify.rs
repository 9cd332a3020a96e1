//! Notifications of one client: first the tip, then silent payments, then each followed script or outpoint whose state
//! has changed. A wallet learns the scripts of a silent payment by its notification, so this comes first.
//!
//! There is no queue. Subjects that are due are a set in the connection's state, filled by `followers`; a client that
//! reads slowly receives the latest state once it has read.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use birdhouse_chain::source::BlockPart;
use birdhouse_chain::{Snapshot, giving_way};
use tokio::task::spawn_blocking;
use tracing::error;

use crate::client::{Age, Client, Epoch, RECHECK};
use crate::connection::silent_payments;
use crate::error::RpcError;
use crate::methods::{headers, outpoints};
use crate::protocol::{Subject, SubjectState};
use crate::response::notification;
use crate::service::Service;

/// Subjects that one hop to a reader checks.
const CHUNK: usize = 64;

/// Notifies one client, whenever it is woken, until its outbox is closed.
pub(super) async fn run(service: &Arc<Service>, client: &Client) {
    let mut fetching = Fetching::default();
    loop {
        tokio::select! {
            () = client.signals.raised(RECHECK) => {}
            () = fetching.finish() => {}
        }
        if !client.outbox.room().await {
            return;
        }
        let (due, epoch) = take_due(client);
        // The snapshot comes after `take_due`: a later update makes its subjects due anew.
        match service.snapshot(client) {
            Ok(at) => {
                // On the heap, for its memory would stay with every connection.
                let removed = Box::pin(notify_due(service, client, &at, due, epoch)).await;
                fetching.begin(service, client, removed);
            }
            Err(_) => due.into_iter().for_each(|subject| client.state().put_back(subject)),
        }
    }
}

fn take_due(client: &Client) -> (Vec<Subject>, Epoch) {
    let mut state = client.state();
    (state.take_due(), state.epoch())
}

/// Blocks that a node has removed, while they are fetched. What needs them is due meanwhile, and the rest is notified.
#[derive(Default)]
struct Fetching<'a>(Option<Pin<Box<dyn Future<Output = bool> + Send + 'a>>>);

impl<'a> Fetching<'a> {
    fn begin(&mut self, service: &'a Service, client: &'a Client, parts: Vec<BlockPart>) {
        if self.0.is_none() && !parts.is_empty() {
            self.0 = Some(Box::pin(async move { service.fetch_removed(client, &parts).await }));
        }
    }

    /// Waits until all are fetched. After a failure the next update begins anew.
    async fn finish(&mut self) {
        if let Some(fetch) = &mut self.0 {
            let is_fetched = fetch.await;
            self.0 = None;
            if is_fetched {
                return;
            }
        }
        pending::<()>().await;
    }
}

/// Notifies of what has changed, and returns the parts of removed blocks that checks need.
async fn notify_due(
    service: &Arc<Service>,
    client: &Client,
    at: &Arc<Snapshot>,
    mut due: Vec<Subject>,
    epoch: Epoch,
) -> Vec<BlockPart> {
    let mut removed = Vec::new();
    // The tip is in memory, and nearly every client follows it: it needs no hop to a reader.
    if due.first() == Some(&Subject::Tip) {
        let tip = due.remove(0);
        notify(client, vec![(tip, state(at, tip))], epoch);
    }
    let was_ending = client.state().silent.has_ending();
    if client.state().silent.has_live() {
        silent_payments::notify(service, client, at).await;
    }
    if was_ending || client.state().silent.has_ending() {
        // Its snapshot may be older than this one. Its end wakes the notifier, which then scans what the update brings.
        let mut state = client.state();
        for subject in due {
            state.put_back(subject);
        }
        return removed;
    }
    let began = Instant::now();
    for chunk in due.chunks(CHUNK) {
        if !client.room(began).await {
            break;
        }
        let checks = check(service, client, at, chunk.to_vec()).await;
        removed.extend(checks.iter().filter_map(|(_, check)| check.as_ref().err()).flat_map(|error| &error.removed));
        notify(client, checks, epoch);
    }
    removed
}

/// Subjects with the states that a check has found, or the error that prevented it.
type Checks = Vec<(Subject, Result<SubjectState, RpcError>)>;

fn notify(client: &Client, checks: Checks, epoch: Epoch) {
    let mut connection = client.state();
    for (subject, check) in checks {
        // The next update tries a failed check again.
        let Ok(state) = check else {
            connection.put_back(subject);
            continue;
        };
        let change = connection.change(&state, epoch);
        if change.is_some() {
            client.push_notification(notification(&state));
        }
        if change == Some(Age::Stale) {
            client.signals.raise(RECHECK);
        }
    }
}

async fn check(service: &Service, client: &Client, at: &Arc<Snapshot>, subjects: Vec<Subject>) -> Checks {
    let turn = service.reads.processors.take(&client.meter).await;
    let (at, due) = (Arc::clone(at), subjects.clone());
    let reading = spawn_blocking(move || {
        let _turn = turn;
        due.into_iter().map(|subject| (subject, giving_way(|| state(&at, subject)))).collect()
    });
    reading.await.unwrap_or_else(|_| {
        error!("check of subscriptions panicked");
        subjects.into_iter().map(|subject| (subject, Err(RpcError::internal()))).collect()
    })
}

fn state(at: &Snapshot, subject: Subject) -> Result<SubjectState, RpcError> {
    Ok(match subject {
        Subject::Tip => SubjectState::Tip(headers::tip(&headers::HeaderChain::Indexed(at))?),
        Subject::Script(script) => SubjectState::Script(script, at.status(&script.hash)?),
        Subject::Outpoint(outpoint) => SubjectState::Outpoint(outpoint, outpoints::state(at, outpoint)?),
        Subject::Unspendable(outpoint) => SubjectState::Outpoint(outpoint, outpoints::unspendable(at, outpoint)?),
    })
}
