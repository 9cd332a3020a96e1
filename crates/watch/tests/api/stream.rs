//! Streams of changes: live, for a client that comes back, over a reorg and over a restart.

use birdhouse_chain::ScriptHash;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use birdhouse_watch::limits::SCRIPT_HISTORY_MAX;
use serde_json::{Value, json};

use crate::world::{World, cold, event, shop_script, to_shop};

/// Outputs that are made by one transaction, to be spent by as many.
const COINS_AT_ONCE: usize = 2_000;
/// Fee of that transaction.
const FEE_SAT: u64 = 100_000;

fn shop_hash(index: u32) -> String {
    ScriptHash::of(shop_script(0, index).as_bytes()).to_string()
}

fn cold_hash(world: &World) -> String {
    ScriptHash::of(world.live.wallet().script_pubkey(cold()).as_bytes()).to_string()
}

fn tip_event(world: &World) -> Value {
    let (height, hash) = world.tip();
    event("ChainTip", json!([height, hash]))
}

#[test]
fn payments_and_spends_are_told_as_the_documentation_has_them() {
    let mut world = World::start(11);
    world.sync();
    let mut all = world.server.listen("/stream", None).begun();
    let mut tips = world.server.listen("/stream?category=ChainTip", None).begun();
    let mut of_cold = world.server.listen(&format!("/scripthash/{}/stream", cold_hash(&world)), None).begun();
    let paid = world.live.pay(&[to_shop(0, 70_000), Payment::to_lock(cold(), 200_000)]).unwrap();
    let txid = paid.compute_txid();
    world.sync();
    let (shop, cold_hash) = (shop_hash(0), cold_hash(&world));
    let funding = |height: Option<u32>| {
        [
            event("Transaction", json!([txid, height])),
            event("TxoFunded", json!([format!("{txid}:0"), shop, 70_000, height])),
            event("TxoFunded", json!([format!("{txid}:1"), cold_hash, 200_000, height])),
        ]
    };
    for expected in funding(None) {
        assert_eq!(all.next().data, expected);
    }
    assert_eq!(of_cold.next().data, funding(None)[2]);
    world.live.mine().unwrap();
    world.sync();
    let (height, hash) = world.tip();
    for expected in funding(Some(height)) {
        assert_eq!(all.next().data, expected);
    }
    let tip = all.next();
    assert_eq!((tip.data, tip.id), (tip_event(&world), format!("{height}:{hash}")));
    assert_eq!(tips.next().data, tip_event(&world));
    assert_eq!(of_cold.next().data, funding(Some(height))[2]);

    let coins: Vec<_> = world.live.coins().into_iter().filter(|coin| coin.lock == cold()).collect();
    let spent = world.live.pay_from(&coins, &[], 1000).unwrap().compute_txid();
    let mut of_outpoint = world.server.listen(&format!("/stream?outpoint={txid}:1"), None).begun();
    world.sync();
    assert_eq!(all.next().data, event("Transaction", json!([spent, null])));
    let spending = event("TxoSpent", json!([format!("{spent}:0"), cold_hash, format!("{txid}:1"), null]));
    assert_eq!(all.next().data, spending);
    assert_eq!(of_cold.next().data, spending);
    // The listener came before or after the spending was known: the block tells it in any case.
    world.live.mine().unwrap();
    world.sync();
    let (height, _) = world.tip();
    let confirmed = event("TxoSpent", json!([format!("{spent}:0"), cold_hash, format!("{txid}:1"), height]));
    let events = [of_outpoint.next().data, of_outpoint.next().data];
    assert_eq!(events, [spending, confirmed]);
}

#[test]
fn a_replaced_transaction_is_told_once() {
    let mut world = World::start(12);
    world.sync();
    let mut all = world.server.listen("/stream", None).begun();
    let first = world.live.pay(&[to_shop(0, 70_000)]).unwrap();
    world.sync();
    all.until("TxoFunded");
    let second = world.live.replace(&first, &[to_shop(1, 60_000)], 30_000).unwrap();
    world.sync();
    let (old, new) = (first.compute_txid(), second.compute_txid());
    let expected = [
        event("TransactionReplaced", json!([old])),
        event("Transaction", json!([new, null])),
        event("TxoFunded", json!([format!("{new}:0"), shop_hash(1), 60_000, null])),
    ];
    for expected in expected {
        assert_eq!(all.next().data, expected);
    }
    world.live.mine().unwrap();
    world.sync();
    assert!(!all.until("ChainTip").iter().any(|event| event["category"] == "TransactionReplaced"));
}

#[test]
fn a_client_that_comes_back_is_told_what_it_missed_then_one_tip_then_what_happens() {
    let mut world = World::start(13);
    let from = world.tip();
    let mut paid = Vec::new();
    for index in 0..3 {
        paid.push(world.live.pay(&[to_shop(index, 50_000 + u64::from(index))]).unwrap().compute_txid());
        world.live.mine().unwrap();
    }
    let waiting = world.live.pay(&[to_shop(3, 90_000)]).unwrap().compute_txid();
    world.sync();
    let (height, hash) = world.tip();
    let funded = |txid: &bitcoin::Txid, index: u32, sat: u64, height: Option<u32>| {
        [
            event("Transaction", json!([txid, height])),
            event("TxoFunded", json!([format!("{txid}:0"), shop_hash(index), sat, height])),
        ]
    };
    let mut expected = Vec::new();
    for (index, txid) in (0..).zip(&paid) {
        expected.extend(funded(txid, index, 50_000 + u64::from(index), Some(from.0 + 1 + index)));
    }
    let unconfirmed = funded(&waiting, 3, 90_000, None);
    let cursor = format!("{}:{}", from.0, from.1);
    let encoded = cursor.replace(':', "%3A");
    for (path, last) in [
        (format!("/stream?synced-tip={cursor}"), None),
        (format!("/stream?synced-tip={encoded}"), None),
        (format!("/stream?synced-tip={}", from.0), None),
        ("/stream".into(), Some(cursor.as_str())),
        // The header of a client that comes back counts.
        ("/stream?synced-tip=0".into(), Some(cursor.as_str())),
    ] {
        let mut client = world.server.listen(&path, last).begun();
        let reported = client.until("ChainTip");
        assert_eq!(reported, [expected.clone(), unconfirmed.to_vec(), vec![tip_event(&world)]].concat(), "{path}");
    }
    // Exclusive, and with a filter.
    let mut client = world.server.listen(&format!("/stream?synced-tip={height}:{hash}"), None).begun();
    assert_eq!(client.until("ChainTip"), [unconfirmed.to_vec(), vec![tip_event(&world)]].concat());
    let mut client = world.server.listen("/stream?synced-tip=0&category=TxoFunded", None).begun();
    for index in 0..4 {
        assert_eq!(client.next().data["params"][1], json!(shop_hash(index)));
    }
    world.live.mine().unwrap();
    world.sync();
    assert_eq!(client.next().data, funded(&waiting, 3, 90_000, Some(height + 1))[1]);
}

#[test]
fn a_reorg_is_told_and_its_cursor_is_gone() {
    let mut world = World::start(14);
    world.live.mine_empty(2).unwrap();
    let paid = world.live.pay(&[to_shop(0, 70_000)]).unwrap();
    world.live.mine().unwrap();
    let double = world.live.pay(&[to_shop(1, 30_000)]).unwrap();
    world.live.mine().unwrap();
    world.sync();
    let (height, old_hash) = world.tip();
    let mut live = world.server.listen("/stream", None).begun();
    // Three other blocks: the first payment comes one later, the second never.
    world.live.branch(height - 2, vec![vec![], vec![paid.clone()], vec![]]).unwrap();
    world.sync();
    let (new_height, new_hash) = world.tip();
    assert_eq!(new_height, height + 1);
    let hash_at = world.live.node().block_hash(height).unwrap();
    assert_eq!(live.next().data, event("Reorg", json!([height, old_hash, hash_at])));
    let mut reported = live.until("ChainTip");
    assert_eq!(reported.pop(), Some(event("ChainTip", json!([new_height, new_hash]))));
    let txid = paid.compute_txid();
    assert!(reported.contains(&event("Transaction", json!([txid, height]))), "{reported:?}");
    assert!(
        reported.contains(&event("TxoFunded", json!([format!("{txid}:0"), shop_hash(0), 70_000, height]))),
        "{reported:?}"
    );
    // It waits in the mempool again, where the node allows it.
    let double = double.compute_txid();
    let again = event("Transaction", json!([double, null]));
    let replaced = event("TransactionReplaced", json!([double]));
    let is_waiting = world.live.waiting_txids().contains(&double);
    assert_eq!((reported.contains(&again), reported.contains(&replaced)), (is_waiting, !is_waiting), "{reported:?}");

    let mut gone = world.server.listen(&format!("/stream?synced-tip={height}:{old_hash}"), None);
    assert_eq!(gone.status, "HTTP/1.1 410 Gone");
    let text = format!("Reorg detected at height {height} (previous={old_hash} current={hash_at})");
    assert_eq!(gone.refusal(), text);
    let gone = world.server.get_with(
        &format!(
            "/address/{}/stream",
            bitcoin::Address::from_script(&shop_script(0, 0), bitcoin::Network::Regtest).unwrap()
        ),
        &[
            ("Authorization", &format!("Bearer {}", crate::world::TOKEN)),
            ("Last-Event-ID", &format!("{height}:{old_hash}")),
        ],
    );
    assert_eq!(gone.status, 410);
    // Without a hash nobody notices.
    assert_eq!(world.server.listen(&format!("/stream?synced-tip={height}"), None).status, "HTTP/1.1 200 OK");
}

#[test]
fn a_restart_between_two_blocks_loses_nothing() {
    let mut world = World::start(15);
    world.sync();
    let mut live = world.server.listen("/stream", None).begun();
    world.live.pay(&[to_shop(0, 70_000)]).unwrap();
    world.live.mine().unwrap();
    world.sync();
    let mut id = String::new();
    while id.is_empty() {
        id = live.next().id;
    }
    let mut paid = world.live.pay(&[to_shop(1, 60_000)]).unwrap().compute_txid();
    let mut world = world.restart(|_| {});
    for round in 0..3 {
        world.live.mine().unwrap();
        world.sync();
        let (height, _) = world.tip();
        let mut back = world.server.listen("/stream", Some(&id)).begun();
        let reported = back.until("ChainTip");
        let funded = event("TxoFunded", json!([format!("{paid}:0"), shop_hash(1 + round), 60_000, height]));
        assert!(reported.contains(&funded), "{reported:?}");
        let (height, hash) = world.tip();
        id = format!("{height}:{hash}");
        paid = world.live.pay(&[to_shop(2 + round, 60_000)]).unwrap().compute_txid();
        world = world.restart(|_| {});
    }
}

/// Pays the first address of the shop by this many transactions.
fn many_payments(world: &mut World, count: usize) {
    let lock = Lock::new(Form::P2wpkh, 990_001);
    for _ in 0..count.div_ceil(COINS_AT_ONCE) {
        let coin = world.live.confirmed_coins().into_iter().max_by_key(Coin::sat).unwrap();
        world.live.pay_from(&[coin], &vec![Payment::to_lock(lock, 2_000); COINS_AT_ONCE], FEE_SAT).unwrap();
        world.live.mine().unwrap();
    }
    let coins: Vec<Coin> = world.live.confirmed_coins().into_iter().filter(|coin| coin.lock == lock).collect();
    let pay = |coin: &Coin| world.live.sign(std::slice::from_ref(coin), &[to_shop(0, 1_000)]);
    let paid: Vec<_> = coins.iter().take(count).map(pay).collect();
    assert_eq!(paid.len(), count);
    for paid in paid.chunks(COINS_AT_ONCE) {
        world.live.mine_these(paid.to_vec()).unwrap();
    }
}

#[test]
fn a_stream_that_cannot_begin_says_why() {
    let mut world = World::start(16);
    let before = world.tip().0;
    many_payments(&mut world, SCRIPT_HISTORY_MAX + 1);
    world.sync();
    let mut refused = world.server.listen(&format!("/stream?synced-tip={before}"), None);
    assert_eq!(refused.status, "HTTP/1.1 400 Bad Request");
    assert_eq!(refused.refusal(), format!("an address of this answer has more than {SCRIPT_HISTORY_MAX} transactions"));
    let (height, hash) = world.tip();
    world.server.listen(&format!("/stream?synced-tip={height}:{hash}"), None).begun();
}
