//! Synchronization between two of our relays.

use std::sync::Arc;

use birdhouse_events::Keys;
use birdhouse_mirror::{Direction, Missing, Purpose};
use birdhouse_relay::{Actor, Change, Limits, Lists, Policy, Rule, Settings, Subject, Verdict};

use crate::app::{App, Pass, assert_same, event, front, ids_of, many, those};

const BOTH: Purpose = Purpose::Transfer(Direction::Both);

fn here(n: usize) -> bool {
    !n.is_multiple_of(7)
}

fn there(n: usize) -> bool {
    !n.is_multiple_of(11) || !here(n)
}

#[tokio::test(flavor = "multi_thread")]
async fn both_relays_have_all_events_and_a_second_time_nothing_is_sent() {
    let all = many(3000);
    let ours = App::start(Settings::default(), &those(&all, here)).await;
    let peer = App::start(Settings::default(), &those(&all, there)).await;
    let first = ours.sync(peer.addr, BOTH, "{}").await;
    assert_eq!(first.ended, Ok(()));
    assert_same(&ours.ids(), &ids_of(&all));
    assert_same(&peer.ids(), &ids_of(&all));
    let missing = |has: fn(usize) -> bool| (0..3000).filter(|n| !has(*n) && (here(*n) || there(*n))).count() as u64;
    let (up, down) = (missing(there), missing(here));
    let tally = first.tally;
    assert_eq!((tally.sent, tally.accepted, tally.only_here), (up, up, up));
    assert_eq!((tally.received, tally.stored, tally.only_there), (down, down, down));
    let second = ours.sync(peer.addr, BOTH, "{}").await;
    assert_eq!((second.ended, second.tally.sent, second.tally.received), (Ok(()), 0, 0));
    assert_eq!(second.tally.compared, 3000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_direction_a_filter_and_times_bound_what_is_transferred() {
    let all = many(300);
    let kinds: Vec<_> = (0..50).map(|n| event(9, 7, n, &[])).collect();
    let stored: Vec<_> = all.iter().chain(&kinds).collect();
    let peer = App::start(Settings::default(), &stored).await;
    let ours = App::start(Settings::default(), &[]).await;
    let down = Purpose::Transfer(Direction::Down);
    let filter = r#"{"kinds":[7],"since":1700000010,"until":1700000019}"#;
    let outcome = ours.sync(peer.addr, down, filter).await;
    assert_eq!((outcome.ended, outcome.tally.stored), (Ok(()), 10));
    assert_same(&ours.ids(), &ids_of(&kinds[10..20]));
    let up = ours.sync(peer.addr, Purpose::Transfer(Direction::Up), "{}").await;
    assert_eq!((up.ended, up.tally.sent, up.tally.received), (Ok(()), 0, 0));
    assert_eq!(ours.ids().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_ids_are_listed_and_nothing_is_transferred() {
    let all = many(500);
    let ours = App::start(Settings::default(), &those(&all, here)).await;
    let peer = App::start(Settings::default(), &those(&all, there)).await;
    let outcome = ours.sync(peer.addr, Purpose::List, "{}").await;
    assert_eq!((outcome.ended, outcome.tally.sent, outcome.tally.received), (Ok(()), 0, 0));
    let (mut have, mut need) = (Vec::new(), Vec::new());
    for missing in outcome.missing {
        match missing {
            Missing::There(id) => have.push(id.to_string()),
            Missing::Here(id) => need.push(id.to_string()),
        }
    }
    assert_eq!(
        have.into_iter().collect::<std::collections::BTreeSet<_>>(),
        ids_of(those(&all, |n| here(n) && !there(n)))
    );
    assert_eq!(
        need.into_iter().collect::<std::collections::BTreeSet<_>>(),
        ids_of(those(&all, |n| there(n) && !here(n)))
    );
}

/// The peer compares 100 ids at a time at most: windows become shorter until they fit.
#[tokio::test(flavor = "multi_thread")]
async fn windows_fit_the_bound_of_the_peer() {
    let all: Vec<_> = (0..2000).map(|n| event(1, 1, n / 3, &[&["n", &n.to_string()]])).collect();
    let limits = Limits { sync_ids: 100, ..Limits::default() };
    let peer = App::start(Settings { limits, ..Settings::default() }, &all.iter().collect::<Vec<_>>()).await;
    let ours = App::start(Settings::default(), &those(&all, here)).await;
    let outcome = ours.sync(peer.addr, BOTH, r#"{"until":1700000800}"#).await;
    assert_eq!(outcome.ended, Ok(()));
    assert_same(&ours.ids(), &ids_of(&all));
    assert!(outcome.tally.windows >= 20, "{:?}", outcome.tally);
}

#[tokio::test(flavor = "multi_thread")]
async fn reasons_of_refusals_are_kept_on_both_sides() {
    let (ours_only, theirs_only) = (event(1, 7, 1, &[]), event(2, 1, 2, &[]));
    let kinds = Lists { allow: None, deny: vec![7..=7] };
    let policy = Policy { kinds, ..Policy::default() };
    let peer = App::start(Settings { policy, ..Settings::default() }, &[&theirs_only]).await;
    let ours = App::start(Settings::default(), &[&ours_only]).await;
    let rule = Rule { verdict: Verdict::Ban, reason: "spam".into(), since: 1, until: None };
    ours.relay.rule_book().change(&Change::Decide(Subject::Author(theirs_only.pubkey), rule), Actor::Ctl).unwrap();
    let outcome = ours.sync(peer.addr, BOTH, "{}").await;
    assert_eq!(outcome.ended, Ok(()));
    let reasons = |reasons: &birdhouse_mirror::Reasons| reasons.0.clone().into_iter().collect::<Vec<_>>();
    let there = "blocked: events of this kind are not wanted here".to_owned();
    assert_eq!(reasons(&outcome.tally.refused_there), [(there, 1)]);
    let here = "blocked: events of this author are not wanted here".to_owned();
    assert_eq!(reasons(&outcome.tally.refused_here), [(here, 1)]);
    assert_eq!((ours.ids().len(), peer.ids().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn protected_events_and_private_messages_stay_unless_the_filter_names_their_kind() {
    let protected = event(1, 1, 1, &[&["-"]]);
    let recipient = "11".repeat(32);
    let private = event(1, 1059, 2, &[&["p", &recipient]]);
    let note = event(1, 1, 3, &[]);
    let peer = App::start(Settings::default(), &[]).await;
    let ours = App::start(Settings::default(), &[&protected, &private, &note]).await;
    let outcome = ours.sync(peer.addr, BOTH, "{}").await;
    assert_eq!((outcome.ended, outcome.tally.kept), (Ok(()), 2));
    assert_same(&peer.ids(), &ids_of([&note]));
    let author = Keys::from_secret([1; 32]).map(Arc::new);
    let outcome = ours.sync_as(peer.addr, BOTH, r#"{"kinds":[1059]}"#, author).await;
    assert_eq!((outcome.ended, outcome.tally.accepted), (Ok(()), 1));
    assert_same(&peer.ids(), &ids_of([&note, &private]));
}

/// Many events that are not sent stand before one that is: none of them is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn events_that_stay_do_not_delay_those_that_go() {
    let protected: Vec<_> = (10..500).map(|n| event(1, 1, n, &[&["-"]])).collect();
    let note = event(1, 1, 3, &[]);
    let peer = App::start(Settings::default(), &[]).await;
    let ours = App::start(Settings::default(), &protected.iter().chain([&note]).collect::<Vec<_>>()).await;
    let outcome = tokio::time::timeout(std::time::Duration::from_secs(30), ours.sync(peer.addr, BOTH, "{}")).await;
    let outcome = outcome.unwrap();
    assert_eq!((outcome.ended, outcome.tally.kept, outcome.tally.accepted), (Ok(()), 490, 1));
}

/// Private messages are compared only with those whom they concern, so the peer wants to know who asks.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_wants_an_identity_gets_it_where_there_is_a_key() {
    let keys = Keys::from_secret([1; 32]).unwrap();
    let mine = event(1, 4, 1, &[&["p", &"22".repeat(32)]]);
    let other = event(3, 4, 2, &[&["p", &"22".repeat(32)]]);
    let peer = App::start(Settings::default(), &[&mine, &other]).await;
    let ours = App::start(Settings::default(), &[]).await;
    let refused = ours.sync(peer.addr, BOTH, r#"{"kinds":[4]}"#).await;
    assert!(refused.ended.unwrap_err().contains("auth-required"));
    let outcome = ours.sync_as(peer.addr, BOTH, r#"{"kinds":[4]}"#, Some(Arc::new(keys))).await;
    assert_eq!(outcome.ended, Ok(()));
    assert_same(&ours.ids(), &ids_of([&mine]));
}

/// The connection is cut after a number of messages that grows, on a new connection each time.
#[tokio::test(flavor = "multi_thread")]
async fn a_synchronization_that_is_cut_goes_on_with_what_is_missing() {
    let all = many(3000);
    let ours = App::start(Settings::default(), &those(&all, here)).await;
    let peer = App::start(Settings::default(), &those(&all, there)).await;
    let (mut sent, mut cuts, mut length) = (0, 0, 3);
    loop {
        let cut = move |_: &str, passed: usize| if passed < length { Pass::On } else { Pass::Cut };
        let (addr, _) = front(peer.addr, cut).await;
        let outcome = ours.sync(addr, BOTH, "{}").await;
        sent += outcome.tally.sent;
        if outcome.ended.is_ok() {
            break;
        }
        cuts += 1;
        length += 1 + length / 2;
        assert!(cuts < 40);
    }
    assert!(cuts > 5, "{cuts}");
    assert_same(&ours.ids(), &ids_of(&all));
    assert_same(&peer.ids(), &ids_of(&all));
    let lacked = (0..3000).filter(|n| here(*n) && !there(*n)).count() as u64;
    // What was in flight when a connection was cut is sent again at most.
    assert!(sent >= lacked && sent <= lacked + cuts * 64, "{sent} of {lacked}, {cuts} cuts");
}
