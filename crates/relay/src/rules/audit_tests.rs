use std::os::unix::fs::PermissionsExt as _;

use birdhouse_events::Kind;

use super::super::{Invite, RoleChange, RuleBook, Verdict};
use super::*;

const ADMIN: Actor = Actor::Admin(Pubkey([7; 32]));

fn kind(number: u16) -> Subject {
    Subject::Kind(Kind(number))
}

fn ban(reason: &str) -> Rule {
    Rule { verdict: Verdict::Ban, reason: reason.to_owned(), since: 5, until: None }
}

fn decide(number: u16, reason: &str) -> Change {
    Change::Decide(kind(number), ban(reason))
}

/// Returns number, actor and end of all entries, the newest first.
fn ends(book: &RuleBook) -> Vec<(u64, Actor, Option<u64>)> {
    book.audit().unwrap().iter().map(|one| (one.entry.number, one.entry.actor, one.ended_by)).collect()
}

fn undoable(book: &RuleBook) -> Vec<u64> {
    book.audit().unwrap().iter().filter(|one| one.is_undoable).map(|one| one.entry.number).collect()
}

#[test]
fn entries_name_their_actor_the_change_and_what_ended_it() {
    let book = RuleBook::in_memory();
    book.change(&decide(7, "noise"), Actor::Ctl).unwrap();
    book.change(&decide(8, ""), ADMIN).unwrap();
    assert!(!book.change(&decide(8, ""), Actor::Dashboard).unwrap().is_changed, "no change, no entry");
    book.change(&Change::TakeBack(kind(7), Verdict::Ban), Actor::Dashboard).unwrap();
    assert_eq!(ends(&book), [(3, Actor::Dashboard, None), (2, ADMIN, None), (1, Actor::Ctl, Some(3))]);
    let all = book.audit().unwrap();
    assert_eq!(all[0].entry.deed, Deed::Rule { subject: kind(7), before: Some(ban("noise")), after: None });
    assert_eq!(all[2].entry.deed, Deed::Rule { subject: kind(7), before: None, after: Some(ban("noise")) });
}

#[test]
fn an_entry_is_undone_once_and_only_while_nothing_else_was_decided() {
    let book = RuleBook::in_memory();
    let allow = Rule { verdict: Verdict::Allow, ..ban("a friend") };
    book.change(&Change::Decide(kind(7), allow.clone()), Actor::Ctl).unwrap();
    book.change(&decide(7, "noise"), Actor::Ctl).unwrap();
    assert_eq!(undoable(&book), [2], "the ban has replaced the allowance");
    book.undo(2, Actor::Dashboard).unwrap();
    assert_eq!(book.current().of(kind(7)), Some(&allow), "the earlier rule is there again");
    assert_eq!(ends(&book)[..2], [(3, Actor::Dashboard, None), (2, Actor::Ctl, Some(3))]);
    for (number, why) in [(2, "cannot be undone"), (1, "cannot be undone"), (4, "no entry 4")] {
        let error = book.undo(number, Actor::Ctl).expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    }
    book.undo(3, Actor::Ctl).unwrap();
    assert_eq!(book.current().of(kind(7)), Some(&ban("noise")));
}

#[test]
fn texts_and_invites_are_undone_and_roles_are_not() {
    let book = RuleBook::in_memory();
    let invite = Invite { code: "ab".into(), inviter: None, uses: 1, since: 1, until: u64::MAX };
    book.change(&Change::Describe(Text::Name, "Nest".into()), ADMIN).unwrap();
    book.change(&Change::Describe(Text::Name, "Tree".into()), ADMIN).unwrap();
    book.change(&Change::Invite(invite), Actor::Ctl).unwrap();
    let role = super::super::Role { id: "king".into(), ..super::super::Role::default() };
    book.change(&Change::Role(RoleChange::Create(role)), ADMIN).unwrap();
    book.enter_deletion(vec![3, 0]).unwrap();
    assert_eq!(undoable(&book), [3, 2]);
    book.undo(2, Actor::Ctl).unwrap();
    book.undo(3, Actor::Ctl).unwrap();
    assert_eq!(book.current().text(Text::Name), Some("Nest"));
    assert!(book.current().invites().is_empty());
    let deeds: Vec<_> = book.audit().unwrap().into_iter().map(|one| one.entry.deed).collect();
    assert_eq!(deeds[0], Deed::Revoked("ab".into()));
    assert_eq!(deeds[2], Deed::Deleted(vec![3, 0]));
    assert_eq!(deeds[3], Deed::Role("made the role king".into()));
    assert_eq!(undoable(&book), [6], "the name can be Tree again");
}

#[test]
fn the_file_is_for_its_owner_and_a_cut_end_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules");
    let path = folder.path().join(AUDIT_FILE);
    let book = RuleBook::open(rules.clone()).unwrap();
    for number in 1..=3 {
        book.change(&decide(number, "a \"reason\"\n"), ADMIN).unwrap();
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (whole, all) = (fs::read(&path).unwrap(), book.audit().unwrap());
    assert_eq!(RuleBook::open(rules.clone()).unwrap().audit().unwrap(), all);
    let second = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0 + 1;
    for end in second..whole.len() {
        fs::write(&path, &whole[..end]).unwrap();
        let cut = RuleBook::open(rules.clone()).unwrap();
        assert_eq!(cut.audit().unwrap()[..], all[1..], "{end}");
        cut.enter_deletion(vec![1]).unwrap();
        assert_eq!(RuleBook::open(rules.clone()).unwrap().audit().unwrap()[0].entry.number, 3, "{end}");
    }
}

#[test]
fn a_damaged_line_is_left_out_and_the_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let (rules, path) = (folder.path().join("rules"), folder.path().join(AUDIT_FILE));
    let book = RuleBook::open(rules.clone()).unwrap();
    for number in 1..=3 {
        book.change(&decide(number, "noise"), Actor::Ctl).unwrap();
    }
    let mut damaged = fs::read(&path).unwrap();
    let second = damaged.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    damaged[second + 20] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let again = RuleBook::open(rules).unwrap();
    assert_eq!(ends(&again).iter().map(|(number, ..)| *number).collect::<Vec<_>>(), [3, 1]);
    again.enter_deletion(vec![1]).unwrap();
    assert_eq!(again.audit().unwrap()[0].entry.number, 4);
}

#[test]
fn a_change_whose_rules_cannot_be_written_has_no_entry() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules");
    let book = RuleBook::open(rules.clone()).unwrap();
    book.change(&decide(1, ""), Actor::Ctl).unwrap();
    // A folder cannot be replaced by a file.
    fs::remove_file(&rules).unwrap();
    fs::create_dir(&rules).unwrap();
    fs::write(rules.join("x"), "").unwrap();
    assert!(book.change(&decide(2, ""), Actor::Ctl).is_err());
    assert_eq!(ends(&book), [(1, Actor::Ctl, None)]);
    assert_eq!(book.current().of(kind(2)), None);
}

#[test]
fn the_oldest_entries_make_room_for_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(AUDIT_FILE);
    let act = |reason: String| {
        let deed = Deed::Rule { subject: kind(1), before: None, after: Some(ban(&reason)) };
        Act { actor: Actor::Ctl, deed }
    };
    for file in [None, Some(path.clone())] {
        let mut log = file.map_or_else(AuditLog::default, |path| AuditLog::open(path).unwrap());
        let each = 100;
        for _ in 0..60 {
            log.append(&vec![act("x".repeat(1024)); each], 1).unwrap();
            assert!(log.all_bytes().unwrap().len() == log.bytes && log.bytes <= AUDIT_BYTES);
        }
        let numbers: Vec<u64> = log.entries().unwrap().iter().map(|entry| entry.number).collect();
        assert!(numbers.len() > 2000 && *numbers.last().unwrap() == 6000, "{numbers:?}");
        assert!(numbers.is_sorted_by(|one, next| one + 1 == *next));
        // What ends together has room, whatever its reasons.
        log.append(&vec![act("\u{1}".repeat(1024)); crate::limits::ENDED_TOGETHER], 1).unwrap();
        assert!(log.bytes <= AUDIT_BYTES);
    }
    assert_eq!(AuditLog::open(path).unwrap().last, 6000 + crate::limits::ENDED_TOGETHER as u64);
}
