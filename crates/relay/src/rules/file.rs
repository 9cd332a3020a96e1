//! The file of the rules: a line that names the format and the CRC-32C of the rest, then one object of JSON.
//!
//! ```text
//! birdhouse-rules 1 8f3a0c11
//! {"name":null,..,"rules":[{"author":"<hex>","verdict":"ban","reason":"spam","since":1700000000}]}
//! ```
//!
//! Roles, invites, and requests of members that were used, follow the rules where there are some: `"roles":[..]`,
//! `"invites":[..]` and `"requests":[..]`. A member that has roles has their ids in its rule.
//!
//! It is replaced as a whole: a temporary file is written and synced, renamed, and the folder is synced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use birdhouse_events::{EventId, Kind, Pubkey};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::door::Door;
use super::roles::Roles;
use super::{Invite, Role, Rule, Rules, RulesError, Subject, Text, Verdict};
use crate::limits::{INVITES_MAX, MEMBER_REQUESTS_USED, RULE_TEXT_BYTES, RULES_MAX};

/// First word of the file, and the version of its format.
const FORMAT: &str = "birdhouse-rules 1";
/// Mode of a file that only its owner may read.
pub(super) const OWNER_ONLY: u32 = 0o600;
/// Bytes that a file may have: escaped in JSON, a byte of a reason takes up to six.
const FILE_BYTES_MAX: u64 =
    (RULES_MAX as u64 + 3) * (6 * RULE_TEXT_BYTES as u64 + 256) + (INVITES_MAX + MEMBER_REQUESTS_USED) as u64 * 256;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    name: Option<String>,
    description: Option<String>,
    icon: Option<String>,
    rules: Vec<Line>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    roles: Vec<Role>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    invites: Vec<InviteLine>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    requests: Vec<RequestLine>,
}

/// A rule; exactly one subject is there.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<IpNet>,
    verdict: Verdict,
    reason: String,
    since: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
    /// Those of a member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    roles: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InviteLine {
    code: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    inviter: Option<String>,
    uses: u32,
    since: u64,
    until: u64,
}

/// A request of a member that was used.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestLine {
    id: String,
    until: u64,
}

/// Reads the rules; `None` without a file.
pub(super) fn read(path: &Path) -> Result<Option<Rules>, RulesError> {
    let unreadable = |cause| file_error("read", path, cause, "check the permissions of the file and its folder");
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    decode(&bytes).map(Some).map_err(|cause| RulesError::Damaged { path: path.display().to_string(), cause })
}

/// Replaces the file. When it returns, the rules are durable.
pub(super) fn write(path: &Path, rules: &Rules) -> Result<(), RulesError> {
    let failed = |cause| file_error("write", path, cause, "make room on the disk; the earlier rules apply");
    put(path, &encode(rules)).map_err(failed)?;
    // The file has the new rules: taking them back now would leave others in it than those that apply.
    if let Err(error) = sync_folder(path) {
        warn!(%error, "the rules have changed; a power cut now could bring the earlier ones back");
    }
    Ok(())
}

fn file_error(doing: &'static str, path: &Path, cause: io::Error, advice: &'static str) -> RulesError {
    RulesError::File { doing, path: path.display().to_string(), cause, advice }
}

/// Replaces a file in the folder of the relay, which only its owner may read. When it returns, the bytes are durable.
///
/// # Errors
/// The disk's failure. The file is as before, unless only its folder cannot be synced.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes)?;
    sync_folder(path)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path.parent().expect("the file is in the folder of the relay"))?.sync_all()
}

/// Replaces a file, without syncing its folder.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    // One that a crash left may have another mode.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

fn encode(rules: &Rules) -> Vec<u8> {
    let text = |which| rules.text(which).map(str::to_owned);
    let lines = rules.list().into_iter().map(|(subject, rule)| Line::of(rules, subject, rule)).collect();
    let (name, description, icon) = (text(Text::Name), text(Text::Description), text(Text::Icon));
    let invites = rules.invites().into_iter().map(InviteLine::of).collect();
    let request = |(id, until): (&EventId, &u64)| RequestLine { id: id.to_string(), until: *until };
    let mut requests: Vec<_> = rules.door.requests.iter().map(request).collect();
    requests.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    let roles = rules.roles().cloned().collect();
    let body = Body { name, description, icon, rules: lines, roles, invites, requests };
    let mut body = serde_json::to_vec(&body).expect("its fields are text and numbers");
    body.push(b'\n');
    let mut bytes = format!("{FORMAT} {:08x}\n", crc32c::crc32c(&body)).into_bytes();
    bytes.extend_from_slice(&body);
    bytes
}

fn decode(bytes: &[u8]) -> Result<Rules, String> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("its first line is not complete")?;
    let (head, body) = (&bytes[..end], &bytes[end + 1..]);
    let sum = str::from_utf8(head).ok().and_then(|head| head.strip_prefix(FORMAT)).map(str::trim_start);
    let sum = sum.and_then(|sum| u32::from_str_radix(sum, 16).ok());
    let sum = sum.ok_or_else(|| format!("it does not begin with {FORMAT:?} and a checksum"))?;
    if sum != crc32c::crc32c(body) {
        return Err("its checksum does not match".to_owned());
    }
    let Body { name, description, icon, rules: lines, roles, invites, requests } =
        serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let door = door(invites, requests).ok_or("an invite or a request cannot be read, or is there twice")?;
    let mut rules = Rules { name, description, icon, door, ..Rules::default() };
    for role in roles {
        if role.check().is_err() || rules.roles.all.insert(role.id.clone(), role).is_some() {
            return Err("a role cannot be read, or is there twice".to_owned());
        }
    }
    for mut line in lines {
        let roles = std::mem::take(&mut line.roles);
        let (subject, rule) = line.parse().ok_or("a rule names no subject, or several")?;
        if !roles.is_empty() {
            give(&mut rules.roles, subject, &rule, roles).ok_or("a role is not of a member, or there is none of it")?;
        }
        if rules.insert(subject, rule).is_some() {
            return Err(format!("two rules are about the {} {subject}", subject.noun()));
        }
    }
    Ok(rules)
}

/// Returns the invites and requests of a file; `None` if one is wrong, or is there twice.
fn door(invites: Vec<InviteLine>, requests: Vec<RequestLine>) -> Option<Door> {
    let mut door = Door::default();
    for line in invites {
        let invite = line.parse()?;
        if door.invites.insert(invite.code.clone(), invite).is_some() {
            return None;
        }
    }
    for RequestLine { id, until } in requests {
        if door.requests.insert(EventId::parse(&id)?, until).is_some() {
            return None;
        }
    }
    Some(door)
}

/// Gives roles to a member; `None` if it is none, or a role is not there.
fn give(roles: &mut Roles, subject: Subject, rule: &Rule, ids: Vec<String>) -> Option<()> {
    let Subject::Author(member) = subject else { return None };
    let is_right = rule.verdict == Verdict::Allow && ids.iter().all(|id| roles.all.contains_key(id));
    is_right.then(|| drop(roles.of_members.insert(member, ids.into_iter().collect())))
}

impl InviteLine {
    fn of(invite: &Invite) -> Self {
        let Invite { code, inviter, uses, since, until } = invite.clone();
        Self { code, inviter: inviter.map(|inviter| inviter.to_string()), uses, since, until }
    }

    fn parse(self) -> Option<Invite> {
        let Self { code, inviter, uses, since, until } = self;
        let inviter = match inviter {
            Some(inviter) => Some(Pubkey::parse(&inviter)?),
            None => None,
        };
        (uses > 0).then_some(Invite { code, inviter, uses, since, until })
    }
}

impl Line {
    fn of(rules: &Rules, subject: Subject, Rule { verdict, reason, since, until }: &Rule) -> Self {
        let (verdict, reason, since, until) = (*verdict, reason.clone(), *since, *until);
        let roles = Vec::new();
        let line = Self { author: None, event: None, kind: None, client: None, verdict, reason, since, until, roles };
        match subject {
            Subject::Author(key) => {
                let roles = rules.roles_of(&key).map(str::to_owned).collect();
                Self { author: Some(key.to_string()), roles, ..line }
            }
            Subject::Event(id) => Self { event: Some(id.to_string()), ..line },
            Subject::Kind(kind) => Self { kind: Some(kind.0), ..line },
            Subject::Client(network) => Self { client: Some(network), ..line },
        }
    }

    fn parse(self) -> Option<(Subject, Rule)> {
        let subject = match (self.author, self.event, self.kind, self.client) {
            (Some(key), None, None, None) => Subject::Author(Pubkey::parse(&key)?),
            (None, Some(id), None, None) => Subject::Event(EventId::parse(&id)?),
            (None, None, Some(kind), None) => Subject::Kind(Kind(kind)),
            (None, None, None, Some(network)) => Subject::clients(network),
            _ => return None,
        };
        Some((subject, Rule { verdict: self.verdict, reason: self.reason, since: self.since, until: self.until }))
    }
}
