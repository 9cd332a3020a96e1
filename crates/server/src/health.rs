//! How the server is: one judgement from what index and node were last seen to be. Pure; time is an argument.

use std::time::{Duration, Instant};

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{Height, Syncing};
use serde_json::{Value, json};

/// A node that has not answered for so long is not reachable, though a request may still be under way.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// A new block is being indexed for at most so long before it counts as being behind.
const BEHIND_MAX: Duration = Duration::from_secs(10);

/// What the node was last seen to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeSeen {
    /// Its tip, when it last answered.
    pub(crate) tip: Option<BlockId>,
    /// When it last answered; before that, when it was first asked.
    pub(crate) answered: Instant,
    /// The last question failed.
    pub(crate) has_failed: bool,
    /// Since when the index shows another tip.
    pub(crate) behind_since: Option<Instant>,
}

/// How the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// There is the relay alone: it follows no node, and serves.
    RelayAlone,
    /// It serves at the node's tip, or there is no node and it serves what it has.
    Serving { height: Height },
    /// The first build is under way.
    Syncing { percent: u8 },
    /// The node does not answer.
    NodeUnreachable { silent: Duration },
    /// The node is at another tip.
    Behind { height: Height, node: Height },
}

impl Health {
    /// `node` is `None` where there is none to follow.
    pub(crate) fn judge(index: Result<BlockId, Syncing>, node: Option<NodeSeen>, now: Instant) -> Self {
        let tip = match index {
            Err(Syncing { percent }) => return Self::Syncing { percent },
            Ok(tip) => tip,
        };
        let Some(node) = node else { return Self::Serving { height: tip.height } };
        let silent = now.saturating_duration_since(node.answered);
        if node.has_failed || silent > SILENCE_MAX {
            return Self::NodeUnreachable { silent };
        }
        match (node.tip, node.behind_since) {
            (Some(node_tip), Some(since)) if now.saturating_duration_since(since) > BEHIND_MAX => {
                Self::Behind { height: tip.height, node: node_tip.height }
            }
            // Asked for the first time just now.
            (None, _) => Self::NodeUnreachable { silent },
            _ => Self::Serving { height: tip.height },
        }
    }

    /// Whether clients should come here.
    pub(crate) fn is_good(self) -> bool {
        matches!(self, Self::Serving { .. } | Self::RelayAlone)
    }

    /// For whoever watches the server.
    pub(crate) fn to_json(self) -> Value {
        match self {
            Self::RelayAlone => json!({ "status": "serving" }),
            Self::Serving { height } => json!({ "status": "serving", "height": height.0 }),
            Self::Syncing { percent } => json!({ "status": "syncing", "percent": percent }),
            Self::NodeUnreachable { silent } => {
                json!({ "status": "node unreachable", "seconds": silent.as_secs() })
            }
            Self::Behind { height, node } => {
                json!({ "status": "behind the node", "height": height.0, "node_height": node.0 })
            }
        }
    }
}

/// One line for a person.
impl std::fmt::Display for Health {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RelayAlone => formatter.write_str("serving"),
            Self::Serving { height } => write!(formatter, "serving at height {height}"),
            Self::Syncing { percent } => write!(formatter, "syncing, {percent} %"),
            Self::NodeUnreachable { silent } => write!(formatter, "node unreachable for {} s", silent.as_secs()),
            Self::Behind { height, node } => write!(formatter, "at height {height}, the node at {node}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::BlockHash;
    use bitcoin::hashes::Hash as _;

    use super::*;

    fn tip(height: u32) -> BlockId {
        BlockId { height: Height(height), hash: BlockHash::all_zeros() }
    }

    fn seen(now: Instant) -> NodeSeen {
        NodeSeen { tip: Some(tip(7)), answered: now, has_failed: false, behind_since: None }
    }

    #[test]
    fn at_the_nodes_tip_it_serves() {
        let now = Instant::now();
        assert_eq!(Health::judge(Ok(tip(7)), Some(seen(now)), now), Health::Serving { height: Height(7) });
        assert_eq!(Health::judge(Ok(tip(7)), None, now), Health::Serving { height: Height(7) });
    }

    #[test]
    fn the_first_build_is_syncing_whatever_the_node_does() {
        let now = Instant::now();
        let failed = NodeSeen { has_failed: true, ..seen(now) };
        let health = Health::judge(Err(Syncing { percent: 43 }), Some(failed), now);
        assert_eq!(health.to_json().to_string(), r#"{"percent":43,"status":"syncing"}"#);
        assert!(!health.is_good());
    }

    #[test]
    fn a_node_that_fails_or_hangs_is_unreachable() {
        let now = Instant::now();
        let later = now + Duration::from_secs(3);
        let failed = NodeSeen { has_failed: true, ..seen(now) };
        let silent = Duration::from_secs(3);
        assert_eq!(Health::judge(Ok(tip(7)), Some(failed), later), Health::NodeUnreachable { silent });
        assert!(Health::judge(Ok(tip(7)), Some(seen(now)), now + SILENCE_MAX).is_good());
        assert!(!Health::judge(Ok(tip(7)), Some(seen(now)), now + SILENCE_MAX + silent).is_good());
    }

    #[test]
    fn a_new_block_may_take_a_moment_and_not_for_ever() {
        let now = Instant::now();
        let later = now + BEHIND_MAX + Duration::from_secs(1);
        let behind = NodeSeen { behind_since: Some(now), answered: later, ..seen(now) };
        assert!(Health::judge(Ok(tip(6)), Some(behind), now).is_good());
        let health = Health::judge(Ok(tip(6)), Some(behind), later);
        assert_eq!(health, Health::Behind { height: Height(6), node: Height(7) });
    }
}
