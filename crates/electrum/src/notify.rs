//! Telling a client what changed: first the tip, then each followed script or outpoint whose state is another one.
//!
//! There is no queue. What is due is a set in the session, filled by `followers`; a client that reads slowly finds the
//! latest state when it has read.

use std::sync::Arc;

use birdhouse_chain::Snapshot;
use tokio::task::spawn_blocking;
use tracing::error;

use crate::connection::Connection;
use crate::error::RpcError;
use crate::methods::{headers, outpoints};
use crate::response::notification;
use crate::service::Service;
use crate::session::{Epoch, State, Subject};
use crate::subscriptions::Age;

/// Subjects that are looked at in one hop to a reader.
const CHUNK: usize = 64;

/// Notifies one client, whenever it is woken, until nobody writes to it any more.
pub(crate) async fn run(service: &Arc<Service>, connection: &Connection) {
    loop {
        connection.recheck.notified().await;
        if !connection.outbox.room().await {
            return;
        }
        let (due, epoch) = take_due(connection);
        // After what is due is taken: what an update brings that is not in it is due anew.
        match service.index.snapshot() {
            Ok(at) => tell_due(service, connection, &at, due, epoch).await,
            Err(_) => due.into_iter().for_each(|subject| connection.session().put_back(subject)),
        }
    }
}

fn take_due(connection: &Connection) -> (Vec<Subject>, Epoch) {
    let mut session = connection.session();
    (session.take_due(), session.epoch())
}

async fn tell_due(
    service: &Arc<Service>,
    connection: &Connection,
    at: &Arc<Snapshot>,
    mut due: Vec<Subject>,
    epoch: Epoch,
) {
    // The tip is in memory, and nearly every client follows it: it needs no hop to a reader.
    if due.first() == Some(&Subject::Tip) {
        let tip = due.remove(0);
        tell(connection, vec![(tip, state(at, tip))], epoch);
    }
    for chunk in due.chunks(CHUNK) {
        if !connection.outbox.room().await {
            return;
        }
        tell(connection, look(service, connection, at, chunk.to_vec()).await, epoch);
    }
}

/// What was found at subjects, or why nothing was.
type Looks = Vec<(Subject, Result<State, RpcError>)>;

fn tell(connection: &Connection, looks: Looks, epoch: Epoch) {
    let mut session = connection.session();
    for (subject, look) in looks {
        // It is tried again at the next update.
        let Ok(state) = look else {
            session.put_back(subject);
            continue;
        };
        let change = session.change(&state, epoch);
        if change.is_some() {
            connection.push_notification(notification(&state));
        }
        if change == Some(Age::Stale) {
            connection.recheck.notify_one();
        }
    }
}

async fn look(service: &Service, connection: &Connection, at: &Arc<Snapshot>, subjects: Vec<Subject>) -> Looks {
    let turn = service.processors.take(&connection.meter).await;
    let (at, due) = (Arc::clone(at), subjects.clone());
    let reading = spawn_blocking(move || {
        let _turn = turn;
        due.into_iter().map(|subject| (subject, state(&at, subject))).collect()
    });
    reading.await.unwrap_or_else(|_| {
        error!("looking at subscriptions panicked");
        subjects.into_iter().map(|subject| (subject, Err(RpcError::internal()))).collect()
    })
}

fn state(at: &Snapshot, subject: Subject) -> Result<State, RpcError> {
    Ok(match subject {
        Subject::Tip => State::Tip(headers::tip(at)?),
        Subject::Script(script) => State::Script(script, at.status(&script.hash)?),
        Subject::Outpoint(outpoint) => State::Outpoint(outpoint, outpoints::state(at, outpoint)?),
    })
}
