//! The connection that a request came on.

use std::sync::Arc;

use birdhouse_net::{Meter, Unsent};
use tokio::sync::watch;

/// The connection that a request came on.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) meter: Arc<Meter>,
    pub(crate) unsent: Unsent,
    /// Changes, as its sender is dropped, when the server ends.
    pub(crate) stopped: watch::Receiver<()>,
}
