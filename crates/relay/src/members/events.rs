//! Events of the relay about its members. Pure.

use birdhouse_events::{Event, Keys, Kind, Pubkey, Tag, Timestamp, UnsignedEvent, VerifiedEvent};

use crate::rules::{Role, Rules};

/// A request of a client to join.
pub(crate) const JOIN: Kind = Kind(28_934);
/// An invite.
pub(crate) const INVITE: Kind = Kind(28_935);
/// A request of a client to leave.
pub(crate) const LEAVE: Kind = Kind(28_936);
/// A member was added.
pub(super) const ADDED: Kind = Kind(8000);
/// A member was removed.
pub(super) const REMOVED: Kind = Kind(8001);
/// The list of members.
pub(super) const MEMBERS: Kind = Kind(13_534);
/// A role that members may have.
pub(super) const ROLE: Kind = Kind(33_534);

/// Returns the event of an invite.
pub(crate) fn invite(keys: &Keys, code: &str, now: u32) -> VerifiedEvent {
    sign(keys, INVITE, now.into(), vec![tag(["claim", code])])
}

/// Returns the list of members.
pub(super) fn list(keys: &Keys, members: Vec<Tag>, created_at: u64) -> VerifiedEvent {
    sign(keys, MEMBERS, created_at, members)
}

/// Returns the tag of a member in the list, with its roles.
pub(super) fn member(rules: &Rules, member: &Pubkey) -> Tag {
    let mut elements = vec!["member".to_owned(), member.to_string()];
    elements.extend(rules.roles_of(member).map(str::to_owned));
    Tag(elements)
}

/// Returns the event of a role.
pub(super) fn role(keys: &Keys, role: &Role, created_at: u64) -> VerifiedEvent {
    sign(keys, ROLE, created_at, role_tags(role))
}

/// Returns the tags of a role's event but for the first, as NIP-43 has them.
pub(super) fn role_tags(role: &Role) -> Vec<Tag> {
    let (color, order) = (role.color.map(|hue| hue.to_string()), role.order.map(|order| order.to_string()));
    let texts =
        [("label", role.label.clone()), ("description", role.description.clone()), ("color", color), ("order", order)];
    let texts = texts.into_iter().filter_map(|(name, text)| Some(tag([name, &text?])));
    std::iter::once(tag(["d", &role.id])).chain(texts).collect()
}

/// Returns the request to delete a role's event (NIP-09).
pub(super) fn deletion(keys: &Keys, id: &str, created_at: u64) -> VerifiedEvent {
    let address = format!("{}:{}:{id}", ROLE.0, keys.pubkey());
    sign(keys, Kind::DELETION, created_at, vec![tag(["a", &address])])
}

/// Returns the event of a member that was added or removed.
pub(super) fn change(keys: &Keys, kind: Kind, member: &Pubkey, now: u32) -> VerifiedEvent {
    sign(keys, kind, now.into(), vec![tag(["p", &member.to_string()])])
}

/// Returns the tags of the members of a list.
pub(super) fn listed(list: &Event) -> impl Iterator<Item = &Tag> {
    list.tags.iter().filter(|tag| tag.0.first().is_some_and(|name| name == "member"))
}

/// Signs a protected event (NIP-70): only the relay publishes it.
fn sign(keys: &Keys, kind: Kind, created_at: u64, tags: Vec<Tag>) -> VerifiedEvent {
    let tags = std::iter::once(Tag(vec!["-".to_owned()])).chain(tags).collect();
    UnsignedEvent { created_at: Timestamp(created_at), kind, tags, content: String::new() }.sign(keys)
}

fn tag(elements: [&str; 2]) -> Tag {
    Tag(elements.map(str::to_owned).to_vec())
}
