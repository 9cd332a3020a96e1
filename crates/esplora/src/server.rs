//! The server: its listeners, from start to shutdown.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_chain::Index;
use birdhouse_chain::source::Node;
use birdhouse_net::{Room, WhenFull};
use tokio::net::TcpListener;

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
        let Self { service } = self;
        let room = Room::new(service.settings.limits.connections, WhenFull::Wait);
        let (registry, router) = (Arc::clone(&service.registry), routes::router(&service));
        let converse = move |accepted| transport::serve(Arc::clone(&service), router.clone(), accepted);
        birdhouse_net::serve(listeners, &registry, |()| room.clone(), (shutdown, grace), converse).await;
    }
}
