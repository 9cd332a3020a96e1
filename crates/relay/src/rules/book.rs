//! The rules of a running server, and the one place that changes them.
//!
//! Invariant: a change is durable before it applies, so a restart never forgets a rule that was in effect.
//!
//! Rules about clients concern the connections of all protocols ([`RuleBook::govern`]), the others the relay. A lock is
//! held from the reading of the rules until the changed ones apply: two changes never start from the same rules. The
//! entry of a change in the audit log is durable before the change is.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use birdhouse_events::Pubkey;
use birdhouse_net::{Connections, Meter};
use parking_lot::Mutex;

use super::audit::{AUDIT_FILE, Act, Actor, AuditLog, Audited, Deed, entries};
use super::present::Present;
use super::{Change, Invite, MemberRequest, Membership, Refusal, Rules, RulesError, Subject, file};
use crate::clock::now;
use crate::limits::ENDED_TOGETHER;

/// The current rules, and their file.
#[derive(Debug)]
pub struct RuleBook {
    current: ArcSwap<Rules>,
    /// `None`: they end with the process.
    path: Option<PathBuf>,
    /// Held by the one who changes the rules.
    writer: Mutex<Writer>,
    /// The connections that end when their author is no member any more.
    present: Present,
}

/// The connections and the log that a change of the rules reaches beside them.
#[derive(Debug, Default)]
struct Writer {
    /// The connections that the rules about clients concern.
    governed: Connections,
    log: AuditLog,
}

/// Rules that replace the current ones, and the entries about it.
struct Next {
    rules: Rules,
    acts: Vec<Act>,
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
        Self { current: ArcSwap::default(), path: None, writer: Mutex::default(), present: Present::default() }
    }

    /// Reads the rules of a file, and opens the audit log beside it. Without the files both are empty.
    ///
    /// # Errors
    /// The file of the rules cannot be read or is damaged. It stays as it is. An audit log that cannot be read is none:
    /// it is set aside.
    pub fn open(path: PathBuf) -> Result<Self, RulesError> {
        let rules = file::read(&path)?.unwrap_or_default();
        let log = AuditLog::open(path.with_file_name(AUDIT_FILE));
        let (current, writer) = (ArcSwap::from_pointee(rules), Writer { log, ..Writer::default() });
        Ok(Self { current, path: Some(path), writer: Mutex::new(writer), present: Present::default() })
    }

    /// Applies the rules about clients to connections, from now on.
    pub fn govern(&self, connections: &Connections) {
        let mut writer = self.writer.lock();
        writer.governed = connections.clone();
        writer.governed.ban(self.current());
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
    pub fn change(&self, change: &Change, actor: Actor) -> Result<Changed, RulesError> {
        self.update(|rules| {
            let Some(changed) = rules.with(change)? else { return Ok(None) };
            let deed = Deed::of(change, rules, &changed);
            Ok(Some(Next { rules: changed, acts: vec![Act { actor, deed }] }))
        })
    }

    /// Undoes the change of an entry of the audit log. Waits for the disk.
    ///
    /// # Errors
    /// There is no such entry, or it cannot be undone. The rules are as before.
    pub fn undo(&self, number: u64, actor: Actor) -> Result<Changed, RulesError> {
        let all = self.audit()?;
        let found = all.into_iter().find(|one| one.entry.number == number).ok_or(RulesError::NoEntry(number))?;
        if !found.is_undoable {
            return Err(RulesError::NotUndoable(number));
        }
        self.update(|rules| {
            let deed = found.entry.deed.inverse(rules, now().into()).ok_or(RulesError::NotUndoable(number))?;
            Ok(Some(Next { rules: rules.after(&deed)?, acts: vec![Act { actor, deed }] }))
        })
    }

    /// Returns the audit log, the newest entry first. Waits for the disk.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn audit(&self) -> Result<Vec<Audited>, RulesError> {
        // Who changes the rules does not wait until all is parsed.
        let bytes = self.writer.lock().log.read()?;
        Ok(Audited::all(entries(&bytes), &self.current(), now().into()))
    }

    /// Adds to the audit log what retention has deleted. Waits for the disk.
    pub(crate) fn enter_deletion(&self, events_by_rule: Vec<u64>) -> Result<(), RulesError> {
        self.writer.lock().log.add_deletion(events_by_rule, now().into())
    }

    /// Ends rules whose time is over, durably; returns the number of those that it has ended. There may be more. Waits
    /// for the disk.
    pub(super) fn end_due(&self, now: u64) -> Result<usize, RulesError> {
        let mut ended = 0;
        self.update(|rules| {
            let due = rules.due(now, ENDED_TOGETHER);
            ended = due.len();
            if due.is_empty() {
                return Ok(None);
            }
            let mut next = Next { rules: rules.clone(), acts: Vec::new() };
            for subject in due {
                let deed = Deed::Rule { subject, before: rules.of(subject).cloned(), after: None };
                next.rules.put(subject, None);
                next.acts.push(Act { actor: Actor::Expiry, deed });
            }
            Ok::<_, RulesError>(Some(next))
        })?;
        Ok(ended)
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
        self.update(|rules| Ok(join(rules)?.map(Next::unlogged))).map(Membership::of)
    }

    /// Ends the membership of the author of a request, durably. Its connections stay until
    /// [`Self::end_connections_of`]. Waits for the disk.
    pub(crate) fn leave(&self, request: &MemberRequest) -> Result<Membership, Refusal> {
        self.update(|rules| Ok(rules.left(request)?.map(Next::unlogged))).map(Membership::of)
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
        self.update(|rules| {
            if !may_invite(rules) {
                return Ok(None);
            }
            let earlier = rules.newest_of_many(inviter, fresh.since).cloned();
            let is_fresh = earlier.is_none();
            given = Some(earlier.unwrap_or_else(|| fresh.clone()));
            let changed = if is_fresh { rules.with(&Change::Invite(fresh))? } else { None };
            Ok::<_, RulesError>(changed.map(Next::unlogged))
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

    /// Replaces the rules by those that `next` makes of them, if any.
    fn update<E: From<RulesError>>(&self, next: impl FnOnce(&Rules) -> Result<Option<Next>, E>) -> Result<Changed, E> {
        let mut writer = self.writer.lock();
        let Some(Next { rules, acts }) = next(&self.current.load())? else {
            return Ok(Changed { is_changed: false, disconnected: 0 });
        };
        let before = writer.log.append(&acts, now().into())?;
        if let Some(path) = &self.path
            && let Err(error) = file::write(path, &rules)
        {
            writer.log.take_back(before);
            return Err(error.into());
        }
        let rules = Arc::new(rules);
        self.current.store(Arc::clone(&rules));
        let disconnected = self.disconnect(&writer.governed, &acts, &rules);
        Ok(Changed { is_changed: true, disconnected })
    }

    /// Ends the connections of clients that are banned now, and of authors that are no members any more; returns their
    /// number.
    fn disconnect(&self, governed: &Connections, acts: &[Act], rules: &Arc<Rules>) -> usize {
        let subjects = || acts.iter().filter_map(|act| act.deed.subject());
        let has_clients = subjects().any(|subject| matches!(subject, Subject::Client(_)));
        let banned = if has_clients { governed.ban(Arc::clone(rules) as _) } else { 0 };
        let authors = subjects().map(|subject| match subject {
            Subject::Author(author) if !rules.is_member(&author) => self.present.end(&author),
            _ => 0,
        });
        banned + authors.sum::<usize>()
    }
}

impl Next {
    /// Returns rules that a member has changed for itself.
    fn unlogged(rules: Rules) -> Self {
        Self { rules, acts: Vec::new() }
    }
}

// === impl Membership ===

impl Membership {
    fn of(changed: Changed) -> Self {
        if changed.is_changed { Self::Changed } else { Self::Unchanged }
    }
}
