//! Settings of the relay's members (NIP-43).

use std::sync::Arc;

use birdhouse_events::Keys;

/// Members of the relay (NIP-43).
#[derive(Clone)]
pub struct Members {
    /// The relay's own keys, which sign its events about members.
    pub keys: Arc<Keys>,
    /// The actions that are for members alone.
    pub alone: MembersAlone,
}

/// Without the keys.
impl std::fmt::Debug for Members {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Members").field("alone", &self.alone).finish_non_exhaustive()
    }
}

/// Actions that are for members alone, and for the admins and authors that the settings allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MembersAlone {
    /// None: the relay has a list of members.
    Nothing,
    /// Publishing.
    Publish,
    /// Publishing and reading.
    PublishAndRead,
}
