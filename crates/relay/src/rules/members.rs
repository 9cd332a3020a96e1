//! Members of the relay (NIP-43): the authors that a rule allows, and the invites by which others become members.
//!
//! Invariant: one change uses an invite and makes its user a member, so neither a second user nor a restart comes in
//! between. A request changes the rules once: its id is remembered for as long as it is valid.
//!
//! Source: [NIP-43](https://github.com/nostr-protocol/nips/blob/master/43.md).

use birdhouse_events::{EventId, Pubkey};

use super::{Change, Invite, Role, Rule, Rules, RulesError, Subject, Verdict};
use crate::limits::{
    INVITE_EXPIRED_SECONDS, INVITES_MAX, INVITES_OF_MEMBER, INVITES_OF_OPERATOR, MEMBER_REQUESTS_USED, MEMBERS_MAX,
};

/// An author that a rule allows.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// The author.
    pub pubkey: Pubkey,
    /// The rule.
    pub rule: &'a Rule,
}

/// A request to join or to leave, whose signature is verified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberRequest {
    pub(crate) id: EventId,
    pub(crate) author: Pubkey,
    /// Seconds since 1970.
    pub(crate) now: u64,
    /// Last second of its validity, since 1970.
    pub(crate) until: u64,
}

/// Effect of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Membership {
    /// The author is a member from now on, or no longer.
    Changed,
    /// It was so before.
    Unchanged,
}

/// Reason why a request has no effect.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("that is an invalid invite code.")]
    UnknownCode,
    #[error("that invite code is expired.")]
    Expired,
    #[error("this relay has as many members as it takes")]
    Full,
    #[error("this request was used before: sign another one")]
    Used,
    #[error("others have joined or left too often: try again in some minutes")]
    Busy,
    #[error("the operator has banned you")]
    Banned,
    #[error(transparent)]
    Rules(#[from] RulesError),
}

impl Rules {
    /// Returns the members, the earliest first.
    pub fn members(&self) -> Vec<Member<'_>> {
        let mut members: Vec<_> = self.unsorted_members().collect();
        members.sort_unstable_by_key(|member| (member.rule.since, member.pubkey.0));
        members
    }

    fn unsorted_members(&self) -> impl Iterator<Item = Member<'_>> {
        let allowed = self.authors.iter().filter(|(_, rule)| rule.verdict == Verdict::Allow);
        allowed.map(|(pubkey, rule)| Member { pubkey: *pubkey, rule })
    }

    /// Returns true for a member.
    pub fn is_member(&self, pubkey: &Pubkey) -> bool {
        self.authors.get(pubkey).is_some_and(|rule| rule.verdict == Verdict::Allow)
    }

    /// Returns the roles by their ids.
    pub fn roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.all.values()
    }

    /// Returns the ids of a member's roles.
    pub fn roles_of(&self, member: &Pubkey) -> impl Iterator<Item = &str> {
        self.roles.of_members.get(member).into_iter().flatten().map(String::as_str)
    }

    /// Returns the invites, the earliest first.
    pub fn invites(&self) -> Vec<&Invite> {
        let mut invites: Vec<_> = self.door.invites.values().collect();
        invites.sort_unstable_by_key(|invite| (invite.since, &invite.code));
        invites
    }

    /// Returns the newest invite of a member that has as many as it may have.
    pub(super) fn newest_of_many(&self, inviter: Pubkey, now: u64) -> Option<&Invite> {
        let of_member = || self.door.invites.values().filter(|one| one.inviter == Some(inviter) && one.until >= now);
        (of_member().count() >= INVITES_OF_MEMBER).then(|| of_member().max_by_key(|one| (one.since, &one.code)))?
    }

    /// Adds an invite, and forgets those that expired long ago; where there are too many, all that expired. Members
    /// leave room for the operator's.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn invite(&mut self, invite: &Invite) -> Result<(), RulesError> {
        let invites = &mut self.door.invites;
        invites.retain(|_, one| one.until.saturating_add(INVITE_EXPIRED_SECONDS) >= invite.since);
        let most = INVITES_MAX - if invite.inviter.is_some() { INVITES_OF_OPERATOR } else { 0 };
        if invites.len() >= most {
            invites.retain(|_, one| one.until >= invite.since);
        }
        if invites.len() >= most {
            return Err(RulesError::TooManyInvites);
        }
        invites.insert(invite.code.clone(), invite.clone());
        Ok(())
    }

    /// Takes back the invites of an author that is no member any more.
    pub(super) fn revoke_of(&mut self, inviter: &Pubkey) {
        self.door.invites.retain(|_, invite| invite.inviter.as_ref() != Some(inviter));
    }

    /// Returns the rules with the author of a request as a member; `None` if it is one. The invite counts if its
    /// inviter may still invite. A code that was guessed copies nothing.
    pub(super) fn joined(
        &self,
        request: &MemberRequest,
        code: &str,
        may_invite: impl Fn(&Pubkey) -> bool,
    ) -> Result<Option<Self>, Refusal> {
        if self.is_member(&request.author) {
            return Ok(None);
        }
        if self.is_used(request) {
            return Err(Refusal::Used);
        }
        if self.authors.get(&request.author).is_some_and(|rule| rule.verdict == Verdict::Ban) {
            return Err(Refusal::Banned);
        }
        let invite = self.door.invites.get(code).ok_or(Refusal::UnknownCode)?;
        if invite.inviter.is_some_and(|inviter| !may_invite(&inviter)) {
            return Err(Refusal::UnknownCode);
        }
        if invite.until < request.now {
            return Err(Refusal::Expired);
        }
        if self.unsorted_members().count() >= MEMBERS_MAX {
            return Err(Refusal::Full);
        }
        let reason = match invite.inviter {
            Some(inviter) => format!("joined with an invite of {inviter}"),
            None => "joined with an invite of the operator".to_owned(),
        };
        let mut joined = self.clone();
        joined.remember(request)?;
        joined.use_up(code);
        let rule = Rule { verdict: Verdict::Allow, reason, since: request.now, until: None };
        Ok(joined.with(&Change::Decide(Subject::Author(request.author), rule))?)
    }

    /// Counts one use of an invite.
    fn use_up(&mut self, code: &str) {
        let Some(invite) = self.door.invites.get_mut(code) else { return };
        invite.uses -= 1;
        if invite.uses == 0 {
            self.door.invites.remove(code);
        }
    }

    /// Returns the rules without the author of a request as a member; `None` if it is none.
    pub(super) fn left(&self, request: &MemberRequest) -> Result<Option<Self>, Refusal> {
        let Some(mut left) = self.with(&Change::TakeBack(Subject::Author(request.author), Verdict::Allow))? else {
            return Ok(None);
        };
        left.remember(request)?;
        Ok(Some(left))
    }

    fn is_used(&self, request: &MemberRequest) -> bool {
        self.door.requests.get(&request.id).is_some_and(|until| *until >= request.now)
    }

    /// Remembers a request, so that nobody can send it again.
    fn remember(&mut self, request: &MemberRequest) -> Result<(), Refusal> {
        if self.is_used(request) {
            return Err(Refusal::Used);
        }
        let requests = &mut self.door.requests;
        requests.retain(|_, until| *until >= request.now);
        if requests.len() >= MEMBER_REQUESTS_USED {
            return Err(Refusal::Busy);
        }
        requests.insert(request.id, request.until);
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
#[path = "members_tests.rs"]
mod tests;
