//! Subscriptions beside a model of chain, mempool and client: random changes, and what each client must have received.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashSet;
use std::time::Duration;

use birdhouse_chain::{Found, Height};
use birdhouse_silentpayments::ScanKey;
use birdhouse_testkit::rng::{Rng, rounds};
use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, Txid};
use serde_json::Value;
use zeroize::Zeroizing;

use super::*;
use crate::limits::ServerLimits;
use crate::request::SilentKeys;
use crate::silentpayments::cursor::Cursor;
use crate::silentpayments::notification::object;
use crate::silentpayments::registry::SilentRegistry;
use crate::silentpayments::subscription::{Extent, FIRST_NOTIFICATION};

/// A block: its hash, and the payments in it.
#[derive(Clone)]
struct Block {
    hash: BlockHash,
    payments: Vec<u32>,
}

/// Chain and mempool. A payment is a number; each pays every subscription.
struct World {
    rng: Rng,
    chain: Vec<Block>,
    /// Payments in the mempool with the numbers of their insertion.
    waiting: Vec<(u64, u32)>,
    /// Payments that were replaced or evicted, and may come back.
    gone: Vec<u32>,
    mempool_next: u64,
    next_payment: u32,
    next_block: u32,
    now: Instant,
}

fn bytes(number: u32) -> [u8; 32] {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn found(payment: u32, height: Option<u32>) -> Found {
    Found { height: height.map(Height), txid: Txid::from_byte_array(bytes(payment)), tweak: [2; 33] }
}

/// Takes a random one out, if there is any.
fn taken<T>(rng: &mut Rng, from: &mut Vec<T>) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(rng.index(from.len())))
}

impl World {
    /// A subscription that begins now.
    fn entry(&self, registry: &SilentRegistry, address: &str, extent: Extent) -> Entry {
        Entry {
            address: address.into(),
            object: object(address, &[0], extent.start),
            extent,
            first_live: Cursor::at(self.len(), self.hash_at()),
            key: key(registry),
            permits: Permits::default(),
        }
    }

    fn new(seed: u64) -> Self {
        let mut world = Self {
            rng: Rng::new(seed),
            chain: Vec::new(),
            waiting: Vec::new(),
            gone: Vec::new(),
            mempool_next: 0,
            next_payment: 0,
            next_block: 0,
            now: Instant::now(),
        };
        for _ in 0..40 {
            world.mine();
        }
        world
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.rng.below_u32(limit)
    }

    fn mine(&mut self) {
        let mut payments = Vec::new();
        if self.below(3) == 0 {
            payments.push(self.next_payment);
            self.next_payment += 1;
        }
        let waiting = std::mem::take(&mut self.waiting);
        for (mempool_from, payment) in waiting {
            if self.below(2) == 0 { payments.push(payment) } else { self.waiting.push((mempool_from, payment)) }
        }
        self.next_block += 1;
        self.chain.push(Block { hash: BlockHash::from_byte_array(bytes(self.next_block)), payments });
    }

    fn change(&mut self) {
        match self.below(8) {
            0 | 1 => self.mine(),
            2 => {
                let depth = self.below(7).min(u32::try_from(self.chain.len()).unwrap() - 1);
                let mut back = Vec::new();
                for _ in 0..depth {
                    back.extend(self.chain.pop().unwrap().payments);
                }
                for payment in back {
                    self.arrive(payment);
                }
                for _ in 0..=depth {
                    self.mine();
                }
            }
            3 => {
                if let Some((_, payment)) = taken(&mut self.rng, &mut self.waiting) {
                    self.gone.push(payment);
                }
            }
            4 => {
                if let Some(payment) = taken(&mut self.rng, &mut self.gone) {
                    self.arrive(payment);
                }
            }
            _ => {
                let payment = self.next_payment;
                self.next_payment += 1;
                self.arrive(payment);
            }
        }
    }

    fn arrive(&mut self, payment: u32) {
        self.waiting.push((self.mempool_next, payment));
        self.mempool_next += 1;
    }

    fn hash_at(&self) -> impl Fn(u32) -> Option<BlockHash> + '_ {
        |height| self.chain.get(height as usize).map(|block| block.hash)
    }

    fn len(&self) -> u32 {
        u32::try_from(self.chain.len()).unwrap()
    }

    /// Does what a job asks for, as the threads that scan do.
    fn scan(&self, job: &Job, subscriptions: &mut SilentSubscriptions) -> (Vec<Vec<u8>>, bool) {
        let Some(heights) = job.blocks(self.len(), 0, self.hash_at()) else {
            let waiting = self.waiting.iter().filter(|(mempool_from, _)| *mempool_from >= job.mempool_from);
            let caught_up = CaughtUp {
                cursor: Cursor::at(self.len(), self.hash_at()),
                found: waiting.map(|(_, payment)| found(*payment, None)).collect(),
                mempool_from: self.mempool_next,
            };
            return (subscriptions.catch_up(job.id, caught_up, self.now).notifications, true);
        };
        let in_block =
            |height: u32| self.chain[height as usize].payments.iter().map(move |payment| found(*payment, Some(height)));
        let progress = Progress {
            cursor: Cursor::at(heights.end, self.hash_at()),
            rows: f64::from(heights.end) / f64::from(self.len()),
            found: heights.flat_map(in_block).collect(),
        };
        (subscriptions.advance(job.id, progress, self.now).notifications, false)
    }
}

/// A client with one subscription.
struct Client {
    object: String,
    start: u32,
    written: Option<Instant>,
    received: HashSet<String>,
    has_ended: bool,
}

impl Client {
    fn read(&mut self, lines: Vec<Vec<u8>>, now: Instant) {
        for line in lines {
            let line: Value = serde_json::from_slice(&line).unwrap();
            let params = &line["params"];
            assert_eq!(
                params["subscription"].to_string(),
                serde_json::from_str::<Value>(&self.object).unwrap().to_string()
            );
            assert!(now >= self.written.expect("the response is written") + FIRST_NOTIFICATION);
            let progress = params["progress"].as_f64().unwrap();
            assert!(!self.has_ended || progress >= 1.0);
            self.has_ended |= progress >= 1.0;
            for entry in params["history"].as_array().unwrap() {
                let txid = entry["tx_hash"].as_str().unwrap().to_owned();
                assert!(self.received.insert(txid), "twice");
            }
        }
    }
}

fn key(registry: &SilentRegistry) -> std::sync::Arc<crate::silentpayments::shared_key::SharedKey> {
    let spend = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
    let keys =
        SilentKeys { scan: Box::new(Zeroizing::new([3; 32])), spend: const_hex::decode_to_array(spend).unwrap() };
    registry.share(&keys, &[0], ScanKey::new(&keys.scan, &keys.spend, &[]).unwrap())
}

#[test]
fn every_payment_is_received_once_whatever_chain_and_mempool_do() {
    let (registry, mut checked) = (SilentRegistry::new(&ServerLimits::default()), 0);
    for seed in rounds(300) {
        let mut world = World::new(seed);
        let mut subscriptions = SilentSubscriptions::default();
        let mut clients: Vec<(SilentId, Client)> = Vec::new();
        for number in 0..3 {
            let start = world.below(world.len());
            let json = object(&format!("address{number}"), &[0], start);
            let entry = world.entry(&registry, &format!("address{number}"), Extent { start, end: None });
            let id = subscriptions.enter(entry, world.now);
            let client =
                Client { object: json.get().into(), start, written: None, received: HashSet::new(), has_ended: false };
            clients.push((id, client));
        }
        let mut steps = 0;
        let changes = 30 + world.below(60);
        loop {
            steps += 1;
            if steps < changes {
                world.change();
            }
            let advance_ms = world.below(400);
            world.now += Duration::from_millis(advance_ms.into());
            if steps % 7 == 0
                && let Some((id, _)) = clients.iter().find(|(_, client)| client.written.is_none())
            {
                subscriptions.settle(*id);
            }
            let now = world.now;
            for subscription in &mut subscriptions.all {
                let client = &mut clients.iter_mut().find(|(id, _)| *id == subscription.id).unwrap().1;
                client.read(subscription.due(now), now);
            }
            match subscriptions.step(now) {
                Step::Flush(ids) => {
                    subscriptions.written(&ids, now);
                    for (_, client) in clients.iter_mut().filter(|(id, _)| ids.contains(id)) {
                        client.written = Some(now);
                    }
                }
                Step::Scan(job) => {
                    let (lines, _) = world.scan(&job, &mut subscriptions);
                    clients.iter_mut().find(|(id, _)| *id == job.id).unwrap().1.read(lines, now);
                }
                Step::Rest | Step::Recheck => unreachable!("there are subscriptions, and none has failed"),
                Step::Wait(_) => {}
            }
            for mut job in subscriptions.live() {
                loop {
                    let (lines, is_done) = world.scan(&job, &mut subscriptions);
                    clients.iter_mut().find(|(id, _)| *id == job.id).unwrap().1.read(lines, now);
                    if is_done {
                        break;
                    }
                    job = subscriptions.live().into_iter().find(|next| next.id == job.id).unwrap();
                }
            }
            if steps > changes && clients.iter().all(|(_, client)| client.has_ended) {
                break;
            }
            assert!(steps < 10_000, "seed {seed}");
        }
        for (_, client) in &clients {
            let above = world.chain.iter().skip(client.start as usize).flat_map(|block| &block.payments);
            let all = above.chain(world.waiting.iter().map(|(_, payment)| payment));
            for payment in all {
                let txid = found(*payment, None).txid.to_string();
                assert!(client.received.contains(&txid), "seed {seed}: payment {payment} from {}", client.start);
                checked += 1;
            }
        }
    }
    println!("{checked} payments are received once");
}

#[test]
fn histories_take_turns_and_the_end_is_repeated_once() {
    let registry = SilentRegistry::new(&ServerLimits::default());
    let world = World::new(1);
    let mut subscriptions = SilentSubscriptions::default();
    let mut now = world.now;
    let ids: Vec<SilentId> = (0..2)
        .map(|number| {
            let entry = world.entry(&registry, &format!("address{number}"), Extent { start: 0, end: None });
            subscriptions.enter(entry, now)
        })
        .collect();
    assert!(matches!(subscriptions.step(now), Step::Wait(None)));
    for id in &ids {
        subscriptions.settle(*id);
    }
    assert!(matches!(subscriptions.step(now), Step::Flush(waiting) if waiting == ids));
    subscriptions.written(&ids, now);
    assert!(matches!(subscriptions.step(now), Step::Wait(Some(until)) if until == now + FIRST_NOTIFICATION));
    now += FIRST_NOTIFICATION;
    let mut scanned = Vec::new();
    while let Step::Scan(job) = subscriptions.step(now) {
        scanned.push(job.id);
        world.scan(&job, &mut subscriptions);
    }
    // Forty blocks are three pieces; then comes the mempool.
    assert_eq!(scanned, [ids.clone(), ids.clone(), ids.clone(), ids.clone()].concat());
    let Step::Wait(Some(until)) = subscriptions.step(now) else { panic!("the end is repeated") };
    assert!(subscriptions.due(now).is_empty());
    let repeated = subscriptions.due(until);
    assert_eq!(repeated.len(), 2);
    for line in repeated {
        let line: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&line["params"]["progress"], &line["params"]["history"]), (&1.0.into(), &Value::Array(Vec::new())));
    }
    assert!(matches!(subscriptions.step(until), Step::Wait(None)));
    subscriptions.put_off(ids[0], until);
    assert!(matches!(subscriptions.step(until), Step::Recheck));
    assert!(matches!(subscriptions.step(until), Step::Wait(None)));
    subscriptions.leave("address0");
    subscriptions.fail(ids[1]);
    assert!(matches!(subscriptions.step(until), Step::Rest));
}

#[test]
fn a_history_that_takes_long_says_its_progress() {
    let registry = SilentRegistry::new(&ServerLimits::default());
    let world = World::new(2);
    let mut subscriptions = SilentSubscriptions::default();
    let entry = world.entry(&registry, "address", Extent { start: 0, end: None });
    let id = subscriptions.enter(entry, world.now);
    subscriptions.settle(id);
    subscriptions.written(&[id], world.now);
    assert!(subscriptions.due(world.now + FIRST_NOTIFICATION).is_empty());
    let later = world.now + FIRST_NOTIFICATION + Duration::from_secs(5);
    let progress = |lines: Vec<Vec<u8>>| -> Vec<Value> {
        lines.iter().map(|line| serde_json::from_slice::<Value>(line).unwrap()["params"]["progress"].clone()).collect()
    };
    assert_eq!(progress(subscriptions.due(later)), [0.0]);
    let cursor = Cursor::at(16, world.hash_at());
    let sent = subscriptions.advance(id, Progress { cursor, found: Vec::new(), rows: 0.5 }, later);
    assert!(sent.notifications.is_empty());
    assert_eq!(progress(subscriptions.due(later + Duration::from_secs(5))), [0.5]);
}

#[test]
fn a_range_subscribed_again_goes_on_after_the_tip_of_the_first_request() {
    let registry = SilentRegistry::new(&ServerLimits::default());
    let mut world = World::new(3);
    let mut subscriptions = SilentSubscriptions::default();
    let mut subscribe = |world: &World| {
        let entry = world.entry(&registry, "address", Extent { start: 3, end: Some(6) });
        let id = subscriptions.enter(entry, world.now);
        subscriptions.settle(id);
        subscriptions.written(&[id], world.now);
        let mut sent = Vec::new();
        while let Step::Scan(job) = subscriptions.step(world.now + FIRST_NOTIFICATION) {
            sent.extend(world.scan(&job, &mut subscriptions).0);
        }
        let lines = sent.iter().map(|line| serde_json::from_slice::<Value>(line).unwrap());
        let entries = lines.flat_map(|line| line["params"]["history"].as_array().unwrap().clone());
        entries.map(|entry| entry["tx_hash"].as_str().unwrap().to_owned()).collect::<HashSet<_>>()
    };
    subscribe(&world);
    let new = [world.next_payment, world.next_payment + 1];
    world.next_payment += 2;
    for payment in new {
        world.mine();
        world.chain.last_mut().unwrap().payments.push(payment);
    }
    let received = subscribe(&world);
    assert!(new.iter().all(|payment| received.contains(&found(*payment, None).txid.to_string())));
}

#[test]
fn a_history_is_ending_from_its_last_scan_until_it_is_live_put_off_or_left() {
    let registry = SilentRegistry::new(&ServerLimits::default());
    let world = World::new(4);
    let mut subscriptions = SilentSubscriptions::default();
    let enter = |subscriptions: &mut SilentSubscriptions| {
        let entry = world.entry(&registry, "address", Extent { start: 0, end: None });
        subscriptions.enter(entry, world.now)
    };
    let id = enter(&mut subscriptions);
    subscriptions.ends(id);
    assert!(!subscriptions.has_ending(), "no history has begun");
    subscriptions.settle(id);
    subscriptions.written(&[id], world.now);
    let now = world.now + FIRST_NOTIFICATION;
    let last = loop {
        let Step::Scan(job) = subscriptions.step(now) else { panic!("the history is not over") };
        assert!(!subscriptions.has_ending());
        if job.blocks(world.len(), 0, world.hash_at()).is_none() {
            break job;
        }
        world.scan(&job, &mut subscriptions);
    };
    subscriptions.ends(id);
    assert!(subscriptions.has_ending() && !subscriptions.has_live());
    subscriptions.put_off(id, now);
    assert!(!subscriptions.has_ending());
    subscriptions.ends(id);
    world.scan(&last, &mut subscriptions);
    assert!(!subscriptions.has_ending() && subscriptions.has_live());
    subscriptions.ends(id);
    assert!(!subscriptions.has_ending(), "the notifier itself scans");
    let again = enter(&mut subscriptions);
    subscriptions.settle(again);
    subscriptions.written(&[again], now);
    subscriptions.ends(again);
    assert!(subscriptions.has_ending());
    subscriptions.leave("address");
    assert!(!subscriptions.has_ending());
}
