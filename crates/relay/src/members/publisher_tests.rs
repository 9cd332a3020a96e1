use birdhouse_events::Kind;

use super::*;
use crate::rules::{Actor, Change, Role, RoleChange, Rule, Subject, Verdict};

const NOW: u32 = 1_700_000_000;
const ROLE_DELETED: Kind = Kind::DELETION;

fn keys(number: u8) -> Keys {
    Keys::from_secret([number; 32]).unwrap()
}

fn hex(number: u8) -> String {
    keys(number).pubkey().to_string()
}

fn make(book: &RuleBook, change: &Change) {
    assert!(book.change(change, Actor::Ctl).unwrap().is_changed);
}

fn add(book: &RuleBook, member: u8) {
    let rule = Rule { verdict: Verdict::Allow, reason: String::new(), since: member.into(), until: None };
    make(book, &Change::Decide(Subject::Author(keys(member).pubkey()), rule));
}

fn remove(book: &RuleBook, member: u8) {
    make(book, &Change::TakeBack(Subject::Author(keys(member).pubkey()), Verdict::Allow));
}

fn king(color: u16) -> Role {
    let text = |text: &str| Some(text.to_owned());
    let (label, description) = (text("king"), text("ruler of the relay"));
    Role { id: "28b7e50f".to_owned(), label, description, color: Some(color), order: Some(1) }
}

/// Returns the last list and the last role of some events, as a store keeps them.
fn stored(events: &[&VerifiedEvent]) -> Stored {
    let list = events.iter().rev().find(|event| event.kind == MEMBERS).map(|event| event.event().clone());
    let role = events.iter().rev().find(|event| matches!(event.kind, ROLE | ROLE_DELETED));
    Stored {
        list,
        roles: role.filter(|event| event.kind == ROLE).map(|event| event.event().clone()).into_iter().collect(),
    }
}

/// Kinds of events, and their tags but for the first.
fn tags(events: &[VerifiedEvent]) -> Vec<(Kind, Vec<Vec<String>>)> {
    events.iter().map(|event| (event.kind, event.tags[1..].iter().map(|tag| tag.0.clone()).collect())).collect()
}

fn tag(elements: &[&str]) -> Vec<String> {
    elements.iter().map(|element| (*element).to_owned()).collect()
}

#[test]
fn the_difference_to_the_stored_list_is_published_and_a_newer_list_after_it() {
    let (relay, book) = (keys(9), RuleBook::in_memory());
    add(&book, 1);
    add(&book, 2);
    let first = Stored::default().due(&relay, &book.current(), NOW);
    let both = vec![tag(&["member", &hex(1)]), tag(&["member", &hex(2)])];
    assert_eq!(tags(&first), [(MEMBERS, both)]);
    let before = stored(&[&first[0]]);
    assert!(before.due(&relay, &book.current(), NOW).is_empty());
    remove(&book, 1);
    add(&book, 3);
    let second = before.due(&relay, &book.current(), NOW - 5);
    let others = vec![tag(&["member", &hex(2)]), tag(&["member", &hex(3)])];
    let wanted = [(REMOVED, vec![tag(&["p", &hex(1)])]), (ADDED, vec![tag(&["p", &hex(3)])]), (MEMBERS, others)];
    assert_eq!(tags(&second), wanted);
    assert_eq!(second[2].created_at.0, u64::from(NOW) + 1, "also by a clock that went back");
    for event in first.iter().chain(&second) {
        assert_eq!((event.tags[0].0.clone(), event.pubkey), (vec!["-".to_owned()], relay.pubkey()));
    }
}

/// The tags of a role are those of the example in NIP-43.
#[test]
fn a_role_is_published_changed_and_deleted_and_the_list_follows() {
    let (relay, book) = (keys(9), RuleBook::in_memory());
    add(&book, 1);
    let list = Stored::default().due(&relay, &book.current(), NOW).remove(0);
    make(&book, &Change::Role(RoleChange::Create(king(37))));
    let created = stored(&[&list]).due(&relay, &book.current(), NOW);
    let example = |color| {
        vec![
            tag(&["d", "28b7e50f"]),
            tag(&["label", "king"]),
            tag(&["description", "ruler of the relay"]),
            tag(&["color", color]),
            tag(&["order", "1"]),
        ]
    };
    assert_eq!(tags(&created), [(ROLE, example("37"))]);
    make(&book, &Change::Role(RoleChange::Assign(keys(1).pubkey(), "28b7e50f".to_owned())));
    let assigned = stored(&[&list, &created[0]]).due(&relay, &book.current(), NOW);
    assert_eq!(tags(&assigned), [(MEMBERS, vec![tag(&["member", &hex(1), "28b7e50f"])])], "nobody was added");
    make(&book, &Change::Role(RoleChange::Edit(king(38))));
    let edited = stored(&[&assigned[0], &created[0]]).due(&relay, &book.current(), NOW);
    assert_eq!((tags(&edited), edited[0].created_at.0), (vec![(ROLE, example("38"))], u64::from(NOW) + 1));
    make(&book, &Change::Role(RoleChange::Delete("28b7e50f".to_owned())));
    let deleted = stored(&[&assigned[0], &edited[0]]).due(&relay, &book.current(), NOW);
    let address = format!("33534:{}:28b7e50f", relay.pubkey());
    let wanted = [(ROLE_DELETED, vec![tag(&["a", &address])]), (MEMBERS, vec![tag(&["member", &hex(1)])])];
    assert_eq!(tags(&deleted), wanted);
    assert!(stored(&[&deleted[1], &deleted[0]]).due(&relay, &book.current(), NOW).is_empty());
}

#[test]
fn a_second_implementation_reads_and_verifies_the_events() {
    let (relay, book) = (keys(9), RuleBook::in_memory());
    for member in 1..=200 {
        add(&book, member);
    }
    make(&book, &Change::Role(RoleChange::Create(king(37))));
    let mut events = Stored::default().due(&relay, &book.current(), NOW);
    events.push(super::super::events::invite(&relay, "code", NOW));
    events.push(change(&relay, ADDED, &keys(1).pubkey(), NOW));
    assert_eq!(events.len(), 4);
    for event in events {
        let read: nostr_sdk::Event = serde_json::from_str(&event.to_json()).unwrap();
        read.verify().unwrap();
        assert!(read.is_protected());
        assert_eq!(read.pubkey.to_hex(), relay.pubkey().to_string());
        assert_eq!(read.tags.len(), event.tags.len());
    }
}
