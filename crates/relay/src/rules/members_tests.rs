use std::sync::Barrier;

use birdhouse_events::Keys;

use super::*;
use crate::limits::{INVITE_SECONDS, MEMBER_REQUEST_SECONDS};
use crate::rules::{Actor, RuleBook};

const NOW: u64 = 1_700_000_000;

fn author(number: u8) -> Pubkey {
    Keys::from_secret([number; 32]).unwrap().pubkey()
}

fn id(number: usize) -> EventId {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&number.to_be_bytes());
    EventId(id)
}

fn invite(code: &str, inviter: Option<u8>, uses: u32) -> Invite {
    Invite { code: code.to_owned(), inviter: inviter.map(author), uses, since: NOW, until: NOW + INVITE_SECONDS }
}

fn request(number: usize, of: u8, now: u64) -> MemberRequest {
    MemberRequest { id: id(number), author: author(of), now, until: now + MEMBER_REQUEST_SECONDS }
}

fn decide(of: u8, verdict: Verdict) -> Change {
    let rule = Rule { verdict, reason: String::new(), since: NOW, until: None };
    Change::Decide(Subject::Author(author(of)), rule)
}

/// Joins where every inviter may still invite.
fn joins(book: &RuleBook, request: &MemberRequest, code: &str) -> Result<Membership, Refusal> {
    book.join(request, code, |_, _| true)
}

fn said(done: Result<Membership, Refusal>) -> String {
    done.map_or_else(|refusal| refusal.to_string(), |done| format!("{done:?}"))
}

#[test]
fn an_invite_makes_as_many_members_as_it_has_uses_and_none_once_it_has_expired() {
    let book = RuleBook::in_memory();
    book.change(&Change::Invite(invite("two", None, 2)), Actor::Ctl).unwrap();
    assert_eq!(said(joins(&book, &request(1, 1, NOW), "tw")), "that is an invalid invite code.");
    assert_eq!(said(joins(&book, &request(1, 1, NOW), "two")), "Changed");
    assert_eq!(said(joins(&book, &request(2, 1, NOW), "two")), "Unchanged", "and uses nothing");
    assert_eq!(said(joins(&book, &request(3, 2, NOW), "two")), "Changed");
    assert_eq!(said(joins(&book, &request(4, 3, NOW), "two")), "that is an invalid invite code.");
    let rules = book.current();
    let members: Vec<Pubkey> = rules.members().iter().map(|member| member.pubkey).collect();
    assert_eq!((members.len(), rules.is_member(&author(1)), rules.is_member(&author(3))), (2, true, false));
    book.change(&Change::Invite(invite("old", None, 1)), Actor::Ctl).unwrap();
    let late = NOW + INVITE_SECONDS + 1;
    assert_eq!(said(joins(&book, &request(5, 3, late), "old")), "that invite code is expired.");
    assert_eq!(said(joins(&book, &request(5, 3, late - 1), "old")), "Changed", "its last second");
}

#[test]
fn of_those_who_use_an_invite_at_once_one_joins() {
    for _ in 0..50 {
        let (book, start) = (RuleBook::in_memory(), Barrier::new(4));
        book.change(&Change::Invite(invite("one", None, 1)), Actor::Ctl).unwrap();
        let joined = std::thread::scope(|scope| {
            let racers: Vec<_> = (1..=4)
                .map(|racer| {
                    let (book, start) = (&book, &start);
                    scope.spawn(move || {
                        start.wait();
                        joins(book, &request(usize::from(racer), racer, NOW), "one").is_ok()
                    })
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).filter(|joined| *joined).count()
        });
        assert_eq!((joined, book.current().members().len()), (1, 1));
    }
}

#[test]
fn a_request_that_was_used_has_no_effect_again_after_the_opposite_one_nor_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules");
    let book = RuleBook::open(path.clone()).unwrap();
    book.change(&Change::Invite(invite("many", None, 9)), Actor::Ctl).unwrap();
    let book = RuleBook::open(path.clone()).unwrap();
    let (join, leave) = (request(1, 1, NOW), request(2, 1, NOW));
    assert_eq!(said(joins(&book, &join, "many")), "Changed", "an invite of before the restart");
    assert_eq!(said(book.leave(&leave)), "Changed");
    assert_eq!(said(book.leave(&leave)), "Unchanged");
    for book in [book, RuleBook::open(path.clone()).unwrap()] {
        assert_eq!(said(joins(&book, &join, "many")), "this request was used before: sign another one");
        assert!(!book.current().is_member(&author(1)));
    }
    let book = RuleBook::open(path.clone()).unwrap();
    assert_eq!(said(joins(&book, &request(3, 1, NOW + 1), "many")), "Changed");
    let book = RuleBook::open(path).unwrap();
    assert_eq!(said(book.leave(&leave)), "this request was used before: sign another one");
    assert_eq!((book.current().is_member(&author(1)), book.current().invites()[0].uses), (true, 7));
}

#[test]
fn a_banned_author_does_not_join_and_bans_and_leaves_take_invites_along() {
    let book = RuleBook::in_memory();
    for (code, inviter) in [("of 1", 1), ("of 2", 2)] {
        book.change(&decide(inviter, Verdict::Allow), Actor::Ctl).unwrap();
        book.change(&Change::Invite(invite(code, Some(inviter), 1)), Actor::Ctl).unwrap();
    }
    book.change(&Change::Invite(invite("of the operator", None, 1)), Actor::Ctl).unwrap();
    book.change(&decide(3, Verdict::Ban), Actor::Ctl).unwrap();
    assert_eq!(said(joins(&book, &request(1, 3, NOW), "of 1")), "the operator has banned you");
    assert_eq!(book.current().invites().len(), 3, "it is not used");
    book.change(&decide(1, Verdict::Ban), Actor::Ctl).unwrap();
    assert_eq!(said(joins(&book, &request(2, 4, NOW), "of 1")), "that is an invalid invite code.");
    assert_eq!(said(book.leave(&request(3, 2, NOW))), "Changed");
    assert_eq!(said(joins(&book, &request(4, 4, NOW), "of 2")), "that is an invalid invite code.");
    assert_eq!(said(joins(&book, &request(5, 4, NOW), "of the operator")), "Changed");
    book.change(&decide(5, Verdict::Ignore), Actor::Ctl).unwrap();
    book.change(&Change::Invite(invite("again", None, 1)), Actor::Ctl).unwrap();
    assert_eq!(said(joins(&book, &request(6, 5, NOW), "again")), "Changed", "ignored reports ban nobody");
}

#[test]
fn members_invites_and_requests_are_bounded() {
    let mut rules = Rules::default();
    for number in 0..MEMBERS_MAX {
        let member = Subject::Author(Pubkey(id(number).0));
        rules.insert(member, Rule { verdict: Verdict::Allow, reason: String::new(), since: NOW, until: None });
    }
    rules.invite(&invite("code", None, 1)).unwrap();
    assert!(matches!(rules.joined(&request(1, 1, NOW), "code", |_| true), Err(Refusal::Full)));

    let mut rules = Rules::default();
    for number in 0..INVITES_MAX {
        rules.door.invites.insert(number.to_string(), invite(&number.to_string(), None, 1));
    }
    assert!(matches!(rules.invite(&invite("more", None, 1)), Err(RulesError::TooManyInvites)));
    let later = NOW + INVITE_SECONDS + INVITE_EXPIRED_SECONDS + 1;
    rules.invite(&Invite { since: later, ..invite("more", None, 1) }).unwrap();
    assert_eq!(rules.invites().len(), 1, "the others expired long ago");

    let mut rules = Rules::default();
    for number in 0..MEMBER_REQUESTS_USED {
        rules.door.requests.insert(id(number), NOW + MEMBER_REQUEST_SECONDS);
    }
    assert!(matches!(rules.remember(&request(MEMBER_REQUESTS_USED, 1, NOW)), Err(Refusal::Busy)));
    rules.remember(&request(0, 1, NOW + MEMBER_REQUEST_SECONDS + 1)).unwrap();
    assert_eq!(rules.door.requests.len(), 1);
}

#[test]
fn a_member_with_many_invites_gets_its_newest_one_and_a_stranger_none() {
    let book = RuleBook::in_memory();
    let fresh = |number: usize| {
        let since = NOW + number as u64;
        Invite { since, until: since + INVITE_SECONDS, ..invite(&format!("code {number}"), Some(1), 1) }
    };
    let given = |number: usize| book.invite_of_member(author(1), fresh(number), |rules| rules.is_member(&author(1)));
    assert_eq!(given(0).unwrap(), None);
    book.change(&decide(1, Verdict::Allow), Actor::Ctl).unwrap();
    for number in 0..INVITES_OF_MEMBER {
        assert_eq!(given(number).unwrap(), Some(fresh(number)));
    }
    assert_eq!(given(INVITES_OF_MEMBER).unwrap(), Some(fresh(INVITES_OF_MEMBER - 1)));
    assert_eq!(book.current().invites().len(), INVITES_OF_MEMBER);
    assert_eq!(said(joins(&book, &request(1, 2, NOW), "code 3")), "Changed");
    assert_eq!(given(99).unwrap(), Some(fresh(99)), "there is room again");
}

#[test]
fn the_file_keeps_invites_and_requests_and_has_neither_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules");
    let book = RuleBook::open(path.clone()).unwrap();
    book.change(&decide(1, Verdict::Allow), Actor::Ctl).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("invites") && !text.contains("requests"), "{text}");
    book.change(&Change::Invite(invite("of 1", Some(1), 3)), Actor::Ctl).unwrap();
    book.change(&Change::Invite(invite("of the operator", None, 1)), Actor::Ctl).unwrap();
    joins(&book, &request(7, 2, NOW), "of 1").unwrap();
    let again = RuleBook::open(path).unwrap();
    let (again, before) = (again.current(), book.current());
    assert_eq!((again.invites(), again.list()), (before.invites(), before.list()));
    assert_eq!(again.door.requests, before.door.requests);
    assert_eq!(again.invites().len(), 2);
}

#[test]
fn invites_of_one_that_may_no_longer_invite_are_invalid() {
    let book = RuleBook::in_memory();
    for (code, inviter) in [("of 1", Some(1)), ("of 2", Some(2)), ("of the operator", None)] {
        book.change(&Change::Invite(invite(code, inviter, 1)), Actor::Ctl).unwrap();
    }
    let mut number = 0;
    let mut use_code = |code: &str| {
        number += 1;
        let request = request(number, 10 + u8::try_from(number).unwrap(), NOW);
        said(book.join(&request, code, |inviter, _| *inviter == author(2)))
    };
    assert_eq!(
        ["of 1", "of 2", "of the operator"].map(&mut use_code),
        ["that is an invalid invite code.", "Changed", "Changed"]
    );
}

/// The invites of that many members, each of which has one.
fn with_invites(count: usize) -> Rules {
    let mut rules = Rules::default();
    for number in 0..count {
        rules.invite(&invite(&number.to_string(), Some(1), 1)).unwrap();
    }
    rules
}

#[test]
fn neither_members_nor_expired_invites_keep_the_operator_from_inviting() {
    let mut rules = with_invites(INVITES_MAX - INVITES_OF_OPERATOR);
    let of_member = invite("one more", Some(2), 1);
    assert!(matches!(rules.invite(&of_member), Err(RulesError::TooManyInvites)));
    rules.invite(&invite("of the operator", None, 1)).unwrap();
    let since = NOW + INVITE_SECONDS + 1;
    rules.invite(&Invite { since, until: since + INVITE_SECONDS, ..of_member }).unwrap();
    assert_eq!(rules.invites().len(), 1, "the others have expired");
}

#[test]
fn ignoring_an_author_takes_the_place_of_no_rule_that_decides() {
    for verdict in [Verdict::Allow, Verdict::Ban] {
        let book = RuleBook::in_memory();
        book.change(&decide(1, verdict), Actor::Ctl).unwrap();
        assert!(!book.change(&decide(1, Verdict::Ignore), Actor::Ctl).unwrap().is_changed);
        assert_eq!(book.current().is_member(&author(1)), verdict == Verdict::Allow);
        assert_eq!(book.current().authors.get(&author(1)).map(|rule| rule.verdict), Some(verdict));
    }
}
