//! Replaced transactions, and the times at which transactions came.

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use serde_json::{Value, json};

use crate::world::World;

#[test]
fn a_replaced_transaction_has_a_tree_of_versions() {
    let mut world = World::small(131);
    let [first, second, third] = world.versions().map(|version| version.compute_txid().to_string());
    let asked = |txid: &str| world.rest.json(&format!("/api/v1/tx/{txid}/rbf"));
    let (of_first, of_second, of_third) = (asked(&first), asked(&second), asked(&third));
    assert_eq!((&of_first["replaces"], &of_second["replaces"]), (&Value::Null, &json!([first])));
    assert_eq!(of_third["replaces"], json!([second]));
    assert_eq!(
        (&of_first["replacements"], &of_second["replacements"]),
        (&of_third["replacements"], &of_third["replacements"])
    );
    let tree = &of_third["replacements"];
    assert_eq!(
        (&tree["tx"]["txid"], &tree["tx"]["fee"], &tree["tx"]["rbf"]),
        (&json!(third), &json!(40_000), &json!(true))
    );
    let waiting = world.live.ledger().mempool();
    let entry = waiting.values().find(|entry| entry.fee_sat == 40_000).unwrap();
    assert_eq!((&tree["tx"]["vsize"], &tree["fullRbf"]), (&json!(entry.vsize), &json!(false)));
    assert!(tree.get("interval").is_none() && tree.get("mined").is_none(), "{tree}");
    let [older] = &tree["replaces"].as_array().unwrap()[..] else { panic!("{tree}") };
    assert_eq!((&older["tx"]["txid"], &older["tx"]["fullRbf"]), (&json!(second), &json!(false)));
    assert!(older["interval"].as_u64().is_some() && older["time"].as_u64() > Some(1_600_000_000), "{older}");
    assert_eq!(older["replaces"][0]["tx"]["txid"], json!(first));
    assert_eq!(world.rest.json("/api/v1/replacements"), json!([tree]));
    assert_eq!(world.rest.json("/api/v1/fullrbf/replacements"), json!([]));

    world.live.mine().unwrap();
    world.sync();
    let tree = &world.rest.json(&format!("/api/v1/tx/{first}/rbf"))["replacements"];
    assert_eq!((&tree["mined"], &tree["tx"]["mined"]), (&json!(true), &json!(true)));
    let unknown = "ab".repeat(32);
    let nothing = world.rest.json(&format!("/api/v1/tx/{unknown}/rbf"));
    assert_eq!(nothing, json!({ "replacements": null, "replaces": null }));
    assert_eq!(world.rest.refusal("/api/v1/tx/x/rbf"), (400, "Invalid hex string".into()));
}

#[test]
fn a_replaced_transaction_that_did_not_signal_it_is_a_full_replacement() {
    let mut world = World::small(132);
    let coin = world.live.confirmed_coins().swap_remove(0);
    let payment = [Payment::to_lock(Lock::new(Form::P2tr, 92), 60_000)];
    let change = Payment::to_lock(Lock::new(Form::P2wpkh, 94), coin.sat() - 61_000);
    let coins = [coin];
    let mut first = world.live.sign(&coins, &[payment[0].clone(), change]);
    first.input[0].sequence = bitcoin::Sequence::MAX;
    world.live.wallet().sign(&mut first, &coins);
    assert!(!first.is_explicitly_rbf());
    world.live.send(&first).unwrap();
    world.sync();
    world.live.replace(&first, &payment, 50_000).unwrap();
    world.sync();
    let trees = world.rest.json("/api/v1/fullrbf/replacements");
    assert_eq!(trees[0]["tx"]["fullRbf"], json!(true), "{trees}");
    assert_eq!(trees[0]["replaces"][0]["tx"]["txid"], json!(first.compute_txid()));
    assert_eq!(trees[0]["replaces"][0]["fullRbf"], json!(true));
}

#[test]
fn times_of_transactions_are_those_at_which_they_were_seen() {
    let mut world = World::small(133);
    let began = birdhouse_esplora::clock::now();
    let paid = world.live.pay(&[Payment::to_lock(Lock::new(Form::P2wpkh, 93), 50_000)]).unwrap().compute_txid();
    world.sync();
    let confirmed = world.live.ledger().chain().last().unwrap().txids[0];
    let times = world.rest.json(&format!("/api/v1/transaction-times?txId[]={confirmed}&txId%5B%5D={paid}&txId[2]=x"));
    assert_eq!((times.as_array().unwrap().len(), &times[0]), (2, &json!(0)));
    assert!((began..=birdhouse_esplora::clock::now()).contains(&times[1].as_u64().unwrap()), "{times}");
    assert_eq!(world.rest.refusal("/api/v1/transaction-times?txId=1"), (400, "invalid txId format".into()));
    let many = "txId[]=1&".repeat(101);
    let refused = world.rest.refusal(&format!("/api/v1/transaction-times?{many}"));
    assert_eq!(refused, (400, "Too many txids requested".into()));
}
