//! The health of the server: of the index, from its last known state and the node's, and of the relay. Pure: time is an
//! argument.

use std::time::{Duration, Instant};

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{DerivedProgress, Height, Syncing, Waiting};
use serde_json::{Value, json};

/// Silence of the node after which it counts as unreachable, even with a request still under way.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Time for indexing a new block before the server counts as behind.
const BEHIND_MAX: Duration = Duration::from_secs(10);
/// Status of an index with damage.
pub(crate) const DAMAGED: &str = "index damaged";

/// The last known state of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeState {
    /// Tip of the last answer.
    pub(super) tip: Option<BlockId>,
    /// Time of the last answer; before the first one, of the first request.
    pub(super) answered: Instant,
    /// The last request failed.
    pub(super) has_failed: bool,
    /// Time since which the index has had another tip.
    pub(super) behind_since: Option<Instant>,
    /// The index has had the node's tip at least once.
    pub(super) was_ready: bool,
}

/// The health of each half of the server that is on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Halves {
    pub(crate) bitcoin: Option<Health>,
    /// The derived indexes that are on. One that is behind or fails makes nothing unhealthy: its answers say what they
    /// cover.
    pub(super) derived: Vec<DerivedProgress>,
    pub(crate) relay: Option<birdhouse_relay::Health>,
}

/// The health of the half that serves wallets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    /// Serves at the node's tip; without a node, at the index's own.
    Serving { height: Height },
    /// The first build is under way.
    Syncing { percent: u8 },
    /// The node has not answered for this time.
    NodeUnreachable { silent: Duration },
    /// The node has had another tip for too long.
    Behind { height: Height, node: Height },
    /// Serves the known chain, if the first build has finished, until the node is back or a person acts.
    Waiting { height: Option<Height>, reason: Waiting },
    /// Serves, and fails where an answer needs a damaged place, until a person acts.
    Damaged { height: Height, reason: String },
}

// === impl Halves ===

impl Halves {
    /// Returns `true` if clients should use this server: `/health` answers 200.
    pub(super) fn is_good(&self) -> bool {
        self.bitcoin.as_ref().is_none_or(Health::is_good)
            && self.relay.as_ref().is_none_or(birdhouse_relay::Health::is_good)
    }

    /// Returns `true` while a half serves, so that the process should go on. The index serves its last snapshot through
    /// every failure.
    pub(crate) fn is_alive(&self) -> bool {
        self.bitcoin.is_some() || self.relay.as_ref().is_none_or(|relay| !relay.is_lost())
    }

    /// Returns the body of `/health`.
    pub(super) fn to_json(&self) -> Value {
        let mut body = self.bitcoin.as_ref().map_or_else(|| json!({}), Health::to_json);
        if !self.derived.is_empty() {
            body["derived"] = self.derived.iter().map(|one| (one.name.to_owned(), of_derived(one))).collect();
        }
        if let Some(relay) = &self.relay {
            let mut state = json!({ "status": relay.storing.name() });
            if let Some(reason) = relay.storing.reason() {
                state["reason"] = reason.into();
            }
            for (thread, failure) in &relay.failures {
                state[thread] = failure.as_str().into();
            }
            if self.bitcoin.is_none() {
                body["status"] = relay.storing.name().into();
            }
            body["relay"] = state;
        }
        body
    }
}

fn of_derived(one: &DerivedProgress) -> Value {
    let mut state = json!({ "blocks": one.blocks, "of_blocks": one.of_blocks });
    if let Some(failure) = &one.failure {
        state["failure"] = failure.as_str().into();
    }
    state
}

/// One line for `birdhouse ctl` and `systemctl status`.
impl std::fmt::Display for Halves {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let relay = self.relay.as_ref().map(|relay| &relay.storing);
        let relay_fails = relay.and_then(|storing| Some((storing.name(), storing.reason()?)));
        match (&self.bitcoin, relay_fails) {
            (Some(bitcoin), None) => bitcoin.fmt(formatter),
            (Some(bitcoin), Some((name, reason))) => write!(formatter, "{bitcoin}; relay: {name}: {reason}"),
            (None, Some((name, reason))) => write!(formatter, "{name}: {reason}"),
            (None, None) => formatter.write_str("serving"),
        }
    }
}

// === impl Health ===

impl Health {
    /// Returns the health at `now`. `node` is `None` without a node to follow.
    pub(super) fn assess(
        index: Result<BlockId, Syncing>,
        node: Option<NodeState>,
        waiting: Option<Waiting>,
        damage: Option<&str>,
        now: Instant,
    ) -> Self {
        let tip = match index {
            Err(Syncing { percent, .. }) => {
                return match waiting {
                    Some(reason) => Self::Waiting { height: None, reason },
                    None => Self::Syncing { percent },
                };
            }
            Ok(tip) => tip,
        };
        if let (None, Some(reason)) = (&waiting, damage) {
            return Self::Damaged { height: tip.height, reason: reason.to_owned() };
        }
        let Some(node) = node else { return Self::Serving { height: tip.height } };
        let silent = now.saturating_duration_since(node.answered);
        if node.has_failed || silent > SILENCE_MAX {
            return Self::NodeUnreachable { silent };
        }
        if let Some(reason) = waiting {
            return Self::Waiting { height: Some(tip.height), reason };
        }
        match (node.tip, node.behind_since) {
            (Some(node_tip), Some(since)) if now.saturating_duration_since(since) > BEHIND_MAX => {
                Self::Behind { height: tip.height, node: node_tip.height }
            }
            // The first request has no answer yet.
            (None, _) => Self::NodeUnreachable { silent },
            _ => Self::Serving { height: tip.height },
        }
    }

    /// Returns `true` if wallets should use this server.
    pub(super) fn is_good(&self) -> bool {
        matches!(self, Self::Serving { .. })
    }

    /// Returns its part of the body of `/health`.
    fn to_json(&self) -> Value {
        match self {
            Self::Serving { height } => json!({ "status": "serving", "height": height.0 }),
            Self::Syncing { percent } => json!({ "status": "syncing", "percent": percent }),
            Self::NodeUnreachable { silent } => {
                json!({ "status": "node unreachable", "seconds": silent.as_secs() })
            }
            Self::Behind { height, node } => {
                json!({ "status": "behind the node", "height": height.0, "node_height": node.0 })
            }
            Self::Waiting { height, reason } => {
                json!({ "status": reason.kind(), "height": height.map(|height| height.0), "reason": reason.to_string() })
            }
            Self::Damaged { height, reason } => json!({ "status": DAMAGED, "height": height.0, "reason": reason }),
        }
    }
}

impl std::fmt::Display for Health {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Serving { height } => write!(formatter, "serving at height {height}"),
            Self::Syncing { percent } => write!(formatter, "syncing, {percent} %"),
            Self::NodeUnreachable { silent } => write!(formatter, "node unreachable for {} s", silent.as_secs()),
            Self::Behind { height, node } => write!(formatter, "at height {height}, the node at {node}"),
            Self::Waiting { height: Some(height), reason } => write!(formatter, "serving at height {height}; {reason}"),
            Self::Waiting { height: None, reason } => write!(formatter, "{reason}"),
            Self::Damaged { height, reason } => write!(formatter, "serving at height {height}; {reason}"),
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

    fn seen(now: Instant) -> NodeState {
        NodeState { tip: Some(tip(7)), answered: now, has_failed: false, behind_since: None, was_ready: true }
    }

    #[test]
    fn at_the_nodes_tip_it_serves() {
        let now = Instant::now();
        assert_eq!(Health::assess(Ok(tip(7)), Some(seen(now)), None, None, now), Health::Serving { height: Height(7) });
        assert_eq!(Health::assess(Ok(tip(7)), None, None, None, now), Health::Serving { height: Height(7) });
    }

    #[test]
    fn the_first_build_is_syncing_whatever_the_node_does() {
        let now = Instant::now();
        let failed = NodeState { has_failed: true, ..seen(now) };
        let health = Health::assess(Err(Syncing { percent: 43, left: None }), Some(failed), None, None, now);
        assert_eq!(health.to_json().to_string(), r#"{"percent":43,"status":"syncing"}"#);
        assert!(!health.is_good());
    }

    #[test]
    fn a_node_that_fails_or_hangs_is_unreachable() {
        let now = Instant::now();
        let later = now + Duration::from_secs(3);
        let failed = NodeState { has_failed: true, ..seen(now) };
        let silent = Duration::from_secs(3);
        assert_eq!(Health::assess(Ok(tip(7)), Some(failed), None, None, later), Health::NodeUnreachable { silent });
        for (seconds, is_good) in [(10, true), (11, false)] {
            let now_silent =
                Health::assess(Ok(tip(7)), Some(seen(now)), None, None, now + Duration::from_secs(seconds));
            assert_eq!(now_silent.is_good(), is_good, "{seconds}");
        }
    }

    #[test]
    fn a_new_block_may_take_a_moment_and_not_for_ever() {
        let now = Instant::now();
        let later = now + BEHIND_MAX + Duration::from_secs(1);
        let behind = NodeState { behind_since: Some(now), answered: later, ..seen(now) };
        assert!(Health::assess(Ok(tip(6)), Some(behind), None, None, now).is_good());
        let health = Health::assess(Ok(tip(6)), Some(behind), None, None, later);
        assert_eq!(health, Health::Behind { height: Height(6), node: Height(7) });
    }

    #[test]
    fn a_node_on_another_chain_is_told_with_the_height_that_is_served() {
        let now = Instant::now();
        let reason = Waiting::ShorterChain { node: tip(3), ours: tip(7) };
        let health = Health::assess(Ok(tip(7)), Some(seen(now)), Some(reason), None, now);
        assert!(!health.is_good());
        assert_eq!(
            health.to_json(),
            json!({
                "status": "node on another chain", "height": 7,
                "reason": "the node has another, shorter chain (its tip is at height 3); block 7 of the index is \
                           unknown to it",
            })
        );
    }

    #[test]
    fn damage_is_told_with_or_without_a_node_and_behind_a_failure_of_the_follower() {
        let now = Instant::now();
        let assess = |node, waiting| Health::assess(Ok(tip(7)), node, waiting, Some("page 3 is damaged"), now);
        for node in [None, Some(seen(now))] {
            let health = assess(node, None);
            assert!(!health.is_good());
            let body = json!({ "status": "index damaged", "height": 7, "reason": "page 3 is damaged" });
            assert_eq!(health.to_json(), body);
            assert_eq!(health.to_string(), "serving at height 7; page 3 is damaged");
        }
        let failed = Waiting::Failed { message: "page 3 is damaged; remove it".into() };
        assert_eq!(assess(Some(seen(now)), Some(failed)).to_json()["status"], "index failed");
    }

    #[test]
    fn a_derived_index_that_is_behind_or_fails_is_shown_and_makes_nothing_unhealthy() {
        let one = |name, failure: Option<&str>| DerivedProgress {
            name,
            blocks: 3,
            of_blocks: 8,
            bytes: 96,
            failures: failure.map_or(0, |_| 1),
            failure: failure.map(str::to_owned),
        };
        let derived = vec![one("filters", None), one("other", Some("no block"))];
        let halves = Halves { bitcoin: Some(Health::Serving { height: Height(7) }), derived, relay: None };
        let derived = json!({
            "filters": { "blocks": 3, "of_blocks": 8 },
            "other": { "blocks": 3, "of_blocks": 8, "failure": "no block" },
        });
        assert_eq!(halves.to_json(), json!({ "status": "serving", "height": 7, "derived": derived }));
        assert!(halves.is_good() && halves.is_alive());
    }

    #[test]
    fn a_relay_that_cannot_store_makes_the_server_unhealthy_and_keeps_it_alive() {
        use birdhouse_relay::{Health as Relay, Storing};
        let relay = |storing| Some(Relay { storing, failures: vec![("search", "damaged".to_owned())] });
        let bitcoin = Some(Health::Serving { height: Height(7) });
        let full = Storing::Failed { reason: "full".to_owned() };
        let both = Halves { bitcoin: bitcoin.clone(), relay: relay(full.clone()), ..Halves::default() };
        assert_eq!(
            both.to_json(),
            json!({
                "status": "serving", "height": 7,
                "relay": { "status": "cannot store events", "reason": "full", "search": "damaged" },
            })
        );
        assert_eq!(both.to_string(), "serving at height 7; relay: cannot store events: full");
        assert!(!both.is_good() && both.is_alive());
        assert!(Halves { relay: relay(full), ..Halves::default() }.is_alive(), "it answers queries");
        assert!(!Halves { relay: relay(Storing::Ended), ..Halves::default() }.is_alive());
        let ended = Halves { bitcoin, relay: relay(Storing::Ended), ..Halves::default() };
        assert!(ended.is_alive() && !ended.is_good());
        assert!(Halves { relay: relay(Storing::Works), ..Halves::default() }.is_good());
    }
}
