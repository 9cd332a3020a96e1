//! The accept loop and the end of it.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_chain::Index;
use birdhouse_chain::source::Node;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{Instrument as _, debug_span, info, warn};

use crate::connection;
use crate::envelope::Id;
use crate::error::RpcError;
use crate::response::error_reply;
use crate::service::Service;
use crate::settings::Settings;

/// How long to wait when the system has no socket to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves Electrum clients until `shutdown` completes. Then requests in flight have
/// [`crate::Limits::shutdown`] to be answered.
///
/// Without a node everything in blocks is served, and what needs a node is answered with an error.
/// Needs a runtime with time and I/O enabled, and room for `read_threads + node_calls` blocking threads.
pub async fn serve(
    listener: TcpListener,
    index: Arc<Index>,
    node: Option<Arc<dyn Node>>,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) {
    let service = Arc::new(Service::new(index, node, settings));
    let places = Arc::new(Semaphore::new(service.settings.limits.connections));
    let (stop, stopped) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut serial: u64 = 0;
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let socket = match accepted {
            Ok((socket, _)) => socket,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            refuse(&socket);
            continue;
        };
        serial += 1;
        let span = debug_span!("connection", id = serial);
        connections.spawn(converse(Arc::clone(&service), socket, stopped.clone(), place).instrument(span));
    }
    drop(listener);
    drop(stop);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let in_time = timeout(service.settings.limits.shutdown, all_ended).await.is_ok();
    info!(connections = serial, in_time, "electrum server stopped");
}

async fn converse(
    service: Arc<Service>,
    mut socket: TcpStream,
    mut stopped: watch::Receiver<()>,
    _place: OwnedSemaphorePermit,
) {
    // Answers are written whole; waiting for more would only delay them. It fails on dead sockets only.
    let _ = socket.set_nodelay(true);
    let (reader, writer) = socket.split();
    // The sender is dropped at shutdown, which is what `changed` reports as an error.
    let shutdown = async { drop(stopped.changed().await) };
    connection::run(service, reader, writer, shutdown).await;
}

fn refuse(socket: &TcpStream) {
    let mut line = error_reply(&Id::null(), &RpcError::excessive("the server has no place for another connection"));
    line.push(b'\n');
    // The newcomer's send buffer is empty: the line fits, or the client is gone.
    let _ = socket.try_write(&line);
}
