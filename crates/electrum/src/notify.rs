//! Telling a client what changed: first the tip, then each followed script whose status is another one.
//!
//! There is no queue. What is due is a set in the session; a client that reads slowly finds the latest
//! state when it has read, and one that falls behind the updates themselves has everything checked.

use std::sync::Arc;

use birdhouse_chain::{ScriptHash, Snapshot, Touched, Update};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::task::spawn_blocking;
use tracing::error;

use crate::connection::Connection;
use crate::error::RpcError;
use crate::methods::headers;
use crate::response::{Status, status_notification, tip_notification};
use crate::service::Service;

/// Scripts whose statuses are computed in one hop to a reader.
const CHUNK: usize = 64;

/// Notifies one client until nobody writes to it any more, or the index is gone.
pub(crate) async fn run(service: &Arc<Service>, connection: &Connection, mut updates: Receiver<Arc<Update>>) {
    loop {
        tokio::select! {
            update = updates.recv() => match update {
                Ok(update) => touch(connection, &update.touched),
                Err(RecvError::Lagged(_)) => connection.session().touch_all(),
                // The chain does not move any more; the client may still ask.
                Err(RecvError::Closed) => std::future::pending().await,
            },
            () = connection.recheck.notified() => {}
        }
        if !connection.outbox.room().await {
            return;
        }
        absorb(connection, &mut updates);
        if let Ok(snapshot) = service.view().snapshot {
            tell_tip(connection, &snapshot);
            tell_scripts(service, connection, &snapshot).await;
        }
    }
}

/// Takes the updates that came meanwhile: only the latest state is told.
fn absorb(connection: &Connection, updates: &mut Receiver<Arc<Update>>) {
    loop {
        match updates.try_recv() {
            Ok(update) => touch(connection, &update.touched),
            Err(TryRecvError::Lagged(_)) => connection.session().touch_all(),
            Err(TryRecvError::Empty | TryRecvError::Closed) => return,
        }
    }
}

fn touch(connection: &Connection, touched: &Touched) {
    match touched {
        Touched::Scripts(scripts) => connection.session().touch(scripts),
        Touched::Any => connection.session().touch_all(),
    }
}

fn tell_tip(connection: &Connection, at: &Snapshot) {
    let Ok(tip) = headers::tip(at) else {
        error!("the tip has no header");
        return;
    };
    let mut session = connection.session();
    if session.tip_changed(at.tip().hash) {
        connection.outbox.push(&tip_notification(&tip));
    }
}

async fn tell_scripts(service: &Arc<Service>, connection: &Connection, at: &Arc<Snapshot>) {
    let due = connection.session().due_scripts();
    for chunk in due.chunks(CHUNK) {
        if !connection.outbox.room().await {
            return;
        }
        let statuses = statuses(service, at, chunk.to_vec()).await;
        let mut session = connection.session();
        for (scripthash, status) in statuses {
            if session.status_changed(&scripthash, status) {
                connection.outbox.push(&status_notification(&scripthash, status));
            }
        }
    }
}

/// The statuses that could be computed; what failed stays due and is tried at the next update.
async fn statuses(
    service: &Arc<Service>,
    at: &Arc<Snapshot>,
    scripthashes: Vec<ScriptHash>,
) -> Vec<(ScriptHash, Status)> {
    let permit = Arc::clone(&service.reads).acquire_owned().await.expect("the semaphore is never closed");
    let at = Arc::clone(at);
    let reading = spawn_blocking(move || {
        let _permit = permit;
        let status = |scripthash: ScriptHash| {
            let status = at.status(&scripthash).map_err(RpcError::from).ok()?;
            Some((scripthash, status))
        };
        scripthashes.into_iter().filter_map(status).collect()
    });
    reading.await.unwrap_or_else(|_| {
        error!("computing statuses panicked");
        Vec::new()
    })
}
