//! Members of the relay (NIP-43): requests to join and to leave, invites, and what is for members alone.
//!
//! Invariant: a request is neither stored nor sent to anyone. Only the relay itself publishes events about its members.
//!
//! Source: [NIP-43](https://github.com/nostr-protocol/nips/blob/master/43.md).

mod events;
mod publisher;

pub(crate) use self::events::{INVITE, JOIN, LEAVE, invite as invite_event};
pub(crate) use self::publisher::start;

use birdhouse_events::{Event, Filter, Kind, Pubkey, Rejection};

use crate::clock::now;
use crate::limits::MEMBER_REQUEST_SECONDS;
use crate::policy::{Gate, Members, MembersAlone};
use crate::rules::Rules;

/// Checks an event that may be forged, whatever way it came: as [`Gate::check`] does where there are no members. A
/// member that has authenticated may send gift wraps, whose authors are keys for one use.
pub(crate) fn check(
    members: Option<&Members>,
    event: &Event,
    gate: &Gate,
    rules: &Rules,
    authenticated: &[Pubkey],
) -> Result<(), Rejection> {
    if members.is_none() {
        return gate.check(event, rules);
    }
    match event.kind {
        JOIN | LEAVE => {
            gate.check_bans(event, rules)?;
            check_time(event)
        }
        INVITE | events::ADDED | events::REMOVED | events::MEMBERS | events::ROLE => {
            Err(Rejection::Blocked("only the relay itself publishes its members".into()))
        }
        Kind::GIFT_WRAP | Kind::EPHEMERAL_GIFT_WRAP => match gate.check(event, rules) {
            Err(Rejection::Restricted(_)) if authenticated.iter().any(|one| gate.has_access(one, rules)) => {
                gate.check_kind_of(event, rules)
            }
            checked => checked,
        },
        _ => gate.check(event, rules),
    }
}

impl Members {
    /// True if only members read.
    pub(crate) fn is_private(&self) -> bool {
        self.alone == MembersAlone::PublishAndRead
    }

    /// Checks that a client may read.
    pub(crate) fn check_reader(&self, gate: &Gate, rules: &Rules, authenticated: &[Pubkey]) -> Result<(), Rejection> {
        if !self.is_private() || authenticated.iter().any(|one| gate.has_access(one, rules)) {
            return Ok(());
        }
        Err(match authenticated {
            [] => Rejection::AuthRequired("only members read here".into()),
            _ => Rejection::Restricted("only members read here".into()),
        })
    }

    /// True if filters ask for an invite.
    pub(crate) fn is_asked_for_invite(&self, filters: &[Filter]) -> bool {
        let relay = self.keys.pubkey();
        filters.iter().any(|filter| {
            filter.kinds.as_ref().is_some_and(|kinds| kinds.contains(&INVITE))
                && filter.authors.as_ref().is_none_or(|authors| authors.contains(&relay))
                && filter.limit != Some(0)
        })
    }
}

/// True for a request to join or to leave.
pub(crate) fn is_request(event: &Event) -> bool {
    matches!(event.kind, JOIN | LEAVE)
}

/// Checks the time of a request, and that one to leave is protected: only its author may send it (NIP-70).
fn check_time(event: &Event) -> Result<(), Rejection> {
    if event.created_at.0.abs_diff(now().into()) > MEMBER_REQUEST_SECONDS {
        let why = format!("created_at is more than {MEMBER_REQUEST_SECONDS} s from the relay's clock");
        return Err(Rejection::Invalid(why.into()));
    }
    if event.kind == LEAVE && !event.is_protected() {
        return Err(Rejection::Invalid("a request to leave has a - tag".into()));
    }
    Ok(())
}
