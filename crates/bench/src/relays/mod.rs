//! Measurements of Nostr relays.

pub(crate) mod nostream;
pub(crate) mod relay;
