//! Peers without negentropy, which are asked for pages.

use birdhouse_mirror::{Direction, Missing, Purpose};
use birdhouse_relay::Settings;

use crate::app::{App, Pass, assert_same, event, front, ids_of, many, those};

const BOTH: Purpose = Purpose::Transfer(Direction::Both);

/// As relays answer a message that they do not know.
pub(crate) fn without_negentropy(message: &str, _: usize) -> Pass {
    if message.starts_with("[\"NEG-") {
        return Pass::Answered(r#"["NOTICE","ERROR: bad msg: unknown cmd"]"#.into());
    }
    Pass::On
}

#[tokio::test(flavor = "multi_thread")]
async fn both_relays_have_all_events_and_a_second_time_nothing_is_sent() {
    let all = many(3000);
    let (here, there) = (|n: usize| !n.is_multiple_of(7), |n: usize| !n.is_multiple_of(11) || n.is_multiple_of(7));
    let ours = App::start(Settings::default(), &those(&all, here)).await;
    let peer = App::start(Settings::default(), &those(&all, there)).await;
    let (addr, _) = front(peer.addr, without_negentropy).await;
    let first = ours.sync(addr, BOTH, "{}").await;
    assert_eq!(first.ended, Ok(()));
    assert_same(&ours.ids(), &ids_of(&all));
    assert_same(&peer.ids(), &ids_of(&all));
    let lacked = those(&all, |n| here(n) && !there(n)).len() as u64;
    assert_eq!((first.tally.sent, first.tally.accepted), (lacked, lacked));
    assert_eq!(first.tally.stored, those(&all, |n| there(n) && !here(n)).len() as u64);
    let second = ours.sync(addr, BOTH, "{}").await;
    assert_eq!((second.ended, second.tally.sent, second.tally.stored), (Ok(()), 0, 0));
    assert_eq!(second.tally.compared, 3000);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_ids_are_listed() {
    let (ours_only, theirs_only) = (event(1, 1, 1, &[]), event(1, 1, 2, &[]));
    let ours = App::start(Settings::default(), &[&ours_only]).await;
    let peer = App::start(Settings::default(), &[&theirs_only]).await;
    let (addr, _) = front(peer.addr, without_negentropy).await;
    let outcome = ours.sync(addr, Purpose::List, "{}").await;
    assert_eq!(outcome.ended, Ok(()));
    let mut missing = outcome.missing;
    missing.sort_by_key(|missing| matches!(missing, Missing::Here(_)));
    assert_eq!(missing, [Missing::There(ours_only.id), Missing::Here(theirs_only.id)]);
    assert_eq!(ours.ids().len(), 1);
}

/// A relay sends 500 events of a second that has more; the others of that second are named as possibly missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_that_is_larger_than_a_page_is_mentioned() {
    let all: Vec<_> = (0..700).map(|n| event(1, 1, u64::from(n == 0), &[&["n", &n.to_string()]])).collect();
    let older = event(1, 1, 0, &[&["older"]]);
    let ours = App::start(Settings::default(), &[]).await;
    let peer = App::start(Settings::default(), &all.iter().chain([&older]).collect::<Vec<_>>()).await;
    let (addr, _) = front(peer.addr, without_negentropy).await;
    let outcome = ours.sync(addr, Purpose::Transfer(Direction::Down), "{}").await;
    assert_eq!((outcome.ended, outcome.tally.crowded_seconds), (Ok(()), 1));
}
