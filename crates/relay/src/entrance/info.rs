//! The information document of the relay (NIP-11): its name, and its actual limits.

use birdhouse_events::Events;
use serde_json::{Value, json};

use crate::policy::{Gate, Members};
use crate::rules::{Rules, Text};
use crate::settings::{Description, EoseHints, Settings};

/// The supported NIPs; members (43), search (50) and hints in EOSE (67) are added where they are on, and the management
/// API (86, 98) where there are admins.
const NIPS: &[u16] = &[1, 9, 11, 13, 17, 40, 42, 45, 59, 62, 70, 77, 91];
/// Homepage of the software, which Cargo.toml names; empty without one.
const SOFTWARE: &str = env!("CARGO_PKG_HOMEPAGE");

/// Returns the document.
pub(super) fn document(settings: &Settings, events: &Events, gate: &Gate, rules: &Rules) -> Value {
    let mut nips = NIPS.to_vec();
    if events.has_search() {
        nips.push(50);
    }
    if settings.eose_hints == EoseHints::On {
        nips.push(67);
    }
    let members = settings.members.as_ref();
    if members.is_some() {
        nips.push(43);
    }
    if !gate.admins().is_empty() {
        nips.extend([86, 98]);
    }
    nips.sort_unstable();
    let Settings { description, limits, .. } = settings;
    let Description { name, description, pubkey, own_pubkey, contact, icon, banner, terms_of_service } = description;
    let is_restricted = gate.is_restricted() || settings.plugin.is_some();
    let (name, description) =
        (rules.text(Text::Name).unwrap_or(name), rules.text(Text::Description).unwrap_or(description));
    let mut document = json!({
        "name": name,
        "description": description,
        "icon": rules.text(Text::Icon).or(icon.as_deref()),
        "banner": banner,
        "pubkey": pubkey,
        "self": members.map(|members| members.keys.pubkey().to_string()).or_else(|| own_pubkey.clone()),
        "contact": contact,
        "terms_of_service": terms_of_service,
        "supported_nips": nips,
        "software": (!SOFTWARE.is_empty()).then_some(SOFTWARE),
        "version": env!("CARGO_PKG_VERSION"),
        // No `max_limit` and no `default_limit`: the relay bounds the rows of no filter.
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
            "auth_required": members.is_some_and(Members::is_private),
            "payment_required": false,
            "restricted_writes": is_restricted,
        },
    });
    leave_out_nulls(&mut document);
    document
}

/// Removes the fields without a value.
fn leave_out_nulls(document: &mut Value) {
    if let Value::Object(fields) = document {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(leave_out_nulls);
    }
}
