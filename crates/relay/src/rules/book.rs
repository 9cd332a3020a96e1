//! The rules of a running server, and the one place that changes them.
//!
//! Invariant: a change is durable before it applies, so a restart never forgets a rule that was in effect.
//!
//! Rules about clients concern the connections of all protocols ([`RuleBook::govern`]), the others the relay. A lock is
//! held from the reading of the rules until the changed ones apply: two changes never start from the same rules.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use birdhouse_events::Pubkey;
use birdhouse_net::{Connections, Meter};
use parking_lot::Mutex;

use super::present::Present;
use super::{Change, Invite, MemberRequest, Membership, Refusal, Rules, RulesError, Subject, file};

/// The current rules, and their file.
#[derive(Debug)]
pub struct RuleBook {
    current: ArcSwap<Rules>,
    /// `None`: they end with the process.
    path: Option<PathBuf>,
    /// The connections that the rules about clients concern; held by the writer.
    governed: Mutex<Connections>,
    /// The connections that end when their author is no member any more.
    present: Present,
}

/// Effect of a change of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// False if the rules were so already.
    pub is_changed: bool,
    /// Connections of banned clients, or of authors that may no longer read, that are being ended.
    pub disconnected: usize,
}

// === impl RuleBook ===

impl RuleBook {
    /// Returns a book without rules that no file keeps.
    pub fn in_memory() -> Self {
        Self { current: ArcSwap::default(), path: None, governed: Mutex::default(), present: Present::default() }
    }

    /// Reads the rules of a file. Without the file there are none.
    ///
    /// # Errors
    /// The file cannot be read or is damaged. It stays as it is.
    pub fn open(path: PathBuf) -> Result<Self, RulesError> {
        let rules = file::read(&path)?.unwrap_or_default();
        let current = ArcSwap::from_pointee(rules);
        Ok(Self { current, path: Some(path), governed: Mutex::default(), present: Present::default() })
    }

    /// Applies the rules about clients to connections, from now on.
    pub fn govern(&self, connections: &Connections) {
        let mut governed = self.governed.lock();
        *governed = connections.clone();
        governed.ban(self.current());
    }

    /// Returns the current rules.
    pub fn current(&self) -> Arc<Rules> {
        self.current.load_full()
    }

    /// Changes the rules once the change is durable, and ends the connections of clients that are banned now, and of
    /// authors that are no members any more. Waits for the disk.
    ///
    /// # Errors
    /// The rules are as before.
    pub fn change(&self, change: &Change) -> Result<Changed, RulesError> {
        self.update(change.subject(), |rules| rules.with(change))
    }

    /// Makes the author of a request a member by the invite of a code, whose inviter `may_invite` still, durably. Waits
    /// for the disk.
    pub(crate) fn join(
        &self,
        request: &MemberRequest,
        code: &str,
        may_invite: impl Fn(&Pubkey, &Rules) -> bool,
    ) -> Result<Membership, Refusal> {
        let join = |rules: &Rules| rules.joined(request, code, |inviter| may_invite(inviter, rules));
        self.update(None, join).map(Membership::of)
    }

    /// Ends the membership of the author of a request, durably. Its connections stay until
    /// [`Self::end_connections_of`]. Waits for the disk.
    pub(crate) fn leave(&self, request: &MemberRequest) -> Result<Membership, Refusal> {
        self.update(None, |rules| rules.left(request)).map(Membership::of)
    }

    /// Adds an invite of a member, or returns its newest one if it has as many as it may have; `None` if `may_invite`
    /// returns false. Waits for the disk.
    pub(crate) fn invite_of_member(
        &self,
        inviter: Pubkey,
        fresh: Invite,
        may_invite: impl Fn(&Rules) -> bool,
    ) -> Result<Option<Invite>, RulesError> {
        let mut given = None;
        self.update(None, |rules| {
            if !may_invite(rules) {
                return Ok(None);
            }
            let earlier = rules.newest_of_many(inviter, fresh.since).cloned();
            let is_fresh = earlier.is_none();
            given = Some(earlier.unwrap_or_else(|| fresh.clone()));
            if is_fresh { rules.with(&Change::Invite(fresh)) } else { Ok(None) }
        })?;
        Ok(given)
    }

    /// Lets a connection end when an author that it has authenticated as is no member any more.
    pub(crate) fn enter(&self, author: Pubkey, connection: &Arc<Meter>) {
        self.present.enter(author, connection);
    }

    /// Forgets a connection that ends.
    pub(crate) fn forget(&self, authors: &[Pubkey], connection: &Arc<Meter>) {
        self.present.leave(authors, connection);
    }

    /// Ends the connections of an author.
    pub(crate) fn end_connections_of(&self, author: &Pubkey) {
        self.present.end(author);
    }

    /// Ends the connections of an author but this one, which still has an answer to send.
    pub(crate) fn end_other_connections_of(&self, author: &Pubkey, kept: &Arc<Meter>) {
        self.present.end_others(author, kept);
    }

    /// Ends the connections that have authenticated only as authors without access.
    pub(crate) fn end_connections_unless(&self, has_access: &dyn Fn(&Pubkey) -> bool) {
        self.present.end_unless(has_access);
    }

    /// Replaces the rules by those that `next` makes of them, if any. The subject is what they decide on otherwise.
    fn update<E: From<RulesError>>(
        &self,
        subject: Option<Subject>,
        next: impl FnOnce(&Rules) -> Result<Option<Rules>, E>,
    ) -> Result<Changed, E> {
        let governed = self.governed.lock();
        let Some(changed) = next(&self.current.load())? else {
            return Ok(Changed { is_changed: false, disconnected: 0 });
        };
        if let Some(path) = &self.path {
            file::write(path, &changed)?;
        }
        let changed = Arc::new(changed);
        self.current.store(Arc::clone(&changed));
        let disconnected = match subject {
            Some(Subject::Client(_)) => governed.ban(changed),
            Some(Subject::Author(author)) if !changed.is_member(&author) => self.present.end(&author),
            _ => 0,
        };
        Ok(Changed { is_changed: true, disconnected })
    }
}

// === impl Membership ===

impl Membership {
    fn of(changed: Changed) -> Self {
        if changed.is_changed { Self::Changed } else { Self::Unchanged }
    }
}
