//! The connection that a request came on.

use std::sync::Arc;

use birdhouse_net::{Compression, Meter, Unsent};
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
    /// Set by the answer after which the connection carries a WebSocket.
    pub(crate) switching: Arc<Mutex<Option<Switching>>>,
}

/// A connection that becomes a WebSocket.
#[derive(Debug)]
pub(crate) struct Switching {
    /// Gives the stream once the answer is written.
    pub(crate) stream: OnUpgrade,
    pub(crate) compression: Compression,
}
