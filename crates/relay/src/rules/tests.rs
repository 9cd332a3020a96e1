use std::os::unix::fs::PermissionsExt as _;

use birdhouse_events::{Keys, Timestamp, UnsignedEvent, VerifiedEvent};

use super::book::RuleBook;
use super::*;

fn event(author: u8, kind: u16) -> VerifiedEvent {
    let event = UnsignedEvent { created_at: Timestamp(1), kind: Kind(kind), tags: Vec::new(), content: String::new() };
    event.sign(&Keys::from_secret([author; 32]).unwrap())
}

fn decide(subject: Subject, verdict: Verdict) -> Change {
    Change::Decide(subject, Rule { verdict, reason: "a \"reason\"".to_owned(), since: 7, until: None })
}

fn network(text: &str) -> Subject {
    Subject::clients(text.parse().unwrap())
}

fn rules(changes: &[Change]) -> Rules {
    let book = RuleBook::in_memory();
    for change in changes {
        assert!(book.change(change, Actor::Ctl).unwrap().is_changed, "{change:?}");
    }
    Rules::clone(&book.current())
}

#[test]
fn the_most_specific_rule_about_an_event_decides_and_hides_it() {
    let (event, other) = (event(1, 1), event(1, 7));
    let author = Subject::Author(event.pubkey);
    let rules = rules(&[decide(author, Verdict::Ban), decide(Subject::Event(event.id), Verdict::Allow)]);
    let verdict = |event| rules.on_event(event).map(|(verdict, _)| verdict);
    assert_eq!((verdict(&event), verdict(&other)), (Some(Verdict::Allow), Some(Verdict::Ban)));
    assert!(!rules.hides(&event.id, &event.pubkey) && rules.hides(&other.id, &other.pubkey));
}

#[test]
fn what_is_ignored_is_judged_as_without_a_rule() {
    let event = event(1, 1);
    let (id, author) = (Subject::Event(event.id), Subject::Author(event.pubkey));
    let ignored = rules(&[decide(id, Verdict::Ignore), decide(author, Verdict::Ignore)]);
    assert_eq!(ignored.on_event(&event), None);
    assert!(!ignored.is_allowed_by_id(&event) && !ignored.hides(&event.id, &event.pubkey));
    assert!(ignored.of(id).is_some(), "its reports are listed");
    let banned = rules(&[decide(id, Verdict::Ignore), decide(author, Verdict::Ban)]);
    assert_eq!(banned.on_event(&event).map(|(verdict, _)| verdict), Some(Verdict::Ban));
    assert!(banned.hides(&event.id, &event.pubkey));
}

#[test]
fn the_smallest_network_that_contains_a_client_decides() {
    let rules = rules(&[
        decide(network("203.0.113.77/24"), Verdict::Ban),
        decide(network("203.0.113.7/32"), Verdict::Allow),
        decide(network("2001:db8::/32"), Verdict::Ban),
    ]);
    for (address, verdict) in [
        ("203.0.113.8", Some(Verdict::Ban)),
        ("::ffff:203.0.113.8", Some(Verdict::Ban)),
        ("203.0.113.7", Some(Verdict::Allow)),
        ("198.51.100.1", None),
        ("2001:db8:1::1", Some(Verdict::Ban)),
    ] {
        assert_eq!(rules.on_client(address.parse().unwrap()), verdict, "{address}");
    }
}

#[test]
fn networks_that_are_large_parts_of_all_clients_are_not_banned() {
    let book = RuleBook::in_memory();
    for wide in ["0.0.0.0/0", "128.0.0.0/1", "10.0.0.0/7", "::/0", "2000::/3", "2001::/15"] {
        let refused = book.change(&decide(network(wide), Verdict::Ban), Actor::Ctl);
        assert!(matches!(refused, Err(RulesError::TooWide(_))), "{wide}");
        assert!(
            book.change(&decide(network(wide), Verdict::Allow), Actor::Ctl).unwrap().is_changed,
            "{wide}: who is allowed is no loss"
        );
    }
    for narrow in ["10.0.0.0/8", "2001::/16"] {
        assert!(book.change(&decide(network(narrow), Verdict::Ban), Actor::Ctl).unwrap().is_changed, "{narrow}");
    }
}

#[test]
fn a_later_rule_replaces_an_earlier_one_and_only_its_own_verdict_is_taken_back() {
    let (book, kind) = (RuleBook::in_memory(), Subject::Kind(Kind(7)));
    assert!(book.change(&decide(kind, Verdict::Ban), Actor::Ctl).unwrap().is_changed);
    assert!(!book.change(&decide(kind, Verdict::Ban), Actor::Ctl).unwrap().is_changed, "it is so already");
    assert!(!book.change(&Change::TakeBack(kind, Verdict::Allow), Actor::Ctl).unwrap().is_changed);
    assert!(book.change(&decide(kind, Verdict::Allow), Actor::Ctl).unwrap().is_changed);
    assert_eq!((book.current().on_kind(Kind(7)), book.current().len()), (Some(Verdict::Allow), 1));
    assert!(!book.change(&Change::TakeBack(kind, Verdict::Ban), Actor::Ctl).unwrap().is_changed);
    assert!(book.change(&Change::TakeBack(kind, Verdict::Allow), Actor::Ctl).unwrap().is_changed);
    assert!(book.current().is_empty());
}

#[test]
fn rules_and_texts_are_bounded() {
    let long = "x".repeat(RULE_TEXT_BYTES + 1);
    let reason = Rule { verdict: Verdict::Ban, reason: long.clone(), since: 0, until: None };
    let book = RuleBook::in_memory();
    for change in [Change::Decide(Subject::Kind(Kind(1)), reason), Change::Describe(Text::Name, long)] {
        assert!(matches!(book.change(&change, Actor::Ctl), Err(RulesError::TextTooLong(_))));
    }
    let id = |number: usize| {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&number.to_be_bytes());
        Subject::Event(EventId(id))
    };
    let rule = Rule { verdict: Verdict::Ban, reason: String::new(), since: 0, until: None };
    let mut full = Rules::default();
    for number in 0..RULES_MAX {
        full.insert(id(number), rule.clone());
    }
    assert!(matches!(full.with(&decide(id(RULES_MAX), Verdict::Ban)), Err(RulesError::TooMany)));
    assert!(full.with(&decide(id(0), Verdict::Allow)).unwrap().is_some(), "one that replaces another has room");
}

#[test]
fn the_file_keeps_every_rule_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules");
    let book = RuleBook::open(path.clone()).unwrap();
    let event = event(1, 1);
    let subjects = [
        Subject::Author(event.pubkey),
        Subject::Event(event.id),
        Subject::Kind(Kind(30_023)),
        network("203.0.113.0/24"),
        Subject::client("2001:db8::1".parse().unwrap()),
    ];
    for subject in subjects {
        book.change(&decide(subject, Verdict::Ban), Actor::Ctl).unwrap();
    }
    book.change(&decide(Subject::Kind(Kind(1)), Verdict::Allow), Actor::Ctl).unwrap();
    book.change(&Change::Describe(Text::Icon, "https://birds.example/icon".to_owned()), Actor::Ctl).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let again = RuleBook::open(path).unwrap();
    assert_eq!(again.current().list(), book.current().list());
    assert_eq!(again.current().text(Text::Icon), Some("https://birds.example/icon"));
    assert_eq!(again.current().text(Text::Name), None);
}

#[test]
fn a_damaged_file_is_an_error_with_advice_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules");
    let book = RuleBook::open(path.clone()).unwrap();
    book.change(&decide(Subject::Author(event(1, 1).pubkey), Verdict::Ban), Actor::Ctl).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(|end| whole[..end].to_vec()).collect();
    damaged.extend((0..whole.len()).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    }));
    for bytes in damaged {
        std::fs::write(&path, &bytes).unwrap();
        let error = RuleBook::open(path.clone()).expect_err("damaged").to_string();
        assert!(error.contains("restore the file from a backup"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(RuleBook::open(path).unwrap().current().len(), 1);
}

#[test]
fn a_rule_ends_after_its_last_second_also_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules");
    let book = RuleBook::open(path.clone()).unwrap();
    let until = |until| Rule { verdict: Verdict::Ban, reason: String::new(), since: 10, until };
    let (author, client) = (Subject::Author(event(1, 1).pubkey), network("203.0.113.0/24"));
    for (subject, end) in [(author, Some(20)), (client, Some(30)), (Subject::Kind(Kind(7)), None)] {
        book.change(&Change::Decide(subject, until(end)), Actor::Ctl).unwrap();
    }
    assert!(matches!(book.change(&Change::Decide(author, until(Some(9))), Actor::Ctl), Err(RulesError::Over)));
    assert_eq!((book.end_due(20).unwrap(), book.current().len()), (0, 3), "its last second");
    assert_eq!((book.end_due(21).unwrap(), book.current().of(author)), (1, None));
    let again = RuleBook::open(path.clone()).unwrap();
    assert_eq!((again.current().len(), again.current().earliest_end()), (2, Some(30)));
    assert!(again.change(&Change::Decide(client, until(Some(40))), Actor::Ctl).unwrap().is_changed, "a later end");
    assert_eq!(again.end_due(31).unwrap(), 0);
    assert_eq!(again.end_due(100).unwrap(), 1);
    assert_eq!(again.current().on_client("203.0.113.7".parse().unwrap()), None);
    let ended = &again.audit().unwrap()[0];
    assert_eq!((ended.entry.actor, ended.is_undoable), (Actor::Expiry, false));
    assert_eq!(RuleBook::open(path).unwrap().current().len(), 1);
}

#[test]
fn rules_that_end_together_end_in_parts() {
    let book = RuleBook::in_memory();
    for number in 0..300 {
        let rule = Rule { verdict: Verdict::Ban, reason: String::new(), since: 1, until: Some(2) };
        book.change(&Change::Decide(Subject::Kind(Kind(number)), rule), Actor::Ctl).unwrap();
    }
    assert_eq!([(); 3].map(|()| book.end_due(3).unwrap()), [256, 44, 0]);
    assert_eq!(book.audit().unwrap().len(), 600);
}

#[test]
fn a_thread_ends_what_is_over_and_first_what_was_over_before() {
    let book = std::sync::Arc::new(RuleBook::in_memory());
    let now = u64::from(crate::clock::now());
    let rule = |until| Rule { verdict: Verdict::Ban, reason: String::new(), since: 1, until: Some(until) };
    for (number, until) in [(1, now - 5), (2, now + 1), (3, now + 3600)] {
        book.change(&Change::Decide(Subject::Kind(Kind(number)), rule(until)), Actor::Ctl).unwrap();
    }
    let _ending = Ending::start(&book);
    assert_eq!(book.current().on_kind(Kind(1)), None, "at once");
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while book.current().on_kind(Kind(2)).is_some() && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!((book.current().on_kind(Kind(2)), book.current().len()), (None, 1));
    assert!(u64::from(crate::clock::now()) > now + 1, "not before its time");
}

#[test]
fn a_ban_for_a_time_replaces_no_rule_without_an_end() {
    let (book, kind) = (RuleBook::in_memory(), Subject::Kind(Kind(7)));
    let timed = Change::Decide(kind, Rule { verdict: Verdict::Ban, reason: String::new(), since: 10, until: Some(20) });
    for (verdict, why) in [(Verdict::Allow, "is allowed"), (Verdict::Ban, "is banned without an end")] {
        book.change(&decide(kind, verdict), Actor::Ctl).unwrap();
        let error = book.change(&timed, Actor::Ctl).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("take that back first"), "{error}");
        assert_eq!(book.current().on_kind(Kind(7)), Some(verdict));
    }
    book.change(&Change::TakeBack(kind, Verdict::Ban), Actor::Ctl).unwrap();
    book.change(&decide(kind, Verdict::Ignore), Actor::Ctl).unwrap();
    assert!(book.change(&timed, Actor::Ctl).unwrap().is_changed, "what is ignored is not decided");
    assert!(book.change(&decide(kind, Verdict::Ban), Actor::Ctl).unwrap().is_changed, "for good");
}

#[test]
fn ends_beyond_the_year_2106_and_control_characters_are_refused() {
    let book = RuleBook::in_memory();
    let rule = |reason: &str, until| Rule { verdict: Verdict::Ban, reason: reason.to_owned(), since: 1, until };
    let error = |rule| book.change(&Change::Decide(Subject::Kind(Kind(7)), rule), Actor::Ctl).unwrap_err().to_string();
    for until in [1_800_000_000_000, u64::MAX, (1 << 32)] {
        assert!(error(rule("", Some(until))).contains("in seconds"), "{until}");
    }
    for control in ["\0", "\u{1b}[31m", "\u{7f}", "\u{9b}2J"] {
        assert!(error(rule(control, None)).contains("control character"), "{control:?}");
        let change = Change::Describe(Text::Description, format!("a{control}b"));
        assert!(matches!(book.change(&change, Actor::Ctl), Err(RulesError::ControlCharacter(_))));
    }
    assert!(book.current().is_empty() && book.audit().unwrap().is_empty());
    let lines = Change::Describe(Text::Description, "a\r\n\tb".to_owned());
    assert!(book.change(&lines, Actor::Ctl).unwrap().is_changed);
}
