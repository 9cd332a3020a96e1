//! Requests of a connection to join and to leave, and for invites (NIP-43).

use birdhouse_events::{Filter, Pubkey, Rejection, VerifiedEvent};
use birdhouse_net::offload;

use super::{Connection, Step};
use crate::policy::Members;

impl Connection<'_> {
    /// Carries out a request to join or to leave. Connections of an author that left end: this one once it has its
    /// answer, which its client may leave unread.
    pub(super) async fn answer_member(&mut self, event: &VerifiedEvent) -> Step {
        let answered = offload(|| self.relay.answer_member(event));
        self.relay.counters.event(answered.outcome);
        if answered.has_left {
            self.relay.rules.end_other_connections_of(&event.pubkey, &self.meter);
        }
        let sent = self.send(answered.message).await;
        if answered.has_left {
            self.relay.rules.end_connections_of(&event.pubkey);
        }
        sent
    }

    /// Makes the invite that filters ask for, if they do.
    pub(super) fn invite(&self, filters: &[Filter]) -> Result<Option<VerifiedEvent>, Rejection> {
        let Some(members) = &self.relay.settings.members else { return Ok(None) };
        if !members.is_asked_for_invite(filters) {
            return Ok(None);
        }
        let invite = offload(|| self.relay.invite_for(members, self.identity.pubkeys()))?;
        Ok(Some(invite).filter(|invite| filters.iter().any(|filter| filter.matches(invite))))
    }

    /// Lets the connection end when an author that it has authenticated as may no longer read.
    pub(super) fn enter_as(&self, author: Pubkey) {
        if self.is_of_private_relay() {
            self.relay.rules.enter(author, &self.meter);
        }
    }

    /// Takes back what [`Self::enter_as`] has done.
    pub(super) fn forget_authors(&self) {
        if self.is_of_private_relay() {
            self.relay.rules.forget(self.identity.pubkeys(), &self.meter);
        }
    }

    /// Checks that the client may read: where only members do, one of its authors is one.
    pub(super) fn check_reader(&self) -> Result<(), Rejection> {
        let Some(members) = &self.relay.settings.members else { return Ok(()) };
        members.check_reader(&self.relay.gate(), &self.relay.rules(), self.identity.pubkeys())
    }

    fn is_of_private_relay(&self) -> bool {
        self.relay.settings.members.as_ref().is_some_and(Members::is_private)
    }
}
