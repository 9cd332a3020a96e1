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
use crate::session::{State, Subject};

/// Subjects that are looked at in one hop to a reader.
const CHUNK: usize = 64;

/// Notifies one client, whenever it is woken, until nobody writes to it any more.
pub(crate) async fn run(service: &Arc<Service>, connection: &Connection) {
    loop {
        connection.recheck.notified().await;
        if !connection.outbox.room().await {
            return;
        }
        if let Ok(snapshot) = service.view().snapshot {
            tell_tip(connection, &snapshot);
            tell_others(service, connection, &snapshot).await;
        }
    }
}

/// The tip is in memory, and nearly every client follows it.
fn tell_tip(connection: &Connection, at: &Snapshot) {
    if !connection.session().is_tip_due() {
        return;
    }
    let Ok(tip) = headers::tip(at) else {
        error!("the tip has no header");
        return;
    };
    tell(connection, &[State::Tip(tip)]);
}

async fn tell_others(service: &Arc<Service>, connection: &Connection, at: &Arc<Snapshot>) {
    let due = connection.session().due();
    for chunk in due.chunks(CHUNK) {
        if !connection.outbox.room().await {
            return;
        }
        tell(connection, &look(service, connection, at, chunk.to_vec()).await);
    }
}

fn tell(connection: &Connection, states: &[State]) {
    let mut session = connection.session();
    for state in states {
        if session.change(state) {
            connection.push_notification(&notification(state));
        }
    }
}

/// The states that could be computed; what failed stays due and is tried at the next update.
async fn look(service: &Service, connection: &Connection, at: &Arc<Snapshot>, subjects: Vec<Subject>) -> Vec<State> {
    let turn = service.processors.take(&connection.meter).await;
    let at = Arc::clone(at);
    let reading = spawn_blocking(move || {
        let _turn = turn;
        subjects.into_iter().filter_map(|subject| state(&at, subject).ok()).collect()
    });
    reading.await.unwrap_or_else(|_| {
        error!("looking at subscriptions panicked");
        Vec::new()
    })
}

fn state(at: &Snapshot, subject: Subject) -> Result<State, RpcError> {
    Ok(match subject {
        Subject::Tip => State::Tip(headers::tip(at)?),
        Subject::Script(script) => State::Script(script, at.status(&script.hash)?),
        Subject::Outpoint(outpoint) => State::Outpoint(outpoint, outpoints::state(at, outpoint)?),
    })
}
