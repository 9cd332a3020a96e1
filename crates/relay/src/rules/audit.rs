//! The audit log: who has changed which rule, when and for which reason, and what retention has deleted.
//!
//! ```text
//! 8f3a0c11 {"number":7,"time":1700000000,"actor":"ctl","deed":{"rule":{"subject":{"type":"kind","value":"7"},..}}}
//! ```
//!
//! A line of the file is an entry: the CRC-32C of the rest, and an object of JSON. Entries are numbered from 1.
//!
//! Invariant: the entry is durable before its change is, so no change is without one. A crash in between leaves the
//! entry of a change that did not come about.
//!
//! A crash may cut the last line, which is removed when the file is opened. A damaged line before it, and an intact one
//! of another version, stay in the file and are left out of lists: their numbers are missing there. The oldest entries
//! make room for new ones ([`AUDIT_BYTES`]). Members that join and leave by themselves are not in it: they could
//! displace the operator's entries.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use birdhouse_events::Pubkey;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::door::invite_id;
use super::file::replace;
use super::{Change, Rule, Rules, RulesError, Subject, Text, log_file};
use crate::limits::AUDIT_BYTES;

/// Name of the file, beside that of the rules.
pub const AUDIT_FILE: &str = "audit";
/// Seconds of a day.
const DAY: u64 = 86_400;
/// Bytes that are kept when the oldest entries make room.
const KEPT_BYTES: usize = AUDIT_BYTES / 4 * 3;

/// Author of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Actor {
    /// An admin over HTTP (NIP-86).
    Admin(Pubkey),
    /// The operator by `birdhouse ctl`.
    Ctl,
    /// The operator by the dashboard.
    Dashboard,
    /// The end of a rule's time.
    Expiry,
    /// The rules of retention.
    Retention,
}

/// An action, with what it takes to undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Deed {
    /// Replaced the rule about a subject.
    Rule {
        /// The subject.
        subject: Subject,
        /// The earlier rule about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Rule>,
        /// The rule about it from then on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Rule>,
    },
    /// Replaced a text of the information document; `None` is that of the settings.
    Text {
        /// The text.
        which: Text,
        /// Its earlier value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<String>,
        /// Its value from then on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// Made the invite of an id ([`Invite::id`](super::Invite::id)): a code would let readers of the log in.
    Invited(String),
    /// Took back the invite of an id.
    Revoked(String),
    /// Changed the roles, in words.
    Role(String),
    /// Deleted events, counted by the rule of retention that did not keep them.
    Deleted(Vec<u64>),
}

/// An action of somebody.
#[derive(Debug, Clone)]
pub(super) struct Act {
    pub(super) actor: Actor,
    pub(super) deed: Deed,
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its number, from 1.
    pub number: u64,
    /// Seconds since 1970.
    pub time: u64,
    /// Author of the change.
    pub actor: Actor,
    /// The change.
    pub deed: Deed,
}

/// An entry, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    /// The entry.
    pub entry: Entry,
    /// Number of the next entry about the same subject, which ended the effect of this one.
    pub ended_by: Option<u64>,
    /// The rules are as the entry left them, so it can be undone.
    pub is_undoable: bool,
}

/// The file; without one the entries end with the process.
#[derive(Debug, Default)]
pub(super) struct AuditLog {
    path: Option<PathBuf>,
    /// All bytes, where there is no file.
    memory: Vec<u8>,
    /// Bytes of all lines.
    bytes: usize,
    /// Number of the newest entry.
    last: u64,
    /// The file has more than these bytes: the rest of an addition that failed.
    has_rest: bool,
}

/// The end of the log before an addition.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogEnd {
    bytes: usize,
    last: u64,
}

// === impl AuditLog ===

impl AuditLog {
    /// Opens the log in a file, and removes a line at its end that a crash has cut. A file that cannot be read is set
    /// aside: without its history the server can still be moderated.
    pub(super) fn open(path: PathBuf) -> Self {
        let bytes = log_file::read(&path).unwrap_or_else(|error| {
            log_file::set_aside(&path, &error);
            Vec::new()
        });
        let Intact { bytes: intact, damaged, unknown, last } = Intact::of(&bytes);
        if damaged + unknown > 0 {
            warn!(path = %path.display(), damaged, unknown, "left lines out of the audit log");
        }
        let mut log = Self { path: Some(path), bytes: intact, last, ..Self::default() };
        if intact < bytes.len() {
            warn!(bytes = bytes.len() - intact, "removing the damaged end of the audit log");
            log.cut();
        }
        log
    }

    /// Adds entries. When it returns, they are durable.
    pub(super) fn append(&mut self, acts: &[Act], time: u64) -> Result<LogEnd, RulesError> {
        self.catch_up().map_err(|error| self.failed("write", error))?;
        let mut added = Vec::new();
        for (number, Act { actor, deed }) in (self.last + 1..).zip(acts) {
            added.extend(Entry { number, time, actor: *actor, deed: deed.clone() }.to_line());
        }
        self.add(&added).map_err(|error| self.failed("write", error))?;
        let before = LogEnd { bytes: self.bytes, last: self.last };
        self.bytes += added.len();
        self.last += acts.len() as u64;
        Ok(before)
    }

    /// Adds what a sweep of retention has deleted: to the newest entry, if that is one of the same day. An entry for
    /// each sweep would drown those of the operator.
    pub(super) fn add_deletion(&mut self, by_rule: Vec<u64>, time: u64) -> Result<(), RulesError> {
        self.catch_up().map_err(|error| self.failed("write", error))?;
        let mut all = self.read()?;
        let start = all.strip_suffix(b"\n").and_then(|lines| lines.iter().rposition(|byte| *byte == b'\n'));
        let start = start.map_or(0, |end| end + 1);
        let newest = lines(&all[start..]).next().and_then(Entry::parse);
        let Some(merged) = newest.and_then(|entry| entry.with_deletion(&by_rule, time)) else {
            let act = Act { actor: Actor::Retention, deed: Deed::Deleted(by_rule) };
            return self.append(&[act], time).map(drop);
        };
        all.truncate(start);
        all.extend(merged.to_line());
        self.put(all).map_err(|error| self.failed("write", error))
    }

    /// Removes the entries that were added last: their change has failed.
    pub(super) fn take_back(&mut self, LogEnd { bytes, last }: LogEnd) {
        (self.bytes, self.last) = (bytes, last);
        self.cut();
    }

    /// Returns the bytes of all lines, of which [`entries`] are made.
    pub(super) fn read(&self) -> Result<Vec<u8>, RulesError> {
        self.all_bytes().map_err(|error| self.failed("read", error))
    }

    fn failed(&self, doing: &'static str, cause: io::Error) -> RulesError {
        let path = self.path.as_deref().unwrap_or(Path::new(AUDIT_FILE));
        RulesError::AuditLog { doing, path: path.display().to_string(), cause }
    }

    fn all_bytes(&self) -> io::Result<Vec<u8>> {
        let Some(path) = &self.path else { return Ok(self.memory.clone()) };
        let mut bytes = log_file::read(path)?;
        if self.has_rest {
            bytes.truncate(self.bytes);
        }
        Ok(bytes)
    }

    /// Reads the file again if it is no longer as this process left it: deleted, cut, or another one. Numbers go on.
    fn catch_up(&mut self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if self.has_rest {
            log_file::cut(path, self.bytes)?;
            self.has_rest = false;
        }
        if log_file::length(path)? != self.bytes as u64 {
            warn!(path = %path.display(), "something else has changed the audit log; reading it again");
            let last = self.last;
            *self = Self::open(path.clone());
            self.last = self.last.max(last);
        }
        if self.has_rest { Err(io::Error::other("its damaged end cannot be removed")) } else { Ok(()) }
    }

    fn add(&mut self, added: &[u8]) -> io::Result<()> {
        if added.is_empty() {
            return Ok(());
        }
        if self.bytes + added.len() > AUDIT_BYTES {
            self.make_room(added.len())?;
        }
        let Some(path) = &self.path else {
            self.memory.extend_from_slice(added);
            return Ok(());
        };
        log_file::extend(path, added).inspect_err(|_| self.cut())
    }

    /// Cuts what is behind the entries. Where that fails, the next addition does it first.
    fn cut(&mut self) {
        let cut = match &self.path {
            None => {
                self.memory.truncate(self.bytes);
                Ok(())
            }
            Some(path) => log_file::cut(path, self.bytes),
        };
        self.has_rest = cut.is_err();
        if let Err(error) = cut {
            warn!(%error, "the audit log has the rest of a change that failed");
        }
    }

    /// Drops the oldest entries, so that this many bytes have room.
    fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        let all = self.all_bytes()?;
        let excess = all.len().saturating_sub(KEPT_BYTES.saturating_sub(bytes));
        let end = all[excess..].iter().position(|byte| *byte == b'\n').map_or(all.len(), |at| excess + at + 1);
        self.put(all[end..].to_vec())
    }

    /// Replaces all bytes.
    fn put(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        if let Some(path) = &self.path {
            replace(path, &bytes)?;
        }
        self.bytes = bytes.len();
        if self.path.is_none() {
            self.memory = bytes;
        }
        Ok(())
    }
}

/// Returns all entries of a log, the oldest first.
pub(super) fn entries(bytes: &[u8]) -> Vec<Entry> {
    lines(bytes).filter_map(Entry::parse).collect()
}

/// Returns the lines that are whole, without their ends.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"))
}

/// The part of a file up to its last intact line.
#[derive(Default)]
struct Intact {
    bytes: usize,
    /// Damaged lines in it.
    damaged: usize,
    /// Entries in it that are of another version.
    unknown: usize,
    /// Largest number of an entry.
    last: u64,
}

/// The field that an entry of any version has.
#[derive(Deserialize)]
struct Numbered {
    number: u64,
}

impl Intact {
    fn of(file: &[u8]) -> Self {
        let (mut intact, mut at, mut damaged) = (Self::default(), 0, 0);
        for line in lines(file) {
            at += line.len() + 1;
            let Some(json) = checked(line) else {
                damaged += 1;
                continue;
            };
            let number = serde_json::from_str(json).map_or(0, |Numbered { number }| number);
            let unknown = intact.unknown + usize::from(Entry::parse(line).is_none());
            intact = Self { bytes: at, damaged, unknown, last: intact.last.max(number) };
        }
        intact
    }
}

/// Returns the JSON of a line; `None` if it is damaged.
fn checked(line: &[u8]) -> Option<&str> {
    let (sum, json) = str::from_utf8(line).ok()?.split_once(' ')?;
    (u32::from_str_radix(sum, 16) == Ok(crc32c::crc32c(json.as_bytes()))).then_some(json)
}

// === impl Entry ===

impl Entry {
    fn to_line(&self) -> Vec<u8> {
        let json = serde_json::to_string(self).expect("its fields are text and numbers");
        format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes())).into_bytes()
    }

    /// Returns it with further deletions by the same number of rules; `None` if it is no deletion, or of another day.
    fn with_deletion(mut self, by_rule: &[u64], time: u64) -> Option<Self> {
        let Deed::Deleted(sums) = &mut self.deed else { return None };
        if sums.len() != by_rule.len() || self.time / DAY != time / DAY {
            return None;
        }
        for (sum, events) in sums.iter_mut().zip(by_rule) {
            *sum += events;
        }
        Some(Self { time, ..self })
    }

    /// Parses a line; `None` if it is damaged, or of another version.
    fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_str(checked(line)?).ok()
    }
}

impl Audited {
    /// Returns the state of all entries, the newest first.
    pub(super) fn all(entries: Vec<Entry>, rules: &Rules, now: u64) -> Vec<Self> {
        let (mut later, invites) = (HashMap::new(), rules.door.ids());
        let is_undoable = |deed: &Deed| match deed {
            // Looking the invite up would hash the codes of all, for each entry.
            Deed::Invited(id) => invites.contains(id),
            deed => deed.inverse(rules, now).is_some(),
        };
        let mut of = |entry: Entry| {
            let ended_by = entry.deed.key().and_then(|key| later.insert(key, entry.number));
            let is_undoable = ended_by.is_none() && is_undoable(&entry.deed);
            Self { entry, ended_by, is_undoable }
        };
        entries.into_iter().rev().map(&mut of).collect()
    }
}

// === impl Deed ===

impl Deed {
    /// Returns what a change does to rules.
    pub(super) fn of(change: &Change, before: &Rules, after: &Rules) -> Self {
        let text = |rules: &Rules, which| rules.text(which).map(str::to_owned);
        match change {
            Change::Decide(subject, _) | Change::TakeBack(subject, _) => {
                let rule = |rules: &Rules| rules.of(*subject).cloned();
                Self::Rule { subject: *subject, before: rule(before), after: rule(after) }
            }
            Change::Describe(which, _) => {
                Self::Text { which: *which, before: text(before, *which), after: text(after, *which) }
            }
            Change::Invite(invite) => Self::Invited(invite.id()),
            Change::Revoke(code) => Self::Revoked(invite_id(code)),
            Change::Role(change) => Self::Role(change.to_string()),
        }
    }

    /// Returns what undoes it; `None` if the rules are no longer as it left them, or if nothing does.
    pub(super) fn inverse(&self, rules: &Rules, now: u64) -> Option<Self> {
        match self.clone() {
            Self::Rule { subject, before, after } => {
                let is_as_left = rules.of(subject) == after.as_ref();
                // A rule that would be over by now does not come back.
                let restored = before.filter(|rule| !rule.is_over(now));
                let undoes = is_as_left && restored != after;
                undoes.then_some(Self::Rule { subject, before: after, after: restored })
            }
            Self::Text { which, before, after } => {
                let is_as_left = rules.text(which) == after.as_deref();
                is_as_left.then_some(Self::Text { which, before: after, after: before })
            }
            Self::Invited(id) => rules.door.code_of(&id).is_some().then_some(Self::Revoked(id)),
            Self::Revoked(_) | Self::Role(_) | Self::Deleted(_) => None,
        }
    }

    /// Returns the subject of the rule that it has changed.
    pub(super) fn subject(&self) -> Option<Subject> {
        match self {
            Self::Rule { subject, .. } => Some(*subject),
            _ => None,
        }
    }

    /// Returns a key of what it is about; `None` if entries of its type do not end each other.
    fn key(&self) -> Option<String> {
        match self {
            Self::Rule { subject, .. } => Some(format!("{} {subject}", subject.noun())),
            Self::Text { which, .. } => Some(format!("text {which:?}")),
            Self::Invited(id) | Self::Revoked(id) => Some(format!("invite {id}")),
            Self::Role(_) | Self::Deleted(_) => None,
        }
    }
}

// === impl Actor ===

/// Formats the key of an admin, or a name.
impl std::fmt::Display for Actor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Admin(key) => key.fmt(out),
            Self::Ctl => out.write_str("ctl"),
            Self::Dashboard => out.write_str("dashboard"),
            Self::Expiry => out.write_str("expiry"),
            Self::Retention => out.write_str("retention"),
        }
    }
}

impl From<Actor> for String {
    fn from(actor: Actor) -> Self {
        actor.to_string()
    }
}

impl TryFrom<String> for Actor {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let names = [Self::Ctl, Self::Dashboard, Self::Expiry, Self::Retention];
        let named = names.into_iter().find(|name| name.to_string() == text);
        named.or_else(|| Pubkey::parse(&text).map(Self::Admin)).ok_or("it is neither a key nor a name")
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
#[path = "audit_tests.rs"]
mod tests;
