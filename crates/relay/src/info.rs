//! The information document of the relay (NIP-11): its name, and its actual limits.

use birdhouse_events::Events;
use serde_json::{Value, json};

use crate::settings::{Description, Settings};

/// The supported NIPs; search (50) is added where it is on.
const NIPS: &[u16] = &[1, 9, 11, 13, 40, 42, 45, 62, 67, 70, 77];

/// Returns the document.
pub(crate) fn document(settings: &Settings, events: &Events) -> Value {
    let mut nips = NIPS.to_vec();
    if events.has_search() {
        nips.push(50);
        nips.sort_unstable();
    }
    let Settings { description, limits, policy, .. } = settings;
    let Description { name, description, pubkey, contact } = description;
    let is_restricted = policy.is_restricted() || settings.plugin.is_some();
    json!({
        "name": name,
        "description": description,
        "pubkey": pubkey,
        "contact": contact,
        "supported_nips": nips,
        "software": "birdhouse",
        "version": env!("CARGO_PKG_VERSION"),
        "limitation": {
            "max_message_length": limits.message_bytes,
            "max_subscriptions": limits.subscriptions,
            "max_subid_length": limits.subscription_id_chars,
            "max_event_tags": limits.tags,
            // NIP-11 counts characters, and this is bytes: the same for ASCII, and the stricter bound for other text.
            "max_content_length": limits.content_bytes,
            "min_pow_difficulty": limits.difficulty,
            "created_at_lower_limit": limits.created_at_behind.map(|behind| behind.as_secs()),
            "created_at_upper_limit": limits.created_at_ahead.as_secs(),
            "auth_required": false,
            "payment_required": false,
            "restricted_writes": is_restricted,
        },
    })
}
