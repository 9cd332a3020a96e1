//! Invites into the relay, and the requests of members that were used (NIP-43), as the rules keep them.

use std::collections::{HashMap, HashSet};

use birdhouse_events::{EventId, Pubkey};
use sha2::{Digest as _, Sha256};

/// Bytes of a code's hash that are the id of its invite.
const ID_BYTES: usize = 8;

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

impl Invite {
    /// Returns a name for it that lets nobody in: the beginning of its code's SHA-256, in hexadecimal.
    pub fn id(&self) -> String {
        invite_id(&self.code)
    }
}

impl Door {
    /// Returns the ids of all invites.
    pub(super) fn ids(&self) -> HashSet<String> {
        self.invites.values().map(Invite::id).collect()
    }

    /// Returns the code of an invite by its id.
    pub(super) fn code_of(&self, id: &str) -> Option<String> {
        self.invites.keys().find(|code| invite_id(code) == id).cloned()
    }
}

/// Returns the id of a code's invite.
pub(super) fn invite_id(code: &str) -> String {
    const_hex::encode(&Sha256::digest(code)[..ID_BYTES])
}
