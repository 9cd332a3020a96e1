//! Asks the node for its tip every now and then, so that health and metrics can tell without asking.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use birdhouse_chain::Index;
use birdhouse_chain::source::Node;

use crate::health::NodeSeen;
use crate::shutdown::Shutdown;

/// Pause between two questions.
const EVERY: Duration = Duration::from_secs(1);

/// What the node was last seen to be.
#[derive(Debug)]
pub(crate) struct NodeWatch(Mutex<NodeSeen>);

impl NodeWatch {
    /// Watches on a thread of its own until the server ends.
    pub(crate) fn start(node: Arc<dyn Node>, index: Arc<Index>, shutdown: Shutdown) -> Result<Arc<Self>> {
        let seen = NodeSeen { tip: None, answered: Instant::now(), has_failed: false, behind_since: None };
        let watch = Arc::new(Self(Mutex::new(seen)));
        let watching = Arc::clone(&watch);
        std::thread::Builder::new().name("node watch".into()).spawn(move || {
            while !shutdown.flag().load(Ordering::Relaxed) {
                watching.look(&*node, &index);
                std::thread::park_timeout(EVERY);
            }
        })?;
        Ok(watch)
    }

    pub(crate) fn seen(&self) -> NodeSeen {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, node: &dyn Node, index: &Index) {
        let answer = node.best_block();
        let ours = index.snapshot().ok().map(|snapshot| snapshot.tip().hash);
        let now = Instant::now();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Err(_) => seen.has_failed = true,
            Ok(tip) => {
                let behind_since = seen.behind_since.unwrap_or(now);
                let is_behind = ours != Some(tip.hash);
                *seen = NodeSeen {
                    tip: Some(tip),
                    answered: now,
                    has_failed: false,
                    behind_since: is_behind.then_some(behind_since),
                };
            }
        }
    }
}
