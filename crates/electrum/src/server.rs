//! The server: its listeners and background tasks, from start to shutdown.

use std::sync::Arc;

use birdhouse_chain::Index;
use birdhouse_chain::source::Node;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::monitor::Monitor;
use crate::service::Service;
use crate::settings::{Listener, Settings};
use crate::transport;

/// An Electrum server, ready to serve.
pub struct Server {
    service: Arc<Service>,
}

impl Server {
    /// Creates a server of this index.
    ///
    /// Without a node the server serves everything in blocks, and answers a method that needs the node with an error.
    pub fn new(index: Arc<Index>, node: Option<Arc<dyn Node>>, settings: Settings) -> Self {
        Self { service: Arc::new(Service::new(index, node, settings)) }
    }

    /// Returns the operator's view of the server, which stays valid while it serves.
    pub fn monitor(&self) -> Monitor {
        Monitor::new(Arc::clone(&self.service))
    }

    /// Serves clients on every listener until `shutdown` completes. Requests in flight then have
    /// [`crate::ServerLimits::shutdown_timeout`] to be answered.
    ///
    /// Needs a Tokio runtime with time and I/O enabled, and room for [`crate::ServerLimits::blocking_threads`] blocking
    /// threads.
    pub async fn serve(self, listeners: Vec<(TcpListener, Listener)>, shutdown: impl Future<Output = ()>) {
        let updates = self.service.index.updates();
        let following = tokio::spawn({
            let service = Arc::clone(&self.service);
            async move { service.followers.run(updates).await }
        });
        let finding = tokio::spawn({
            let peers = Arc::clone(&self.service.peers);
            async move { peers.run().await }
        });
        let (stop, stopped) = watch::channel(());
        let mut running = JoinSet::new();
        for (socket, listener) in listeners {
            running.spawn(transport::serve(socket, Arc::new(listener), Arc::clone(&self.service), stopped.clone()));
        }
        shutdown.await;
        drop(stop);
        while running.join_next().await.is_some() {}
        following.abort();
        finding.abort();
    }
}

/// Runs [`Server::serve`], for callers that need no [`Monitor`].
pub async fn serve(
    listeners: Vec<(TcpListener, Listener)>,
    index: Arc<Index>,
    node: Option<Arc<dyn Node>>,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) {
    Server::new(index, node, settings).serve(listeners, shutdown).await;
}
