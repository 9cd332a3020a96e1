//! The connection that a request came on.

use std::sync::Arc;
use std::time::Instant;

use birdhouse_clients::Payer as _;
use birdhouse_net::{Compression, Meter, Unsent, WebPages};
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;
use tokio::sync::watch;

/// The connection that a request came on.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) meter: Arc<Meter>,
    pub(crate) unsent: Unsent,
    /// Changes, as its sender is dropped, when the server ends.
    pub(crate) stopped: watch::Receiver<()>,
    /// Web pages that may open a WebSocket; `None` allows all, where requests do not come over loopback.
    pub(crate) pages: Option<WebPages>,
    /// Set by the answer after which the connection carries a WebSocket.
    pub(crate) switching: Arc<Mutex<Option<Switching>>>,
}

impl Caller {
    /// Finds out if a change concerns the client, and charges it for that.
    pub(crate) fn concerned(&self, concerns: impl FnOnce() -> bool) -> bool {
        let began = Instant::now();
        let is_concerned = concerns();
        let now = Instant::now();
        self.meter.worked(now.saturating_duration_since(began), now);
        is_concerned
    }
}

/// A connection that becomes a WebSocket.
#[derive(Debug)]
pub(crate) struct Switching {
    /// Gives the stream once the answer is written.
    pub(crate) stream: OnUpgrade,
    pub(crate) compression: Compression,
}
