//! Roles of members (NIP-43, NIP-86): names for some of them, which decide on nothing.
//!
//! Invariant: only members have roles, and only roles that there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use birdhouse_events::Pubkey;

use crate::limits::{ROLE_ID_BYTES, ROLE_TEXT_BYTES, ROLES_MAX, ROLES_OF_MEMBER};

/// A role.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Name for programs.
    pub id: String,
    /// Name for readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Description for readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Hue, 0 to 360.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<u16>,
    /// Rank in a client's list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<i32>,
}

/// Change of the roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleChange {
    /// Adds a role.
    Create(Role),
    /// Replaces a role of the same id.
    Edit(Role),
    /// Removes a role, also from those who have it.
    Delete(String),
    /// Gives a role to a member.
    Assign(Pubkey, String),
    /// Takes a role from a member.
    Unassign(Pubkey, String),
}

impl std::fmt::Display for RoleChange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Create(role) => write!(out, "made the role {}", role.id),
            Self::Edit(role) => write!(out, "changed the role {}", role.id),
            Self::Delete(id) => write!(out, "deleted the role {id}"),
            Self::Assign(member, id) => write!(out, "gave the role {id} to {member}"),
            Self::Unassign(member, id) => write!(out, "took the role {id} from {member}"),
        }
    }
}

/// Failure of a change of the roles.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// There is a role of this id.
    #[error("there is a role of this id; editrole changes it")]
    Exists,
    /// There is no role of this id.
    #[error("there is no role of this id; createrole makes one")]
    Unknown,
    /// An id or a text is too long, or an id is empty.
    #[error("a role has an id of 1 to {ROLE_ID_BYTES} bytes, and texts of at most {ROLE_TEXT_BYTES} bytes")]
    Length,
    /// A hue is beyond 360.
    #[error("a color is a hue from 0 to 360")]
    Color,
    /// There is no room for another role.
    #[error("there are {ROLES_MAX} roles; delete some")]
    TooMany,
    /// There is no room for another role of a member.
    #[error("a member has at most {ROLES_OF_MEMBER} roles")]
    TooManyOfMember,
    /// The author is no member.
    #[error("only members have roles; allowpubkey makes the author one")]
    NoMember,
}

/// Roles, and those who have them.
#[derive(Debug, Clone, Default)]
pub(super) struct Roles {
    pub(super) all: BTreeMap<String, Role>,
    /// None of the sets is empty.
    pub(super) of_members: HashMap<Pubkey, BTreeSet<String>>,
}

impl Roles {
    /// Changes the roles; returns false if they were so already.
    pub(super) fn change(
        &mut self,
        change: &RoleChange,
        is_member: impl Fn(&Pubkey) -> bool,
    ) -> Result<bool, RoleError> {
        let roles = self;
        Ok(match change {
            RoleChange::Create(role) => {
                role.check()?;
                if roles.all.contains_key(&role.id) {
                    return Err(RoleError::Exists);
                }
                if roles.all.len() >= ROLES_MAX {
                    return Err(RoleError::TooMany);
                }
                roles.all.insert(role.id.clone(), role.clone()).is_none()
            }
            RoleChange::Edit(role) => {
                role.check()?;
                let old = roles.all.get_mut(&role.id).ok_or(RoleError::Unknown)?;
                std::mem::replace(old, role.clone()) != *role
            }
            RoleChange::Delete(id) => {
                roles.of_members.retain(|_, ids| {
                    ids.remove(id);
                    !ids.is_empty()
                });
                roles.all.remove(id).is_some()
            }
            RoleChange::Assign(member, _) if !is_member(member) => return Err(RoleError::NoMember),
            RoleChange::Assign(member, id) => return roles.assign(*member, id),
            RoleChange::Unassign(member, id) => {
                let Some(ids) = roles.of_members.get_mut(member) else { return Ok(false) };
                let is_changed = ids.remove(id);
                if ids.is_empty() {
                    roles.of_members.remove(member);
                }
                is_changed
            }
        })
    }

    fn assign(&mut self, member: Pubkey, id: &str) -> Result<bool, RoleError> {
        if !self.all.contains_key(id) {
            return Err(RoleError::Unknown);
        }
        let ids = self.of_members.entry(member).or_default();
        let is_changed = ids.insert(id.to_owned());
        if ids.len() > ROLES_OF_MEMBER { Err(RoleError::TooManyOfMember) } else { Ok(is_changed) }
    }
}

impl Role {
    pub(super) fn check(&self) -> Result<(), RoleError> {
        let texts = [&self.label, &self.description].into_iter().flatten();
        if self.id.is_empty()
            || self.id.len() > ROLE_ID_BYTES
            || texts.map(String::len).any(|len| len > ROLE_TEXT_BYTES)
        {
            return Err(RoleError::Length);
        }
        if self.color.is_some_and(|hue| hue > 360) { Err(RoleError::Color) } else { Ok(()) }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_events::Keys;

    use super::*;
    use crate::rules::{Actor, Change, Rule, RuleBook, Subject, Verdict};

    fn author(number: u8) -> Pubkey {
        Keys::from_secret([number; 32]).unwrap().pubkey()
    }

    fn role(id: &str) -> Role {
        Role { id: id.to_owned(), label: Some("king".to_owned()), ..Role::default() }
    }

    fn decide(book: &RuleBook, of: u8, verdict: Verdict) {
        let rule = Rule { verdict, reason: String::new(), since: 7, until: None };
        book.change(&Change::Decide(Subject::Author(author(of)), rule), Actor::Ctl).unwrap();
    }

    /// Returns the effect of a change: whether there is one, or why it fails.
    fn change(book: &RuleBook, change: RoleChange) -> Result<bool, String> {
        book.change(&Change::Role(change), Actor::Ctl).map(|done| done.is_changed).map_err(|error| error.to_string())
    }

    fn roles_of(book: &RuleBook, of: u8) -> Vec<String> {
        book.current().roles_of(&author(of)).map(str::to_owned).collect()
    }

    #[test]
    fn roles_are_made_given_and_taken_and_end_with_the_membership() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules");
        let book = RuleBook::open(path.clone()).unwrap();
        let (king, queen) = ("king".to_owned(), "queen".to_owned());
        decide(&book, 1, Verdict::Allow);
        assert!(change(&book, RoleChange::Assign(author(1), king.clone())).unwrap_err().contains("no role"));
        assert_eq!(change(&book, RoleChange::Create(role("king"))), Ok(true));
        assert!(change(&book, RoleChange::Create(role("king"))).unwrap_err().contains("editrole"));
        assert_eq!(change(&book, RoleChange::Create(role("queen"))), Ok(true));
        assert!(change(&book, RoleChange::Assign(author(2), king.clone())).unwrap_err().contains("only members"));
        for (id, is_changed) in [(&king, true), (&king, false), (&queen, true)] {
            assert_eq!(change(&book, RoleChange::Assign(author(1), id.clone())), Ok(is_changed));
        }
        assert_eq!(change(&book, RoleChange::Edit(Role { color: Some(37), ..role("king") })), Ok(true));
        assert_eq!(change(&book, RoleChange::Edit(Role { color: Some(37), ..role("king") })), Ok(false));
        assert!(change(&book, RoleChange::Edit(role("jester"))).unwrap_err().contains("createrole"));
        let again = RuleBook::open(path).unwrap();
        assert_eq!(roles_of(&again, 1), ["king", "queen"]);
        assert!(again.current().roles().eq(book.current().roles()));
        assert_eq!(change(&again, RoleChange::Unassign(author(1), king)), Ok(true));
        assert_eq!(roles_of(&again, 1), ["queen"]);
        assert_eq!(change(&again, RoleChange::Delete(queen)), Ok(true));
        assert_eq!(roles_of(&again, 1), [""; 0]);
        assert_eq!(roles_of(&book, 1), ["king", "queen"]);
        decide(&book, 1, Verdict::Ban);
        decide(&book, 1, Verdict::Allow);
        assert_eq!(roles_of(&book, 1), [""; 0], "they ended with the membership");
    }

    #[test]
    fn roles_are_bounded() {
        let book = RuleBook::in_memory();
        decide(&book, 1, Verdict::Allow);
        for number in 0..ROLES_MAX {
            change(&book, RoleChange::Create(role(&number.to_string()))).unwrap();
        }
        assert!(change(&book, RoleChange::Create(role("more"))).unwrap_err().contains("delete some"));
        for number in 0..ROLES_OF_MEMBER {
            assert_eq!(change(&book, RoleChange::Assign(author(1), number.to_string())), Ok(true));
        }
        assert!(change(&book, RoleChange::Assign(author(1), ROLES_OF_MEMBER.to_string())).is_err());
        assert_eq!(roles_of(&book, 1).len(), ROLES_OF_MEMBER);
        for wrong in [
            role(""),
            role(&"x".repeat(ROLE_ID_BYTES + 1)),
            Role { label: Some("x".repeat(ROLE_TEXT_BYTES + 1)), ..role("0") },
            Role { description: Some("x".repeat(ROLE_TEXT_BYTES + 1)), ..role("0") },
            Role { color: Some(361), ..role("0") },
        ] {
            assert!(change(&book, RoleChange::Edit(wrong.clone())).is_err(), "{wrong:?}");
        }
    }
}
