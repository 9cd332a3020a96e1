use super::*;
use crate::event::samples::{event, keys, signed_by};

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Returns a deletion request of author 1 at time 10.
fn deletion(tags: &[&[&str]]) -> Deletion {
    Deletion::of(&event(5, 10, tags, "by accident")).expect("a deletion request")
}

/// Returns the address of an author's event.
fn address(kind: u16, author: u8, d: &str) -> String {
    format!("{kind}:{}:{d}", keys(author).pubkey())
}

#[test]
fn deletion_names_events_and_addresses_in_order_without_repetition() {
    let (list, article) = (address(10_002, 1, ""), address(30_023, 1, "a:b"));
    let b = A.replace('a', "b");
    let deletion =
        deletion(&[&["e", &b], &["e", A, "wss://hint"], &["k", "1"], &["e", A], &["a", &article], &["a", &list]]);
    assert_eq!(deletion.ids, [EventId([0xaa; 32]), EventId([0xbb; 32])]);
    let addresses: Vec<_> = deletion.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, [list, article]);
    assert_eq!((deletion.author, deletion.created_at), (keys(1).pubkey(), Timestamp(10)));
    assert_eq!(Deletion::of(&event(6, 10, &[&["e", A]], "")), None);
}

#[test]
fn foreign_and_unreadable_targets_are_skipped_and_the_rest_holds() {
    let (own, foreign, no_colon) = (address(30_023, 1, "x"), address(30_023, 2, "x"), address(10_002, 1, ""));
    let no_colon = no_colon.trim_end_matches(':');
    let upper = A.to_uppercase();
    let tags: &[&[&str]] =
        &[&["a", &foreign], &["e", &upper], &["e", "short"], &["a", no_colon], &["e"], &["a", &own], &[]];
    let deletion = deletion(tags);
    assert_eq!(deletion.ids, []);
    assert_eq!(deletion.addresses, [Address::parse(&own).expect("an address")]);
}

#[test]
fn deletion_by_id_covers_the_authors_event_of_any_age_and_no_other() {
    let own = event(1, 99, &[], "later than the request");
    let foreign = signed_by(2, 1, 5, &[], "");
    let deletion = deletion(&[&["e", &own.id.to_string()], &["e", &foreign.id.to_string()]]);
    assert!(deletion.covers(&own));
    assert!(!deletion.covers(&foreign));
    assert!(!deletion.covers(&event(1, 5, &[], "not named")));
}

#[test]
fn deletion_by_address_covers_versions_up_to_its_time_and_newer_ones_survive() {
    let (article, list) = (address(30_023, 1, "x"), address(10_002, 1, ""));
    let deletion = deletion(&[&["a", &article], &["a", &list]]);
    for (created_at, covered) in [(9, true), (10, true), (11, false)] {
        assert_eq!(deletion.covers(&event(30_023, created_at, &[&["d", "x"]], "")), covered);
        assert_eq!(deletion.covers(&event(10_002, created_at, &[], "")), covered);
    }
    assert!(!deletion.covers(&event(30_023, 9, &[&["d", "y"]], "")), "another d");
    assert!(!deletion.covers(&event(30_024, 9, &[&["d", "x"]], "")), "another kind");
    assert!(!deletion.covers(&signed_by(2, 30_023, 9, &[&["d", "x"]], "")), "another author");
}

#[test]
fn requests_to_delete_and_to_vanish_cannot_be_deleted() {
    for kind in [5, 62] {
        let request = event(kind, 5, &[], "");
        assert!(!deletion(&[&["e", &request.id.to_string()]]).covers(&request), "{kind}");
    }
}

#[test]
fn gift_wrap_is_deleted_by_its_recipient() {
    let recipient = keys(1).pubkey().to_string();
    for (kind, covered) in [(1059, true), (21_059, true), (1, false)] {
        let wrapped = signed_by(2, kind, 5, &[&["p", A], &["p", &recipient]], "");
        assert_eq!(deletion(&[&["e", &wrapped.id.to_string()]]).covers(&wrapped), covered, "{kind}");
    }
    let to_others = signed_by(2, 1059, 5, &[&["p", A]], "");
    assert!(!deletion(&[&["e", &to_others.id.to_string()]]).covers(&to_others));
}

#[test]
fn vanish_asks_the_relays_it_names_or_all() {
    let own = [RelayUrl::parse("wss://relay.example.com").expect("a URL")];
    let asks = |tags: &[&[&str]]| Vanish::of(&event(62, 10, tags, ""), &own);
    let vanish = Vanish { author: keys(1).pubkey(), until: Timestamp(10) };
    for url in [
        "ALL_RELAYS",
        "wss://relay.example.com/",
        "WSS://Relay.example.com:443",
        "ws://relay.example.com",
        "wss://relay.example.com/inbox",
    ] {
        assert_eq!(asks(&[&["relay", "wss://other.example.com"], &["relay", url]]), Some(vanish), "{url}");
    }
    for tags in [["relay", "all_relays"], ["relay", "wss://other.example.com"], ["r", "ALL_RELAYS"]] {
        assert_eq!(asks(&[&tags]), None, "{tags:?}");
    }
    assert_eq!(asks(&[]), None);
    assert_eq!(Vanish::of(&event(1, 10, &[&["relay", "ALL_RELAYS"]], ""), &own), None);
}

#[test]
fn vanish_covers_all_of_the_author_and_wraps_for_the_author_up_to_its_time() {
    let vanish = Vanish { author: keys(1).pubkey(), until: Timestamp(10) };
    for kind in [0, 1, 5, 10_002, 30_023] {
        assert!(vanish.covers(&event(kind, 10, &[], "")), "{kind}");
        assert!(!vanish.covers(&event(kind, 11, &[], "")), "{kind}");
        assert!(!vanish.covers(&signed_by(2, kind, 5, &[], "")), "{kind}");
    }
    let me = keys(1).pubkey().to_string();
    assert!(vanish.covers(&signed_by(2, 1059, 5, &[&["p", &me]], "")));
    assert!(!vanish.covers(&signed_by(2, 1, 5, &[&["p", &me]], "")));
    assert!(vanish.covers(&event(62, 5, &[&["relay", "wss://another.relay"]], "")), "earlier requests, too");
}
