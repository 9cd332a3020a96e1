//! The answers of the relay to requests to join, to leave and for an invite (NIP-43).

use birdhouse_events::{Pubkey, Rejection, VerifiedEvent};

use crate::clock::now;
use crate::limits::{INVITE_SECONDS, MEMBER_REQUEST_SECONDS};
use crate::members::{LEAVE, invite_event};
use crate::message;
use crate::policy::Members;
use crate::relay::Relay;
use crate::rules::{Actor, Change, Invite, MemberRequest, Membership, Refusal, RulesError};

/// Outcome of a request that made or ended a membership.
const ACCEPTED: &str = "accepted";

/// Answer to a request.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The message for the client.
    pub(crate) message: String,
    /// Name of the outcome in metrics.
    pub(crate) outcome: &'static str,
    /// Its author has left.
    pub(crate) has_left: bool,
}

impl Answered {
    fn of(message: String, outcome: &'static str) -> Self {
        Self { message, outcome, has_left: false }
    }
}

impl Relay {
    /// Carries out a request to join or to leave. Waits for the disk.
    pub(crate) fn answer_member(&self, event: &VerifiedEvent) -> Answered {
        let until = event.created_at.0.saturating_add(MEMBER_REQUEST_SECONDS);
        let request = MemberRequest { id: event.id, author: event.pubkey, now: now().into(), until };
        if event.kind == LEAVE {
            let answered = answered(event, self.rules.leave(&request), "you are not a member of this relay.", || {
                "you have left this relay.".to_owned()
            });
            return Answered { has_left: answered.outcome == ACCEPTED, ..answered };
        }
        let Some(code) = event.values("claim").next() else {
            return refused(event, &Rejection::Invalid("a request to join has a claim tag".into()));
        };
        let gate = self.gate();
        let joined = self.rules.join(&request, code, |inviter, rules| gate.may_invite(inviter, rules));
        answered(event, joined, "you are already a member of this relay.", || match self.urls().first() {
            Some(url) => format!("welcome to {url}!"),
            None => "welcome!".to_owned(),
        })
    }

    /// Makes an invite for the first of these authors that may invite: members, and admins. Waits for the disk.
    pub(crate) fn invite_for(&self, members: &Members, authenticated: &[Pubkey]) -> Result<VerifiedEvent, Rejection> {
        let gate = self.gate();
        for inviter in authenticated {
            let fresh = fresh_invite(Some(*inviter), 1, INVITE_SECONDS);
            let made = self.rules.invite_of_member(*inviter, fresh, |rules| gate.may_invite(inviter, rules));
            let made = made.map_err(|error| failed(&error))?;
            if let Some(invite) = made {
                return Ok(invite_event(&members.keys, &invite.code, now()));
            }
        }
        Err(match authenticated {
            [] => Rejection::AuthRequired("only members invite".into()),
            _ => Rejection::Restricted("only members invite".into()),
        })
    }

    /// Makes an invite of the operator. Waits for the disk.
    ///
    /// # Errors
    /// The relay has no members, or the rules cannot be changed.
    pub fn invite(&self, uses: u32, seconds: u64, actor: Actor) -> Result<Invite, String> {
        if self.settings.members.is_none() {
            return Err("the relay has no members; set relay-members".to_owned());
        }
        let invite = fresh_invite(None, uses, seconds);
        self.rules.change(&Change::Invite(invite.clone()), actor).map_err(|error| error.to_string())?;
        Ok(invite)
    }
}

/// Returns the answer to a request, from what it has done.
fn answered(
    event: &VerifiedEvent,
    done: Result<Membership, Refusal>,
    unchanged: &str,
    changed: impl FnOnce() -> String,
) -> Answered {
    match done {
        Ok(Membership::Changed) => {
            Answered::of(message::ok_saying(&event.id, &format!("info: {}", changed())), ACCEPTED)
        }
        Ok(Membership::Unchanged) => {
            Answered::of(message::ok_saying(&event.id, &format!("duplicate: {unchanged}")), "duplicate")
        }
        Err(Refusal::Rules(error)) => refused(event, &failed(&error)),
        Err(refusal @ Refusal::Busy) => refused(event, &Rejection::RateLimited(refusal.to_string().into())),
        Err(refusal) => refused(event, &Rejection::Restricted(refusal.to_string().into())),
    }
}

fn refused(event: &VerifiedEvent, rejection: &Rejection) -> Answered {
    Answered::of(message::refused(&event.id, rejection), rejection.prefix())
}

/// Logs a failure, and returns what a client learns of it.
fn failed(error: &RulesError) -> Rejection {
    tracing::error!(%error, "failed to change the members");
    Rejection::Error("the relay cannot change its members now".into())
}

/// Returns an invite whose code nobody can guess.
fn fresh_invite(inviter: Option<Pubkey>, uses: u32, seconds: u64) -> Invite {
    let mut code = [0; 16];
    getrandom::fill(&mut code).expect("the system has random numbers: it gave some when the relay was opened");
    let (code, since) = (format!("{:032x}", u128::from_be_bytes(code)), u64::from(now()));
    Invite { code, inviter, uses, since, until: since.saturating_add(seconds) }
}
