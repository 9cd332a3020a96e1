//! All listeners of the server, and the end of them.

use std::sync::Arc;

use birdhouse_chain::Index;
use birdhouse_chain::source::Node;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::listener::{self, Listener};
use crate::service::Service;
use crate::settings::Settings;

/// Serves Electrum clients on every listener until `shutdown` completes. Then requests in flight have
/// [`crate::ServerLimits::shutdown`] to be answered.
///
/// Without a node everything in blocks is served, and what needs a node is answered with an error.
/// Needs a runtime with time and I/O enabled, and room for `read_threads + node_calls` blocking threads.
pub async fn serve(
    listeners: Vec<(TcpListener, Listener)>,
    index: Arc<Index>,
    node: Option<Arc<dyn Node>>,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) {
    let service = Arc::new(Service::new(index, node, settings));
    let updates = service.index.updates();
    let following = tokio::spawn({
        let service = Arc::clone(&service);
        async move { service.followers.run(updates).await }
    });
    let (stop, stopped) = watch::channel(());
    let mut running = JoinSet::new();
    for (socket, listener) in listeners {
        running.spawn(listener::run(socket, Arc::new(listener), Arc::clone(&service), stopped.clone()));
    }
    shutdown.await;
    drop(stop);
    while running.join_next().await.is_some() {}
    following.abort();
}
