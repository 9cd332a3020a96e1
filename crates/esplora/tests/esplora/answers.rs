//! Every endpoint at states of a changing node.

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use bitcoin::consensus::encode::serialize_hex;
use serde_json::{Value, json};

use crate::compare;
use crate::world::World;

fn pay(world: &mut World, number: u32) {
    let lock = Lock::new(Form::SPENDABLE[number as usize % Form::SPENDABLE.len()], 5);
    world.live.pay(&[Payment::to_lock(lock, 30_000), Payment::to_lock(lock, 20_000)]).unwrap();
}

#[test]
fn every_answer_is_that_of_a_scan_after_blocks_unconfirmed_transactions_and_reorgs() {
    let mut world = World::start(31);
    compare::all(&world);
    for number in 0..8 {
        pay(&mut world, number);
    }
    // A child of an unconfirmed parent.
    let coin = world
        .live
        .coins()
        .into_iter()
        .find(|coin| coin.sat() > 10_000 && world.live.ledger().mempool().contains_key(&coin.outpoint.txid));
    world.live.pay_from(&[coin.unwrap()], &[], 900).unwrap();
    compare::each_nth(&world, 4);
    world.live.mine().unwrap();
    compare::each_nth(&world, 4);
    // A stale block whose transactions return, and a longer branch without them.
    let stale = world.live.ledger().chain().last().unwrap().hash;
    let fork = world.live.ledger().height() - 2;
    world.live.branch(fork, vec![Vec::new(), Vec::new(), Vec::new()]).unwrap();
    compare::each_nth(&world, 4);
    assert_eq!(world.rest.refusal(&format!("/block/{stale}")), (404, "Block not found".into()));
    let status = json!({ "in_best_chain": false, "height": null, "next_best": null });
    assert_eq!(world.rest.json(&format!("/block/{stale}/status")), status);
    world.live.mine().unwrap();
    compare::all(&world);
}

#[test]
fn a_reorg_below_the_blocks_of_the_build_changes_every_answer() {
    let mut world = World::start(32);
    let fork = world.live.ledger().height() - 12;
    world.live.branch(fork, vec![Vec::new(); 13]).unwrap();
    compare::all(&world);
}

#[test]
fn transactions_are_broadcast_and_refused_with_cores_code() {
    let mut world = World::small(33);
    let coin = world.live.confirmed_coins().into_iter().max_by_key(Coin::sat).unwrap();
    let lock = Lock::new(Form::P2wpkh, 6);
    let sign = |world: &mut World, fee: u64| {
        world.live.sign(std::slice::from_ref(&coin), &[Payment::to_lock(lock, coin.sat() - fee)])
    };
    let (good, cheap) = (sign(&mut world, 1000), sign(&mut world, 900));
    let txid = good.compute_txid().to_string();
    let got = world.rest.post("/tx", &serialize_hex(&good));
    assert_eq!((got.status, got.text()), (200, txid.clone()));
    assert_eq!(got.header("cache-control"), "public, max-age=0");
    let got = world.rest.post("/tx", &serialize_hex(&cheap));
    assert_eq!(got.status, 400);
    let text = got.text();
    let error = text.strip_prefix("sendrawtransaction RPC error: ").unwrap();
    let error: Value = serde_json::from_str(error).unwrap();
    assert_eq!(error["code"], json!(-26));
    assert!(error["message"].as_str().unwrap().contains("insufficient fee"), "{text}");
    let got = world.rest.post("/tx", "00");
    assert_eq!(got.status, 400);
    assert!(got.text().contains("\"code\":-22"), "{}", got.text());
    // The same by GET, and Core's test of it.
    let again = world.rest.get(&format!("/broadcast?tx={}", serialize_hex(&good)));
    assert_eq!((again.status, again.text()), (200, txid.clone()));
    assert_eq!(world.rest.refusal("/broadcast"), (400, "Missing tx".into()));
    let tested = world.rest.post("/txs/test", &json!([serialize_hex(&good)]).to_string());
    let tested: Value = serde_json::from_slice(&tested.body).unwrap();
    assert_eq!((&tested[0]["txid"], &tested[0]["allowed"]), (&json!(txid), &json!(false)));
    let package = world.rest.post("/txs/package", &json!([serialize_hex(&good)]).to_string());
    let package: Value = serde_json::from_slice(&package.body).unwrap();
    assert!(package["package_msg"].is_string() && package["tx-results"].is_object(), "{package}");
    for (body, refusal) in [
        (json!(vec![serialize_hex(&good); 26]), "Exceeded maximum of 25 transactions"),
        (json!(["00"]), "Invalid transaction size for item 0"),
        (json!([serialize_hex(&good), "x".repeat(200)]), "Invalid transaction hex for item 1"),
    ] {
        let got = world.rest.post("/txs/package", &body.to_string());
        assert_eq!((got.status, got.text()), (400, refusal.to_owned()));
    }
}

#[test]
fn targets_without_an_estimate_are_left_out() {
    let world = World::small(34);
    assert_eq!(world.rest.json("/fee-estimates"), json!({}));
}
