//! The store of the relay's events: files of this machine, or a cluster that this process writes or reads.

use std::sync::Arc;

use birdhouse_store::{Replica, SegmentStore, Store};

/// The store of the events.
pub(crate) enum EventStore {
    Files(Arc<SegmentStore>),
    /// A cluster that this process writes.
    #[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "without the engine there is no cluster"))]
    Written {
        store: Arc<dyn Store>,
        /// Returns true once another process has taken over.
        is_fenced: Box<dyn Fn() -> bool + Send + Sync>,
    },
    /// A cluster that another process writes.
    #[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "without the engine there is no cluster"))]
    Followed(Arc<dyn Replica>),
}
