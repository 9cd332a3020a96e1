//! Answers beside a node that has removed the blocks of many payments: they are whole at the first request.

use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::tx::{Coin, Payment};
use birdhouse_testkit::{Bitcoind, Options};
use bitcoin::{Address, Network, OutPoint, Txid};
use serde_json::{Value, json};

use crate::world::{World, cold, shop_script, to_shop};

/// Payments of each kind, each in a block of its own: more than the times that blocks are fetched for one answer.
const PAYMENTS: u32 = 20;
/// The address of the shop that is paid again and again.
const BUSY: u32 = 40;

/// Mines a payment in a block of its own.
fn mined(world: &mut World, payment: Payment) -> Txid {
    let txid = world.live.pay(&[payment]).unwrap().compute_txid();
    world.live.mine().unwrap();
    txid
}

fn address(index: u32) -> String {
    Address::from_script(&shop_script(0, index), Network::Regtest).unwrap().to_string()
}

/// Pays a new invoice in a block of its own.
fn paid_invoice(world: &mut World, number: u32) -> Txid {
    let order = json!({ "wallet": "Shop", "amount": 10_000 + number }).to_string();
    let made = world.server.post("/invoices", &order);
    assert_eq!((made.status, &made.json()["address"]), (201, &json!(address(number))));
    let txid = mined(world, to_shop(number, u64::from(10_000 + number)));
    world.sync();
    txid
}

/// Spends coins of the node's own script in one transaction, in a block of its own.
fn spent_at_once(world: &mut World, txids: &[Txid]) -> Txid {
    let is_funded = |coin: &Coin| coin.lock == cold() && txids.contains(&coin.outpoint.txid);
    let coins: Vec<Coin> = world.live.coins().into_iter().filter(is_funded).collect();
    assert_eq!(coins.len(), txids.len());
    let spent = world.live.pay_from(&coins, &[], 1_000).unwrap().compute_txid();
    world.live.mine().unwrap();
    spent
}

/// The transactions of outpoints, or of other texts that begin with a txid.
fn txids<'a>(texts: impl Iterator<Item = &'a Value>) -> Vec<Txid> {
    let txid = |text: &Value| text.as_str().unwrap().split(':').next().unwrap().parse().unwrap();
    texts.map(txid).collect()
}

fn sorted(mut txids: Vec<Txid>) -> Vec<Txid> {
    txids.sort_unstable();
    txids
}

#[test]
fn answers_about_many_removed_blocks_are_whole_at_the_first_request() {
    let mut world = World::pruned(61);
    world.sync();
    let of_invoices: Vec<Txid> = (0..PAYMENTS).map(|number| paid_invoice(&mut world, number)).collect();
    let busy: Vec<Txid> = (0..PAYMENTS).map(|_| mined(&mut world, to_shop(BUSY, 5_000))).collect();
    let before = world.live.ledger().height();
    let funding: Vec<Txid> = (0..PAYMENTS).map(|_| mined(&mut world, Payment::to_lock(cold(), 7_000))).collect();
    let spending = spent_at_once(&mut world, &funding);
    let last = world.live.ledger().height();
    let port = free_port().unwrap();
    let peer = Bitcoind::start(Options::default().arg("-listen=1").arg(format!("-bind=127.0.0.1:{port}"))).unwrap();
    let kept = world.prune();
    assert!(kept > last, "the block at {last} is still there");
    for mined in &world.live.ledger().chain()[1..] {
        peer.submit(0, &mined.block).unwrap();
    }
    world.live.node().meet(port).unwrap();

    // One transaction whose inputs were funded by as many blocks.
    let spent = world.server.json(&format!("/tx/{spending}"));
    let prevouts = spent["spending"].as_array().unwrap().iter().map(|input| &input["prevout"]);
    assert_eq!(sorted(txids(prevouts)), sorted(funding.clone()));

    let invoices = world.server.json("/invoices");
    let invoices = invoices.as_array().unwrap();
    assert!(invoices.iter().all(|invoice| invoice["state"] == "confirmed"), "{invoices:?}");
    let paid = invoices.iter().rev().map(|invoice| &invoice["payments"][0]["outpoint"]);
    assert_eq!(txids(paid), of_invoices);

    let listed = world.server.json(&format!("/address/{}/txs", address(BUSY)));
    let listed = listed.as_array().unwrap();
    assert!(listed.iter().all(|listed| listed["funding"][0]["amount"] == 5_000), "{listed:?}");
    assert_eq!(txids(listed.iter().map(|listed| &listed["txid"])), busy);

    // A client that comes back from a block in between.
    let path = format!("/stream?synced-tip={before}&category=TxoFunded");
    let mut stream = world.server.listen(&path, None).begun();
    let events: Vec<Value> = (0..PAYMENTS).map(|_| stream.next().data).collect();
    let outpoints: Vec<OutPoint> =
        events.iter().map(|event| event["params"][0].as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(outpoints.iter().map(|outpoint| outpoint.txid).collect::<Vec<_>>(), funding);
}
