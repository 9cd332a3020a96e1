//! Notifications: after each change exactly one for each subscribed script whose status changed, with the status of the
//! history that can then be fetched, and soon.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use birdhouse_testkit::Options;
use birdhouse_testkit::asked::Scripts;
use birdhouse_testkit::live::{LiveNode, Move};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use bitcoin::{ScriptBuf, Transaction};
use serde_json::Value;

use crate::birds::{PATIENCE, World};
use crate::watcher::Watcher;

/// Bound of the median for a busy machine; the promise is 100 ms, and the measured time is printed.
const ZMQ_MAX: Duration = Duration::from_secs(2);
/// Time to wait for a notification that must not come.
const QUIET: Duration = Duration::from_millis(150);

#[test]
fn each_change_notifies_exactly_the_scripts_whose_status_changed_once() {
    let mut world = World::start(61, Options::default());
    let mut watchers = watchers(&world);
    let mut run = Run { latencies: vec![Vec::new(); watchers.len()], tx: None };
    for (what, change) in CHANGES {
        let before = world.live.ledger().scripts();
        change(&mut world.live, &mut run);
        let now = world.live.ledger().scripts();
        for (index, watcher) in watchers.iter_mut().enumerate() {
            let name = world.birds[index].name;
            let last = hears(watcher, &before, &now, &format!("{what}: {name}"));
            run.latencies[index].extend(last.map(|last| last - world.live.given_at()));
        }
    }
    for (bird, latencies) in world.birds.iter().zip(&mut run.latencies) {
        latencies.sort();
        let (median, max) = (latencies[latencies.len() / 2], latencies[latencies.len() - 1]);
        println!("{}: notified after {median:?} (median of {} changes), {max:?} at most", bird.name, latencies.len());
    }
    let median = run.latencies[0][run.latencies[0].len() / 2];
    assert!(median < ZMQ_MAX, "with ZMQ: {:?}", run.latencies[0]);
}

struct Run {
    /// By server: time from the change at the node to the last notification.
    latencies: Vec<Vec<Duration>>,
    /// The last payment.
    tx: Option<Transaction>,
}

type Change = (&'static str, fn(&mut LiveNode, &mut Run));

/// Changes that are one event at the node.
const CHANGES: &[Change] = &[
    ("a payment to scripts old and new", |live, run| {
        run.tx = Some(live.pay(&[payment(0), payment(1000)]).unwrap());
    }),
    ("a replacement, for other scripts", |live, run| {
        let tx = run.tx.take().unwrap();
        run.tx = Some(live.replace(&tx, &[payment(1), payment(1001)], 20_000).unwrap());
    }),
    ("a child", |live, run| {
        let tx = run.tx.as_ref().unwrap();
        let coins = live.coins().into_iter().filter(|coin| coin.outpoint.txid == tx.compute_txid());
        let coin = coins.max_by_key(Coin::sat).unwrap();
        live.pay_from(&[coin], &[payment(2)], 3000).unwrap();
    }),
    ("a replacement that evicts the child too", |live, run| {
        let tx = run.tx.take().unwrap();
        run.tx = Some(live.replace(&tx, &[payment(3)], 90_000).unwrap());
    }),
    ("an empty block", |live, _| live.mine_empty(1).unwrap()),
    ("a block that confirms the payment", |live, _| live.mine().unwrap()),
    ("two more payments", |live, run| {
        live.pay(&[payment(4)]).unwrap();
        run.tx = Some(live.pay(&[payment(5)]).unwrap());
    }),
    ("a block that spends the coin of a waiting payment otherwise", |live, run| {
        let coins = live.coins_of(run.tx.as_ref().unwrap());
        let total: u64 = coins.iter().map(Coin::sat).sum();
        let other = live.sign(&coins, &[Payment { sat: total - 1000, ..payment(6) }]);
        live.mine_these(vec![other]).unwrap();
    }),
    ("the last block taken back", |live, _| live.roll_back(1).unwrap()),
    ("a longer branch of empty blocks", |live, _| {
        let fork = live.ledger().height() - 2;
        live.branch(fork, vec![Vec::new(); 3]).unwrap();
    }),
    ("a block of all that waits", |live, _| live.mine().unwrap()),
];

fn payment(number: u32) -> Payment {
    Payment::to_lock(lock(number), 50_000)
}

fn lock(number: u32) -> Lock {
    Lock::new(Form::P2wpkh, number)
}

/// Subscribes every watcher to every script of the chain, and to some unused ones.
fn watchers(world: &World) -> Vec<Watcher> {
    let mut scripts: Vec<ScriptBuf> = world.live.ledger().scripts().into_keys().collect();
    let unused = (1000..1010).chain(0..10).map(|number| world.live.wallet().script_pubkey(lock(number)));
    scripts.extend(unused);
    scripts.sort();
    scripts.dedup();
    world.birds.iter().map(|bird| Watcher::new(&bird.peer, &scripts)).collect()
}

/// Waits for all expected notifications, proves that no other comes, and returns the time of the last.
fn hears(watcher: &mut Watcher, before: &Scripts, now: &Scripts, context: &str) -> Option<Instant> {
    let (before, right) = (watcher.right(before), watcher.right(now));
    let mut expected: BTreeMap<&String, &Value> =
        right.iter().filter(|(hash, status)| before[*hash] != **status).collect();
    let mut last = None;
    while !expected.is_empty() {
        let next = watcher.next(PATIENCE).unwrap_or_else(|| panic!("{context}: no notification of {expected:?}"));
        let status = expected.remove(&next.scripthash);
        assert_eq!(status, Some(&next.status), "{context}: one notification, with the right status: {next:?}");
        assert_eq!(
            watcher.fetched_status(&next.scripthash),
            next.status,
            "{context}: the history that is fetched then"
        );
        last = Some(next.at);
    }
    let more = watcher.next(QUIET);
    assert!(more.is_none(), "{context}: a needless notification: {more:?}");
    last
}

/// The Electrum wallet hashes the history that it fetches after a notification; another status must follow where it
/// differs.
#[test]
fn every_notified_status_is_that_of_a_history_fetched_after_it_or_another_follows() {
    let mut world = World::start(62, Options::default());
    let mut watchers = watchers(&world);
    let moving = AtomicBool::new(true);
    let live = &mut world.live;
    std::thread::scope(|scope| {
        for watcher in &mut watchers {
            let moving = &moving;
            scope.spawn(move || follows(watcher, moving));
        }
        let _end = End(&moving);
        for _ in 0..120 {
            live.random_move().unwrap();
        }
    });
    world.settle("after the moves");
    for (bird, watcher) in world.birds.iter().zip(&mut watchers) {
        let right = watcher.right(&world.live.ledger().scripts());
        while !watcher.stale(&right).is_empty() {
            let next = watcher.next(PATIENCE);
            assert!(next.is_some(), "{}: no notification of the last change: {:?}", bird.name, watcher.stale(&right));
        }
        while watcher.next(QUIET).is_some() {}
        assert_eq!(watcher.stale(&right), Vec::<String>::new(), "{}: a notification of another state", bird.name);
    }
}

/// Ends the followers when dropped, also by a panic: otherwise the scope would wait for them for ever.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn follows(watcher: &mut Watcher, moving: &AtomicBool) {
    let mut open: BTreeMap<String, Instant> = BTreeMap::new();
    let mut count = 0;
    loop {
        match watcher.next(QUIET) {
            Some(notification) => {
                count += 1;
                if watcher.fetched_status(&notification.scripthash) == notification.status {
                    open.remove(&notification.scripthash);
                } else {
                    open.entry(notification.scripthash).or_insert(notification.at);
                }
            }
            None if moving.load(Ordering::Relaxed) || !open.is_empty() => {}
            None => break,
        }
        let late = open.iter().find(|(_, since)| since.elapsed() > PATIENCE);
        assert!(late.is_none(), "no status followed that fits the history: {late:?}");
    }
    assert!(count > 0, "no notification came");
    assert!(open.is_empty(), "no status followed that fits the history: {open:?}");
}

#[test]
fn every_kind_of_move_ends_in_the_right_status_for_everyone() {
    let small = ["-maxmempool=1", "-limitclustersize=25", "-mempoolexpiry=1"];
    let mut world = World::start(63, small.into_iter().fold(Options::default(), Options::arg));
    let mut watchers = watchers(&world);
    for what in Move::ALL {
        world.live.make(Move::Pay).unwrap();
        world.live.make(what).unwrap();
        let scripts = world.live.ledger().scripts();
        for (bird, watcher) in world.birds.iter().zip(&mut watchers) {
            let right = watcher.right(&scripts);
            while !watcher.stale(&right).is_empty() {
                let next = watcher.next(PATIENCE);
                assert!(next.is_some(), "{}: {what:?}: no notification of {:?}", bird.name, watcher.stale(&right));
            }
        }
    }
}
