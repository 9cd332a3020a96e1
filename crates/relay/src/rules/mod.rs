//! Rules that the operator makes while the server runs: authors, events, kinds and clients that are banned or allowed.
//! Those about clients concern the listeners of all protocols, and exist without a relay, too.
//!
//! The rules are one immutable value. A change makes another one, which replaces it as a whole (`rules/book.rs`), so a
//! look-up costs one hash and no lock. A rule is more specific than the lists of the settings and precedes them; of two
//! rules that concern an event, that of its id precedes that of its author, and this one that of its kind.
//!
//! The authors that a rule allows are the members of the relay, where it has some (`rules/members.rs`).
//!
//! A rule with an end is removed when its time is over (`rules/ending.rs`). Each change is in the audit log
//! (`rules/audit.rs`).
//!
//! Banned events are hidden by the query ([`Hide`]), not deleted: a page still has as many rows as its filter asks for,
//! and a ban can be taken back.

mod audit;
mod book;
mod door;
mod ending;
mod file;
mod log_file;
mod members;
mod present;
mod roles;

pub use self::audit::{AUDIT_FILE, Actor, Audited, Deed, Entry};
pub use self::book::{Changed, RuleBook};
pub use self::door::Invite;
pub use self::ending::Ending;
pub use self::file::replace as replace_file;
pub use self::members::Member;
pub(crate) use self::members::{MemberRequest, Membership, Refusal};
pub use self::roles::{Role, RoleChange, RoleError};

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use birdhouse_events::{Event, EventId, Hide, Kind, Pubkey};
use birdhouse_net::Bans;
use ipnet::IpNet;

use self::door::Door;
use self::roles::Roles;
use crate::limits::{BANNED_PREFIX_V4, BANNED_PREFIX_V6, INVITES_MAX, RULE_END_MAX, RULE_TEXT_BYTES, RULES_MAX};

/// Reason for clients whose events are of an author that is banned.
pub(crate) const UNWANTED_AUTHOR: &str = "events of this author are not wanted here";

/// Thing that a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(into = "SubjectText", try_from = "SubjectText")]
pub enum Subject {
    /// The events of an author.
    Author(Pubkey),
    /// An event.
    Event(EventId),
    /// The events of a kind.
    Kind(Kind),
    /// The clients of a network; of one address if it has all bits.
    Client(IpNet),
}

/// Decision of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Accepted, whatever the lists of the settings say.
    Allow,
    /// Refused, and in no answer.
    Ban,
    /// As without a rule, but that reports about it are no longer listed.
    Ignore,
}

/// A rule about a subject.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Rule {
    /// The decision.
    pub verdict: Verdict,
    /// The operator's reason, which no client sees.
    pub reason: String,
    /// Time of the decision, seconds since 1970.
    pub since: u64,
    /// Last second of its validity, since 1970; `None` if it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// A subject as text.
#[derive(serde::Serialize, serde::Deserialize)]
struct SubjectText {
    #[serde(rename = "type")]
    noun: String,
    value: String,
}

/// Text of the information document (NIP-11) that the operator changes while the relay runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Text {
    /// The relay's name.
    Name,
    /// Its description.
    Description,
    /// URL of its square picture.
    Icon,
}

/// Change of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Decides on a subject. Replaces an earlier rule about it.
    Decide(Subject, Rule),
    /// Takes back the rule about a subject if it has this verdict.
    TakeBack(Subject, Verdict),
    /// Replaces a text; an empty one is that of the settings again.
    Describe(Text, String),
    /// Adds an invite.
    Invite(Invite),
    /// Takes back the invite of a code.
    Revoke(String),
    /// Changes the roles of members.
    Role(RoleChange),
}

/// Failure of a change of the rules.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// There is no room for another rule.
    #[error("failed to add a rule: there are {RULES_MAX}; take some back, or use the lists of the settings")]
    TooMany,
    /// There is no room for another invite.
    #[error("failed to make an invite: there are {INVITES_MAX}; take some back, or wait until some are used or expire")]
    TooManyInvites,
    /// A network is too large to be banned.
    #[error(
        "failed to ban the network {0}: it is a large part of all clients; \
         use one with a prefix of at least /{BANNED_PREFIX_V4}, for IPv6 /{BANNED_PREFIX_V6}"
    )]
    TooWide(IpNet),
    /// The roles cannot be changed so.
    #[error("failed to change the roles: {0}")]
    Role(#[from] RoleError),
    /// A reason or a text is too long.
    #[error("failed to change the rules: a text has {0} bytes; use at most {RULE_TEXT_BYTES}")]
    TextTooLong(usize),
    /// The file cannot be read or written.
    #[error("failed to {doing} the rules in {path}: {cause}; {advice}")]
    File {
        /// Verb for the message.
        doing: &'static str,
        /// The file.
        path: String,
        /// The cause.
        cause: std::io::Error,
        /// Advice for the operator.
        advice: &'static str,
    },
    /// The audit log cannot be read or written.
    #[error("failed to {doing} the audit log {path}: {cause}; check its permissions, and the room on the disk")]
    AuditLog {
        /// Verb for the message.
        doing: &'static str,
        /// The file.
        path: String,
        /// The cause.
        cause: std::io::Error,
    },
    /// The audit log has no entry of this number.
    #[error("the audit log has no entry {0}; list them with `birdhouse ctl audit`")]
    NoEntry(u64),
    /// An entry of the audit log cannot be undone.
    #[error("entry {0} of the audit log cannot be undone: it has no opposite, or something changed the same since")]
    NotUndoable(u64),
    /// A text has a character that is neither printed nor the end of a line.
    #[error("failed to change the rules: a text has the control character {0:?}; remove it")]
    ControlCharacter(char),
    /// A rule would be over already.
    #[error("failed to make a rule: it would end in the past; give a later time")]
    Over,
    /// A rule would end too late.
    #[error(
        "failed to make a rule: it would end after the year 2106; give a time in seconds, at most {RULE_END_MAX} since \
         1970, or none"
    )]
    TooLate,
    /// A rule for a time would replace one without an end, and leave none behind it.
    #[error(
        "failed to make a rule for a time: the same is {}, and would not be again after it; take that back first, or \
         decide without an end", if *.0 == Verdict::Allow { "allowed" } else { "banned without an end" }
    )]
    HasNoEnd(Verdict),
    /// The file is damaged.
    #[error(
        "failed to read the rules in {path}: {cause}; restore the file from a backup, or move it away to start without \
         rules"
    )]
    Damaged {
        /// The file.
        path: String,
        /// The cause.
        cause: String,
    },
}

/// All rules.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    authors: HashMap<Pubkey, Rule>,
    events: HashMap<EventId, Rule>,
    kinds: HashMap<Kind, Rule>,
    clients: HashMap<IpNet, Rule>,
    /// Texts that replace those of the settings.
    name: Option<String>,
    description: Option<String>,
    icon: Option<String>,
    door: Door,
    roles: Roles,
}

// === impl Rules ===

impl Rules {
    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.authors.len() + self.events.len() + self.kinds.len() + self.clients.len()
    }

    /// Returns true without any rule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all rules: authors, events, kinds and clients, each in the order of their time.
    pub fn list(&self) -> Vec<(Subject, &Rule)> {
        let mut all: Vec<_> = self.each().collect();
        all.sort_by_cached_key(|(subject, rule)| (subject.noun(), rule.since, subject.to_string()));
        all
    }

    fn each(&self) -> impl Iterator<Item = (Subject, &Rule)> {
        let authors = self.authors.iter().map(|(key, rule)| (Subject::Author(*key), rule));
        let events = self.events.iter().map(|(id, rule)| (Subject::Event(*id), rule));
        let kinds = self.kinds.iter().map(|(kind, rule)| (Subject::Kind(*kind), rule));
        let clients = self.clients.iter().map(|(network, rule)| (Subject::Client(*network), rule));
        authors.chain(events).chain(kinds).chain(clients)
    }

    /// Returns the rule about a subject.
    pub fn of(&self, subject: Subject) -> Option<&Rule> {
        match subject {
            Subject::Author(key) => self.authors.get(&key),
            Subject::Event(id) => self.events.get(&id),
            Subject::Kind(kind) => self.kinds.get(&kind),
            Subject::Client(network) => self.clients.get(&network),
        }
    }

    /// Returns the text that replaces one of the settings.
    pub fn text(&self, which: Text) -> Option<&str> {
        match which {
            Text::Name => self.name.as_deref(),
            Text::Description => self.description.as_deref(),
            Text::Icon => self.icon.as_deref(),
        }
    }

    /// Returns the verdict of the more specific rule about an event, of its id or its author, and the reason for
    /// clients.
    pub(crate) fn on_event(&self, event: &Event) -> Option<(Verdict, &'static str)> {
        let on_id = verdict(&self.events, &event.id).map(|verdict| (verdict, "this event is not wanted here"));
        on_id.or_else(|| verdict(&self.authors, &event.pubkey).map(|verdict| (verdict, UNWANTED_AUTHOR)))
    }

    /// Returns true if a rule allows an event by its id.
    pub(crate) fn is_allowed_by_id(&self, event: &Event) -> bool {
        verdict(&self.events, &event.id) == Some(Verdict::Allow)
    }

    /// Returns the verdict on a kind.
    pub(crate) fn on_kind(&self, kind: Kind) -> Option<Verdict> {
        verdict(&self.kinds, &kind)
    }

    /// Returns the verdict on a client, of the smallest network that contains it.
    pub(crate) fn on_client(&self, address: IpAddr) -> Option<Verdict> {
        if self.clients.is_empty() {
            return None;
        }
        let one = IpNet::from(address.to_canonical());
        let containing = std::iter::successors(Some(one), IpNet::supernet);
        containing.into_iter().find_map(|network| verdict(&self.clients, &network))
    }

    /// Returns the view that hides banned events; `None` if none can be hidden.
    pub(crate) fn hiding(&self) -> Option<&dyn Hide> {
        (!self.authors.is_empty() || !self.events.is_empty()).then_some(self)
    }

    /// Returns the rules after a change; `None` if it changes nothing.
    fn with(&self, change: &Change) -> Result<Option<Self>, RulesError> {
        let mut changed = self.clone();
        match change {
            Change::Decide(subject, rule) => {
                check_text(&rule.reason)?;
                check_network(*subject, rule.verdict)?;
                check_end(rule, self.of(*subject))?;
                let is_same =
                    |old: &Rule| (old.verdict, &old.reason, old.until) == (rule.verdict, &rule.reason, rule.until);
                // Ignoring decides nothing: it takes the place of no rule that does.
                let decides = |old: &Rule| rule.verdict == Verdict::Ignore && old.verdict != Verdict::Ignore;
                if self.of(*subject).is_some_and(|old| is_same(old) || decides(old)) {
                    return Ok(None);
                }
                changed.put(*subject, Some(rule.clone()));
                changed.check_number()?;
            }
            Change::TakeBack(subject, verdict) => {
                if self.of(*subject).is_none_or(|rule| rule.verdict != *verdict) {
                    return Ok(None);
                }
                changed.put(*subject, None);
            }
            Change::Describe(which, text) => {
                check_text(text)?;
                let text = Some(text.clone()).filter(|text| !text.is_empty());
                if self.text(*which) == text.as_deref() {
                    return Ok(None);
                }
                *changed.text_mut(*which) = text;
            }
            Change::Invite(invite) => changed.invite(invite)?,
            Change::Role(change) => {
                if !changed.roles.change(change, |author| self.is_member(author))? {
                    return Ok(None);
                }
            }
            Change::Revoke(code) => {
                if changed.door.invites.remove(code).is_none() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(changed))
    }

    /// Returns the rules after an action that undoes another one.
    fn after(&self, deed: &Deed) -> Result<Self, RulesError> {
        let mut changed = self.clone();
        match deed {
            Deed::Rule { subject, after, .. } => changed.put(*subject, after.clone()),
            Deed::Text { which, after, .. } => changed.text_mut(*which).clone_from(after),
            Deed::Revoked(id) => {
                if let Some(code) = self.door.code_of(id) {
                    changed.door.invites.remove(&code);
                }
            }
            Deed::Invited(_) | Deed::Role(_) | Deed::Deleted(_) => unreachable!("they undo nothing"),
        }
        changed.check_number()?;
        Ok(changed)
    }

    /// Returns the earliest end of a rule.
    fn earliest_end(&self) -> Option<u64> {
        self.each().filter_map(|(_, rule)| rule.until).min()
    }

    /// Returns subjects of rules whose time is over, at most this many.
    fn due(&self, now: u64, most: usize) -> Vec<Subject> {
        self.each().filter(|(_, rule)| rule.is_over(now)).map(|(subject, _)| subject).take(most).collect()
    }

    fn check_number(&self) -> Result<(), RulesError> {
        if self.len() > RULES_MAX { Err(RulesError::TooMany) } else { Ok(()) }
    }

    /// Replaces the rule about a subject. An author that is no member any more loses its invites and roles.
    fn put(&mut self, subject: Subject, rule: Option<Rule>) {
        match rule {
            Some(rule) => drop(self.insert(subject, rule)),
            None => self.remove(subject),
        }
        if let Subject::Author(author) = subject
            && !self.is_member(&author)
        {
            self.revoke_of(&author);
            self.roles.of_members.remove(&author);
        }
    }

    fn insert(&mut self, subject: Subject, rule: Rule) -> Option<Rule> {
        match subject {
            Subject::Author(key) => self.authors.insert(key, rule),
            Subject::Event(id) => self.events.insert(id, rule),
            Subject::Kind(kind) => self.kinds.insert(kind, rule),
            Subject::Client(network) => self.clients.insert(network, rule),
        }
    }

    fn remove(&mut self, subject: Subject) {
        match subject {
            Subject::Author(key) => drop(self.authors.remove(&key)),
            Subject::Event(id) => drop(self.events.remove(&id)),
            Subject::Kind(kind) => drop(self.kinds.remove(&kind)),
            Subject::Client(network) => drop(self.clients.remove(&network)),
        }
    }

    fn text_mut(&mut self, which: Text) -> &mut Option<String> {
        match which {
            Text::Name => &mut self.name,
            Text::Description => &mut self.description,
            Text::Icon => &mut self.icon,
        }
    }
}

// === impl Rule ===

impl Rule {
    /// Returns true once its time is over.
    fn is_over(&self, now: u64) -> bool {
        self.until.is_some_and(|until| until < now)
    }
}

impl Bans for Rules {
    fn is_banned(&self, address: IpAddr) -> bool {
        self.on_client(address) == Some(Verdict::Ban)
    }
}

impl Hide for Rules {
    fn hides(&self, id: &EventId, author: &Pubkey) -> bool {
        let verdict = verdict(&self.events, id).or_else(|| verdict(&self.authors, author));
        verdict == Some(Verdict::Ban)
    }
}

/// Returns the verdict of a rule that decides on events or clients.
fn verdict<K: Eq + Hash>(rules: &HashMap<K, Rule>, key: &K) -> Option<Verdict> {
    rules.get(key).map(|rule| rule.verdict).filter(|verdict| *verdict != Verdict::Ignore)
}

/// Refuses to ban networks that are large parts of all clients.
fn check_network(subject: Subject, verdict: Verdict) -> Result<(), RulesError> {
    let least = |network: &IpNet| if network.addr().is_ipv4() { BANNED_PREFIX_V4 } else { BANNED_PREFIX_V6 };
    match subject {
        Subject::Client(network) if verdict == Verdict::Ban && u32::from(network.prefix_len()) < least(&network) => {
            Err(RulesError::TooWide(network))
        }
        _ => Ok(()),
    }
}

fn check_text(text: &str) -> Result<(), RulesError> {
    if text.len() > RULE_TEXT_BYTES {
        return Err(RulesError::TextTooLong(text.len()));
    }
    // Descriptions have lines and paragraphs.
    let control = text.chars().find(|one| one.is_control() && !matches!(one, '\n' | '\r' | '\t'));
    control.map_or(Ok(()), |control| Err(RulesError::ControlCharacter(control)))
}

/// Refuses an end that is past or too late, and one of a rule that would replace `earlier`, which has none.
fn check_end(rule: &Rule, earlier: Option<&Rule>) -> Result<(), RulesError> {
    let Some(until) = rule.until else { return Ok(()) };
    if rule.is_over(rule.since) {
        return Err(RulesError::Over);
    }
    if until > RULE_END_MAX {
        return Err(RulesError::TooLate);
    }
    match earlier {
        Some(Rule { verdict: verdict @ (Verdict::Allow | Verdict::Ban), until: None, .. }) => {
            Err(RulesError::HasNoEnd(*verdict))
        }
        _ => Ok(()),
    }
}

// === impl Subject ===

impl Subject {
    /// Returns the noun for the type of subject.
    pub fn noun(&self) -> &'static str {
        match self {
            Self::Author(_) => "author",
            Self::Event(_) => "event",
            Self::Kind(_) => "kind",
            Self::Client(_) => "client",
        }
    }

    /// Returns the clients of a network, whose address may have bits beyond its prefix.
    pub fn clients(network: IpNet) -> Self {
        Self::Client(network.trunc())
    }

    /// Returns the client of an address.
    pub fn client(address: IpAddr) -> Self {
        Self::Client(address.to_canonical().into())
    }
}

impl From<Subject> for SubjectText {
    fn from(subject: Subject) -> Self {
        Self { noun: subject.noun().to_owned(), value: subject.to_string() }
    }
}

impl TryFrom<SubjectText> for Subject {
    type Error = &'static str;

    fn try_from(SubjectText { noun, value }: SubjectText) -> Result<Self, Self::Error> {
        let client = || value.parse().map(Self::client).or_else(|_| value.parse().map(Self::clients));
        let subject = match noun.as_str() {
            "author" => Pubkey::parse(&value).map(Self::Author),
            "event" => EventId::parse(&value).map(Self::Event),
            "kind" => value.parse().ok().map(|kind| Self::Kind(Kind(kind))),
            "client" => client().ok(),
            _ => None,
        };
        subject.ok_or("it names no subject")
    }
}

/// Formats hexadecimal, the number of a kind, or an address with its prefix if it is a network.
impl std::fmt::Display for Subject {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Author(key) => key.fmt(out),
            Self::Event(id) => id.fmt(out),
            Self::Kind(kind) => kind.0.fmt(out),
            Self::Client(network) if network.prefix_len() == network.max_prefix_len() => network.addr().fmt(out),
            Self::Client(network) => network.fmt(out),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
#[path = "tests.rs"]
mod tests;
