//! Events of the relay about its members. Pure.

use std::collections::BTreeSet;

use birdhouse_events::{Event, Keys, Kind, Pubkey, Tag, Timestamp, UnsignedEvent, VerifiedEvent};

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
pub(super) fn list(keys: &Keys, members: &[Pubkey], created_at: u64) -> VerifiedEvent {
    let members = members.iter().map(|member| tag(["member", &member.to_string()]));
    sign(keys, MEMBERS, created_at, members.collect())
}

/// Returns the event of a member that was added or removed.
pub(super) fn change(keys: &Keys, kind: Kind, member: &Pubkey, now: u32) -> VerifiedEvent {
    sign(keys, kind, now.into(), vec![tag(["p", &member.to_string()])])
}

/// Returns the members of a list.
pub(super) fn listed(list: &Event) -> BTreeSet<[u8; 32]> {
    list.values("member").filter_map(Pubkey::parse).map(|member| member.0).collect()
}

/// Signs a protected event (NIP-70): only the relay publishes it.
fn sign(keys: &Keys, kind: Kind, created_at: u64, tags: Vec<Tag>) -> VerifiedEvent {
    let tags = std::iter::once(Tag(vec!["-".to_owned()])).chain(tags).collect();
    UnsignedEvent { created_at: Timestamp(created_at), kind, tags, content: String::new() }.sign(keys)
}

fn tag(elements: [&str; 2]) -> Tag {
    Tag(elements.map(str::to_owned).to_vec())
}
