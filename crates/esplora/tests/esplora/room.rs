//! Memory of answers: asked for before they are made, and bounded.

use birdhouse_esplora::Limits;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use bitcoin::{Address, Network};
use serde_json::{Value, json};

use crate::world::{SMALL, World};

/// The txid of an unconfirmed transaction with this many outputs, and a change.
fn pay_many(world: &mut World, outputs: u32) -> String {
    let payments: Vec<Payment> =
        (0..outputs).map(|number| Payment::to_lock(Lock::new(Form::P2wpkh, 5_000 + number), 1_000)).collect();
    let coin = world.live.confirmed_coins().into_iter().max_by_key(Coin::sat).unwrap();
    let paid = world.live.pay_from(&[coin], &payments, 10_000).unwrap();
    world.sync();
    paid.compute_txid().to_string()
}

#[test]
fn spenders_are_not_looked_up_before_their_room_is_taken() {
    // A connection has its share of 64 kB, and no more.
    let limits = Limits { client_unsent_bytes: Some(0), ..Limits::default() };
    let mut world = World::of(201, SMALL, limits);
    let few = pay_many(&mut world, 10);
    assert_eq!(world.rest.json(&format!("/tx/{few}/outspends")).as_array().unwrap().len(), 11);
    // Their JSON, `{"spent":false}` for each, would fit. What looking for a thousand spenders may take does not.
    let many = pay_many(&mut world, 1_000);
    for path in [format!("/tx/{many}/outspends"), format!("/txs/outspends?txids={few},{many}")] {
        let (status, text) = world.rest.refusal(&path);
        assert!(status == 503 && text.starts_with("memory for requests"), "{status} {text}");
    }
}

#[test]
fn a_repeated_txid_is_answered_at_each_of_its_places_and_all_outputs_have_a_bound() {
    let mut world = World::small(202);
    let (few, many) = (pay_many(&mut world, 10), pay_many(&mut world, 2_450));
    let of = |txid: &str| world.rest.json(&format!("/tx/{txid}/outspends"));
    let (of_few, of_many) = (of(&few), of(&many));
    // As mempool's electrs: one list for each txid of the query, empty for what is no known transaction.
    let unknown = "ab".repeat(32);
    assert_eq!(
        world.rest.json(&format!("/txs/outspends?txids={few},{many},{few},x,{unknown},{few}")),
        json!([of_few, of_many, of_few, [], [], of_few])
    );
    // 50 times 2451 outputs are more than 120 000, 48 times are not.
    let times = |count: usize| format!("/txs/outspends?txids={}", vec![&*many; count].join(","));
    assert_eq!(world.rest.json(&times(48)).as_array().unwrap().len(), 48);
    assert_eq!(world.rest.refusal(&times(50)), (400, "Too many outputs requested".into()));
}

#[test]
fn what_is_written_in_pieces_is_whole() {
    let mut world = World::small(203);
    let many = pay_many(&mut world, 2_450);
    let transaction = world.rest.json(&format!("/tx/{many}"));
    let times = 20;
    let txids = json!(vec![&many; times]).to_string();
    let found = world.rest.private_post("/internal/txs", &txids);
    assert!(found == json!(vec![&transaction; times]), "other transactions");
    let outspends = world.rest.json(&format!("/tx/{many}/outspends"));
    let found = world.rest.private_post("/internal/txs/outspends/by-txid", &txids);
    assert!(found == json!(vec![&outspends; times]), "other spenders");
    let unknown = json!(["ab".repeat(32), many, "x"]).to_string();
    assert!(world.rest.private_post("/internal/txs", &json!([]).to_string()) == json!([]));
    assert!(world.rest.private_post("/internal/txs/outspends/by-txid", &unknown) == json!([[], outspends, []]));
}

#[test]
fn a_page_of_large_transactions_is_read_in_portions_and_whole() {
    let mut world = World::small(204);
    let script = world.live.wallet().script_pubkey(Lock::new(Form::P2wpkh, 5_000));
    let address = Address::from_script(&script, Network::Regtest).unwrap();
    // 14 times 76 kB are more than one portion.
    let mut txids: Vec<String> = Vec::new();
    for _ in 0..14 {
        txids.push(pay_many(&mut world, 2_450));
        world.live.mine().unwrap();
    }
    txids.push(pay_many(&mut world, 2_450));
    txids.reverse();
    let expected: Vec<Value> = txids.iter().map(|txid| world.rest.json(&format!("/tx/{txid}"))).collect();
    let page = world.rest.json(&format!("/address/{address}/txs"));
    assert!(page == json!(expected), "another page");
    let page = world.rest.json(&format!("/address/{address}/txs?max_txs=14"));
    assert!(page == json!(expected[..14]), "another page");
}
