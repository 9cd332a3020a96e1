//! Retention rules on stored events: what a sweep deletes, and that nothing else is lost, also across failures.

use std::sync::Arc;

use birdhouse_events::{
    Events, EventsOptions, Keys, Kind, Retention, RetentionRule, Sweep, Tag, Timestamp, UnsignedEvent, VerifiedEvent,
};
use birdhouse_store::MemoryStore;

use crate::power_cut::all;
use crate::world::Rng;

const SECRET: [u8; 16] = [9; 16];
const NOW: u32 = 100_000;

fn open(store: &MemoryStore) -> Events {
    let options = EventsOptions { memtable_events: 300, unit_bits: 6, ..EventsOptions::default() };
    Events::open(Arc::new(store.clone()), SECRET, options).unwrap()
}

fn author(number: u64) -> Keys {
    Keys::from_secret([1 + u8::try_from(number).unwrap(); 32]).unwrap()
}

/// Returns an event of a random author, kind, age and length.
fn event(rng: &mut Rng, number: u64) -> VerifiedEvent {
    let kind = [1, 1, 1, 7, 4][usize::try_from(rng.below(5)).unwrap()];
    let content = "x".repeat(usize::try_from(rng.below(2) * 2000 + rng.below(100)).unwrap());
    let created_at = Timestamp(u64::from(NOW) - rng.below(2000));
    let tags = vec![Tag(vec!["n".to_owned(), number.to_string()])];
    UnsignedEvent { created_at, kind: Kind(kind), tags, content }.sign(&author(rng.below(3)))
}

/// The first author's events and kind 4 stay; large ones stay for 500 s, reactions for 1000 s, others for 1500 s.
fn rules() -> Retention {
    let all = RetentionRule::default;
    Retention(vec![
        RetentionRule { authors: Some([author(0).pubkey()].into()), ..all() },
        RetentionRule { kinds: Some(vec![4..=4]), ..all() },
        RetentionRule { larger_than: Some(1000), seconds: Some(500), ..all() },
        RetentionRule { kinds: Some(vec![7..=7]), seconds: Some(1000), ..all() },
        RetentionRule { seconds: Some(1500), ..all() },
    ])
}

/// The same rules, written a second time.
fn is_kept(event: &VerifiedEvent) -> bool {
    let age = u64::from(NOW) - event.created_at.0;
    if event.pubkey == author(0).pubkey() || event.kind == Kind(4) {
        return true;
    }
    let most = match (event.content.len(), event.kind) {
        (2000.., _) => 500,
        (_, Kind(7)) => 1000,
        _ => 1500,
    };
    age < most
}

fn sweep(events: &Events, retention: &Retention) -> u64 {
    let mut sweep = Sweep::new(retention);
    while events.retain(retention, &mut sweep, NOW).unwrap() {}
    sweep.deleted()
}

fn accept(events: &Events, some: &[VerifiedEvent]) {
    some.chunks(100).for_each(|some| drop(events.accept(&some.iter().collect::<Vec<_>>()).unwrap()));
}

#[test]
fn a_sweep_deletes_exactly_what_the_rules_do_not_keep_and_its_space_comes_back() {
    let mut rng = Rng(21);
    let sent: Vec<VerifiedEvent> = (0..5000).map(|number| event(&mut rng, number)).collect();
    let store = MemoryStore::new();
    let events = open(&store);
    accept(&events, &sent);
    let kept = sent.iter().filter(|event| is_kept(event)).count() as u64;
    // What the rules would delete is known before they do.
    let mut dry = Sweep::new(&rules());
    while events.weigh(&rules(), &mut dry, NOW).unwrap() {}
    let unkept: u64 = dry.judged().iter().map(|judged| judged.unkept.events).sum();
    assert_eq!((unkept, dry.deleted(), events.live_events()), (5000 - kept, 0, 5000));
    let of_author = sent.iter().filter(|event| event.pubkey == author(0).pubkey()).count() as u64;
    assert_eq!(dry.judged()[0].kept.events, of_author, "the first rule keeps them");
    assert!((2000..4000).contains(&kept), "{kept} are kept");
    assert_eq!(sweep(&events, &rules()), 5000 - kept);
    assert_eq!(sweep(&events, &rules()), 0, "a second sweep finds nothing");
    let check = |events: &Events| {
        assert_eq!(events.live_events(), kept);
        assert!(sent.iter().all(|event| events.has(&event.id).unwrap() == is_kept(event)));
        assert_eq!(all(events).len() as u64, kept);
    };
    check(&events);
    while events.compact().unwrap() {}
    assert!(events.unreclaimed_events() < 500, "{} are not given back", events.unreclaimed_events());
    check(&events);
    drop(events);
    check(&open(&store.crash(1)));
}

#[test]
fn the_last_accepted_events_fit_in_the_bytes_of_their_rule() {
    let mut rng = Rng(22);
    let sent: Vec<VerifiedEvent> = (0..5000).map(|number| event(&mut rng, number)).collect();
    let events = open(&MemoryStore::new());
    accept(&events, &sent);
    let rule = RetentionRule { kinds: Some(vec![1..=1]), bytes: Some(1_000_000), ..RetentionRule::default() };
    sweep(&events, &Retention(vec![rule]));
    let notes: Vec<&VerifiedEvent> = sent.iter().filter(|event| event.kind == Kind(1)).collect();
    let left = notes.iter().rev().take_while(|event| events.has(&event.id).unwrap()).count();
    assert!(notes.iter().rev().skip(left).all(|event| !events.has(&event.id).unwrap()), "the oldest ones go");
    // An event takes its content, 48 bytes of head, 102 of fixed fields, and a few of its tag.
    let bytes: usize = notes.iter().rev().take(left).map(|event| event.content.len() + 48 + 102 + 10).sum();
    assert!((980_000..1_020_000).contains(&bytes), "{bytes} bytes of {left} events are left");
    assert_eq!(events.live_events(), (5000 - notes.len() + left) as u64, "other kinds stay");
}

#[test]
fn a_failed_write_of_a_sweep_deletes_nothing_that_is_kept() {
    let mut failed = 0;
    for seed in 0..40 {
        let mut rng = Rng(seed);
        let sent: Vec<VerifiedEvent> = (0..200).map(|number| event(&mut rng, number)).collect();
        let store = MemoryStore::new();
        let events = open(&store);
        accept(&events, &sent);
        store.fail_after(seed % 4);
        let mut begun = Sweep::new(&rules());
        while let Ok(true) = events.retain(&rules(), &mut begun, NOW) {}
        store.fail_after(u64::MAX);
        if events.failure().is_some() {
            failed += 1;
            events.reopen().unwrap();
        }
        let events = open(&store.crash(seed));
        assert!(sent.iter().filter(|event| is_kept(event)).all(|event| events.has(&event.id).unwrap()), "seed {seed}");
        sweep(&events, &rules());
        assert_eq!(events.live_events(), sent.iter().filter(|event| is_kept(event)).count() as u64, "seed {seed}");
    }
    assert!(failed > 10, "{failed} failures");
}
