//! Polls the node's tip once a second, so that health and metrics answer without a request to the node, and that the
//! index knows whether the node is silent.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use birdhouse_chain::Index;
use birdhouse_chain::source::Node;
use parking_lot::Mutex;

use crate::operator::health::NodeState;
use crate::process::Shutdown;

/// Pause between two requests.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The last known state of the node.
#[derive(Debug)]
pub(crate) struct NodeWatch(Mutex<NodeState>);

impl NodeWatch {
    /// Starts to poll on a thread of its own, until shutdown.
    pub(crate) fn start(node: Arc<dyn Node>, index: Arc<Index>, shutdown: Shutdown) -> Result<Arc<Self>> {
        let state =
            NodeState { tip: None, answered: Instant::now(), has_failed: false, behind_since: None, was_ready: false };
        let watch = Arc::new(Self(Mutex::new(state)));
        index.begin_node_watch();
        let polling = Arc::clone(&watch);
        std::thread::Builder::new().name("node watch".into()).spawn(move || {
            while !shutdown.flag().load(Ordering::Relaxed) {
                polling.poll(&*node, &index);
                std::thread::park_timeout(POLL_INTERVAL);
            }
        })?;
        Ok(watch)
    }

    /// Returns the state after the last poll.
    pub(super) fn state(&self) -> NodeState {
        *self.0.lock()
    }

    fn poll(&self, node: &dyn Node, index: &Index) {
        let answer = node.best_block();
        let ours = index.snapshot().ok().map(|snapshot| snapshot.tip().hash);
        let now = Instant::now();
        if answer.is_ok() {
            index.note_node_answer();
        }
        let mut state = self.0.lock();
        match answer {
            Err(_) => state.has_failed = true,
            Ok(tip) => {
                let behind_since = state.behind_since.unwrap_or(now);
                let is_behind = ours != Some(tip.hash);
                if !is_behind && !state.was_ready {
                    tracing::info!(height = tip.height.0, "ready");
                }
                *state = NodeState {
                    tip: Some(tip),
                    answered: now,
                    has_failed: false,
                    behind_since: is_behind.then_some(behind_since),
                    was_ready: state.was_ready || !is_behind,
                };
            }
        }
    }
}
