//! The server: its listeners, from start to shutdown.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_chain::Index;
use birdhouse_chain::source::Node;
use birdhouse_net::{WhenFull, accept};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tracing::{Instrument as _, debug_span};

use crate::routes;
use crate::service::Service;
use crate::settings::{Listener, Settings};
use crate::transport;

/// A server of the REST API.
pub struct Server {
    service: Arc<Service>,
}

impl Server {
    /// Creates a server of this index.
    ///
    /// Without a node the server serves everything in blocks, and answers what needs the node with status 503.
    pub fn new(index: Arc<Index>, node: Option<Arc<dyn Node>>, settings: Settings) -> Self {
        Self { service: Arc::new(Service::new(index, node, settings)) }
    }

    /// Serves clients on every listener until `shutdown` completes. Requests in flight then have `grace` to be
    /// answered.
    ///
    /// Needs a Tokio runtime with time and I/O enabled, and room for [`crate::Limits::blocking_threads`] blocking
    /// threads.
    pub async fn serve(
        self,
        listeners: Vec<(TcpListener, Listener)>,
        grace: Duration,
        shutdown: impl Future<Output = ()>,
    ) {
        let places = Arc::new(Semaphore::new(self.service.settings.limits.connections.min(Semaphore::MAX_PERMITS)));
        let router = routes::router(&self.service);
        let (stop, stopped) = watch::channel(());
        let mut running = JoinSet::new();
        for (socket, listener) in listeners {
            let (service, router) = (Arc::clone(&self.service), router.clone());
            running.spawn(accept(
                socket,
                Arc::new(listener),
                (Arc::clone(&places), WhenFull::Wait),
                (stopped.clone(), grace),
                move |accepted, connections| {
                    let span = debug_span!("connection", listener = accepted.listener.name);
                    let serve = transport::serve(Arc::clone(&service), router.clone(), accepted);
                    connections.spawn(serve.instrument(span));
                },
            ));
        }
        shutdown.await;
        drop(stop);
        while running.join_next().await.is_some() {}
    }
}
