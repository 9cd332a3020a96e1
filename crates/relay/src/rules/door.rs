//! Invites into the relay, and the requests of members that were used (NIP-43), as the rules keep them.

use std::collections::HashMap;

use birdhouse_events::{EventId, Pubkey};

/// An invite into the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invite {
    /// Text that a request to join claims.
    pub code: String,
    /// The member that has asked for it; `None` for one of the operator.
    pub inviter: Option<Pubkey>,
    /// Joins that it still allows.
    pub uses: u32,
    /// Time of its making, seconds since 1970.
    pub since: u64,
    /// Last second of its validity, since 1970.
    pub until: u64,
}

/// Invites, and the requests that have changed the rules and are still valid.
#[derive(Debug, Clone, Default)]
pub(super) struct Door {
    pub(super) invites: HashMap<String, Invite>,
    /// Ids, and the last second of their validity.
    pub(super) requests: HashMap<EventId, u64>,
}
