#![expect(clippy::unwrap_used, reason = "tests")]

use birdhouse_events::{Keys, Timestamp, UnsignedEvent};

use super::*;
use crate::rules::{Actor, Change, Rule, RuleBook, Subject};

fn event(author: u8, kind: u16) -> Event {
    let event = UnsignedEvent { created_at: Timestamp(1), kind: Kind(kind), tags: Vec::new(), content: String::new() };
    event.sign(&Keys::from_secret([author; 32]).unwrap()).event().clone()
}

fn client(number: u8) -> ClientKey {
    ClientKey::Network([203, 0, 113, number].into(), 32)
}

fn gate(policy: Policy) -> Gate {
    let limits = Limits { client_events: None, author_events: None, ..Limits::default() };
    Gate::new(policy, None, &limits)
}

fn prefix(checked: Result<(), Rejection>) -> &'static str {
    checked.map_or_else(|rejection| rejection.prefix(), |()| "")
}

#[test]
fn lists_of_authors_and_kinds_decide_and_denying_wins() {
    let pubkeys = |authors: &[u8]| authors.iter().map(|author| event(*author, 1).pubkey).collect::<HashSet<_>>();
    let open = Policy::default();
    let check =
        |policy: &Policy, author, kind| prefix(gate(policy.clone()).check(&event(author, kind), &Rules::default()));
    assert_eq!(check(&open, 1, 1), "");
    let denied = Policy { authors: Lists { allow: None, deny: pubkeys(&[1]) }, ..Policy::default() };
    assert_eq!((check(&denied, 1, 1), check(&denied, 2, 1)), ("blocked", ""));
    let both = Policy { authors: Lists { allow: Some(pubkeys(&[1, 2])), deny: pubkeys(&[1]) }, ..Policy::default() };
    assert_eq!((check(&both, 1, 1), check(&both, 2, 1), check(&both, 3, 1)), ("blocked", "", "restricted"));
    let kinds = Lists { allow: Some(vec![0..=9, 30_000..=39_999]), deny: vec![4..=4] };
    let some = Policy { kinds, ..Policy::default() };
    for (kind, expected) in
        [(0, ""), (4, "blocked"), (9, ""), (10, "blocked"), (30_000, ""), (39_999, ""), (40_000, "blocked")]
    {
        assert_eq!(check(&some, 1, kind), expected, "{kind}");
    }
    assert!(!open.is_restricted() && !denied.is_restricted() && both.is_restricted() && some.is_restricted());
}

#[test]
fn lists_of_addresses_decide_who_may_connect() {
    let networks = |networks: &[&str]| networks.iter().map(|network| network.parse().unwrap()).collect::<Vec<IpNet>>();
    let addresses = Lists { allow: Some(networks(&["203.0.113.0/24"])), deny: networks(&["203.0.113.7/32"]) };
    let gate = gate(Policy { addresses, ..Policy::default() });
    let is_welcome = |address: &str| gate.is_welcome(address.parse().unwrap(), &Rules::default());
    assert!(is_welcome("203.0.113.1") && !is_welcome("203.0.113.7") && !is_welcome("198.51.100.1"));
}

#[test]
fn rates_are_counted_by_client_or_author_and_kind() {
    let now = Instant::now();
    let rate = |of, kinds, count| KindsRate { of, kinds, rate: Rate::per_minute(count) };
    let rates = vec![rate(RatedBy::Client, Some(vec![7..=7]), 2), rate(RatedBy::Author, None, 3)];
    let gate = gate(Policy { rates, ..Policy::default() });
    let publish = |author, kind, from| {
        let event = event(author, kind);
        gate.check_client(&event, from, now).and_then(|()| gate.check_author(&event, now))
    };
    assert_eq!([1, 2, 3].map(|author| prefix(publish(author, 7, client(1)))), ["", "", "rate-limited"]);
    assert_eq!(prefix(publish(3, 7, client(2))), "", "another client");
    assert_eq!(prefix(publish(3, 1, client(1))), "", "another kind");
    assert_eq!([3, 3].map(|author| prefix(publish(author, 1, client(3)))), ["", "rate-limited"], "the author's fourth");
    let later = now + Duration::from_secs(31);
    assert_eq!(prefix(gate.check_client(&event(3, 7), client(1), later)), "");
    let pool = || prefix(gate.check_client(&event(4, 7), ClientKey::Pool, now));
    let published = (0..2 * birdhouse_clients::POOL_CLIENTS).map(|_| pool());
    assert!(published.into_iter().all(str::is_empty), "those who cannot be told apart count as many");
    assert_eq!(pool(), "rate-limited");
}

#[test]
fn forged_events_do_not_use_up_what_their_author_may_publish() {
    let rates = vec![KindsRate { kinds: None, of: RatedBy::Author, rate: Rate::per_minute(1) }];
    let (gate, now) = (gate(Policy { rates, ..Policy::default() }), Instant::now());
    for _ in 0..100 {
        gate.check_client(&event(1, 1), client(1), now).unwrap();
    }
    gate.check_author(&event(1, 1), now).unwrap();
    assert!(gate.check_author(&event(1, 1), now).is_err());
}

#[test]
fn a_rule_precedes_the_lists_of_the_settings_both_ways() {
    let (blocked, allowed) = (event(1, 1), event(2, 4));
    let policy = Policy {
        authors: Lists { allow: Some([blocked.pubkey].into()), deny: [allowed.pubkey].into() },
        kinds: Lists { allow: Some(vec![1..=1]), deny: vec![4..=4] },
        addresses: Lists { allow: None, deny: vec!["203.0.113.0/24".parse().unwrap()] },
        ..Policy::default()
    };
    let (gate, book) = (gate(policy), RuleBook::in_memory());
    let check = |event: &Event| prefix(gate.check(event, &book.current()));
    let decide = |subject, verdict| {
        let rule = Rule { verdict, reason: String::new(), since: 0, until: None };
        assert!(book.change(&Change::Decide(subject, rule), Actor::Ctl).unwrap().is_changed);
    };
    assert_eq!((check(&blocked), check(&allowed)), ("", "blocked"));
    decide(Subject::Author(blocked.pubkey), Verdict::Ban);
    decide(Subject::Author(allowed.pubkey), Verdict::Allow);
    assert_eq!((check(&blocked), check(&allowed)), ("blocked", "blocked"), "its kind is denied");
    decide(Subject::Kind(Kind(4)), Verdict::Allow);
    assert_eq!(check(&allowed), "");
    decide(Subject::Kind(Kind(4)), Verdict::Ban);
    decide(Subject::Event(allowed.id), Verdict::Allow);
    assert_eq!((check(&allowed), check(&event(2, 1))), ("", ""));
    decide(Subject::Event(blocked.id), Verdict::Allow);
    assert_eq!(check(&blocked), "", "an event that is allowed by its id, of an author who is banned");
    let is_welcome = |address: &str| gate.is_welcome(address.parse().unwrap(), &book.current());
    assert!(!is_welcome("203.0.113.1") && is_welcome("198.51.100.1"));
    decide(Subject::client([203, 0, 113, 1].into()), Verdict::Allow);
    decide(Subject::client([198, 51, 100, 1].into()), Verdict::Ban);
    assert!(is_welcome("203.0.113.1") && !is_welcome("203.0.113.2") && !is_welcome("198.51.100.1"));
}
