use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use birdhouse_events::Kind;

use super::super::{Invite, RoleChange, RuleBook, Verdict};
use super::*;

const ADMIN: Actor = Actor::Admin(Pubkey([7; 32]));

/// The beginning of the SHA-256 of `ab`, by another program.
const AB: &str = "fb8e20fc2e4c3f24";

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
    assert_eq!(deeds[0], Deed::Revoked(AB.into()));
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
        let mut log = file.map_or_else(AuditLog::default, AuditLog::open);
        let each = 100;
        for _ in 0..60 {
            log.append(&vec![act("x".repeat(1024)); each], 1).unwrap();
            assert!(log.all_bytes().unwrap().len() == log.bytes && log.bytes <= AUDIT_BYTES);
        }
        let numbers: Vec<u64> = entries(&log.read().unwrap()).iter().map(|entry| entry.number).collect();
        assert!(numbers.len() > 2000 && *numbers.last().unwrap() == 6000, "{numbers:?}");
        assert!(numbers.is_sorted_by(|one, next| one + 1 == *next));
        // What ends together has room, whatever its reasons.
        log.append(&vec![act("\u{1}".repeat(1024)); crate::limits::ENDED_TOGETHER], 1).unwrap();
        assert!(log.bytes <= AUDIT_BYTES);
    }
    assert_eq!(AuditLog::open(path).last, 6000 + crate::limits::ENDED_TOGETHER as u64);
}

/// A book on the disk, with the bans 1 and 2.
struct Kept {
    folder: tempfile::TempDir,
    book: RuleBook,
}

impl Kept {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let book = RuleBook::open(folder.path().join("rules")).unwrap();
        for number in [1, 2] {
            book.change(&decide(number, "noise"), Actor::Ctl).unwrap();
        }
        Self { folder, book }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join(AUDIT_FILE)
    }

    /// Returns the numbers of all entries, of the running book and after a start, the newest first.
    fn numbers(&self) -> [Vec<u64>; 2] {
        let numbers = |book: &RuleBook| book.audit().unwrap().iter().map(|one| one.entry.number).collect();
        [numbers(&self.book), numbers(&self.reopened())]
    }

    fn reopened(&self) -> RuleBook {
        RuleBook::open(self.folder.path().join("rules")).unwrap()
    }
}

#[test]
fn a_log_that_is_deleted_or_emptied_while_the_server_runs_begins_anew() {
    let kept = Kept::new();
    fs::remove_file(kept.log()).unwrap();
    kept.book.change(&decide(3, ""), Actor::Ctl).unwrap();
    assert_eq!(kept.numbers(), [[3], [3]], "numbers go on");
    assert_eq!(fs::metadata(kept.log()).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(kept.log(), "").unwrap();
    assert!(kept.book.audit().unwrap().is_empty());
    kept.book.change(&decide(4, ""), Actor::Ctl).unwrap();
    assert_eq!(kept.numbers(), [[4], [4]]);
    assert!(!fs::read(kept.log()).unwrap().contains(&0));
    // A change that fails removes its own entry alone.
    fs::write(kept.log(), "").unwrap();
    let rules = kept.folder.path().join("rules");
    fs::remove_file(&rules).unwrap();
    fs::create_dir_all(rules.join("x")).unwrap();
    assert!(kept.book.change(&decide(5, ""), Actor::Ctl).is_err());
    assert_eq!(fs::read(kept.log()).unwrap(), b"");
}

#[test]
fn a_log_that_is_cut_or_has_a_rest_while_the_server_runs_swallows_no_entry() {
    let kept = Kept::new();
    let whole = fs::read(kept.log()).unwrap();
    for (rest, left) in
        [(&whole[..whole.len() - 9], vec![3, 1]), (&[&whole, &b"8f3a0c11 {\"nu"[..]].concat(), vec![4, 2, 1])]
    {
        fs::write(kept.log(), rest).unwrap();
        kept.book.change(&decide(u16::try_from(left[0]).unwrap(), ""), Actor::Ctl).unwrap();
        assert_eq!(kept.numbers(), [left.clone(), left]);
    }
}

#[test]
fn entries_of_another_version_survive_a_start_and_their_numbers_are_taken() {
    let kept = Kept::new();
    let json = r#"{"number":9,"time":1,"actor":"ctl","deed":{"painted":"red"}}"#;
    let unknown = format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes()));
    let bytes = [fs::read(kept.log()).unwrap(), unknown.clone().into_bytes()].concat();
    fs::write(kept.log(), &bytes).unwrap();
    let again = kept.reopened();
    assert_eq!(fs::read(kept.log()).unwrap(), bytes);
    again.change(&decide(3, ""), Actor::Ctl).unwrap();
    assert_eq!(ends(&again).iter().map(|(number, ..)| *number).collect::<Vec<_>>(), [10, 2, 1]);
    assert!(fs::read_to_string(kept.log()).unwrap().contains(&unknown));
}

#[test]
fn a_log_that_cannot_be_read_is_set_aside() {
    let kept = Kept::new();
    fs::remove_file(kept.log()).unwrap();
    fs::create_dir(kept.log()).unwrap();
    let again = kept.reopened();
    assert!(kept.log().with_extension("damaged").is_dir());
    again.change(&decide(3, ""), Actor::Ctl).unwrap();
    assert_eq!(ends(&again), [(1, Actor::Ctl, None)]);
    // One without an end.
    fs::remove_file(kept.log()).unwrap();
    fs::remove_dir(kept.log().with_extension("damaged")).unwrap();
    symlink("/dev/zero", kept.log()).unwrap();
    assert!(kept.reopened().audit().unwrap().is_empty());
}

#[test]
fn a_change_whose_entry_cannot_be_written_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (rules, log) = (folder.path().join("rules"), folder.path().join(AUDIT_FILE));
    let book = RuleBook::open(rules.clone()).unwrap();
    symlink("/dev/full", &log).unwrap();
    let error = book.change(&decide(3, ""), Actor::Ctl).unwrap_err();
    assert!(error.to_string().contains("room on the disk"), "{error}");
    assert!(std::error::Error::source(&error).is_none(), "its cause is in its text, once");
    assert!(book.current().is_empty() && !rules.exists());
    fs::remove_file(&log).unwrap();
    book.change(&decide(3, ""), Actor::Ctl).unwrap();
    for book in [&book, &RuleBook::open(rules).unwrap()] {
        assert_eq!((ends(book), book.current().len()), (vec![(1, Actor::Ctl, None)], 1));
    }
}

#[test]
fn undoing_over_a_ban_that_is_over_brings_back_none() {
    let book = RuleBook::in_memory();
    let over = Rule { until: Some(9), ..ban("for a time") };
    book.change(&Change::Decide(kind(7), over), Actor::Ctl).unwrap();
    book.change(&decide(7, "for good"), Actor::Ctl).unwrap();
    assert_eq!(undoable(&book), [2]);
    book.undo(2, Actor::Ctl).unwrap();
    assert_eq!(book.current().of(kind(7)), None);
}

#[test]
fn the_log_has_no_code_of_an_invite() {
    let kept = Kept::new();
    let invite = Invite { code: "0123456789abcdef".into(), inviter: None, uses: 5, since: 1, until: u64::MAX };
    kept.book.change(&Change::Invite(invite.clone()), Actor::Ctl).unwrap();
    kept.book.change(&Change::Revoke(invite.code.clone()), Actor::Ctl).unwrap();
    let text = fs::read_to_string(kept.log()).unwrap();
    assert!(!text.contains(&invite.code) && text.contains(&invite.id()), "{text}");
    assert_eq!(ends(&kept.book)[1], (3, Actor::Ctl, Some(4)));
}

#[test]
fn sweeps_of_a_day_are_one_entry_unless_something_else_is_between() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(AUDIT_FILE);
    for file in [None, Some(path.clone())] {
        let mut log = file.map_or_else(AuditLog::default, AuditLog::open);
        let revoked = Act { actor: Actor::Ctl, deed: Deed::Revoked(AB.into()) };
        log.append(std::slice::from_ref(&revoked), 86_400).unwrap();
        for (by_rule, time) in [(vec![3, 0], 86_401), (vec![1, 2], 172_799), (vec![5, 5], 172_800), (vec![1], 172_801)]
        {
            log.add_deletion(by_rule, time).unwrap();
        }
        log.append(&[revoked], 172_802).unwrap();
        log.add_deletion(vec![1], 172_803).unwrap();
        let entries = entries(&log.read().unwrap());
        let numbers: Vec<_> = entries.iter().map(|entry| (entry.number, entry.time)).collect();
        assert_eq!(numbers, [(1, 86_400), (2, 172_799), (3, 172_800), (4, 172_801), (5, 172_802), (6, 172_803)]);
        assert_eq!(entries[1].deed, Deed::Deleted(vec![4, 2]));
        assert_eq!(log.all_bytes().unwrap().len(), log.bytes);
    }
    assert_eq!(entries(&AuditLog::open(path).read().unwrap()).len(), 6);
}
