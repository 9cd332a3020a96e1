//! Members of the relay and invites (NIP-43), for `birdhouse ctl`: members, invites, invite, revoke.

use anyhow::{Result, anyhow, bail};
use birdhouse_net::offload;
use birdhouse_relay::{Actor, Change, Invite, Member};
use serde_json::{Value, json};

use crate::operator::control::Control;
use crate::operator::rules::RELAY_IS_OFF;

/// Seconds of a day.
const DAY: u64 = 86_400;

/// Lists the members.
pub(super) fn list(control: &Control) -> Value {
    let rules = control.rules.current();
    let line = |member: Member<'_>| {
        let roles: Vec<&str> = rules.roles_of(&member.pubkey).collect();
        json!({
            "value": member.pubkey.to_string(),
            "roles": roles,
            "since": member.rule.since,
            "reason": member.rule.reason,
        })
    };
    rules.members().into_iter().map(line).collect()
}

/// Lists the invites.
pub(super) fn invites(control: &Control) -> Value {
    control.rules.current().invites().into_iter().map(to_json).collect()
}

/// Makes an invite.
pub(super) fn invite(control: &Control, uses: u32, days: u32, actor: Actor) -> Result<Value> {
    let Some(relay) = &control.relay else { bail!(RELAY_IS_OFF) };
    let invite = offload(|| relay.invite(uses, u64::from(days) * DAY, actor)).map_err(|error| anyhow!(error))?;
    tracing::info!(uses, days, "made an invite for the operator");
    Ok(to_json(&invite))
}

/// Takes an invite back.
pub(super) fn revoke(control: &Control, code: &str, actor: Actor) -> Result<Value> {
    if !offload(|| control.rules.change(&Change::Revoke(code.to_owned()), actor))?.is_changed {
        bail!("no invite has this code; list them with `birdhouse ctl invites`");
    }
    tracing::info!("took an invite back for the operator");
    Ok(json!({ "revoked": code }))
}

fn to_json(invite: &Invite) -> Value {
    json!({
        "id": invite.id(),
        "code": invite.code,
        "inviter": invite.inviter.map(|inviter| inviter.to_string()),
        "uses": invite.uses,
        "since": invite.since,
        "until": invite.until,
    })
}
