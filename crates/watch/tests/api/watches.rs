//! The API on the watches of a file, as the server has them.

use birdhouse_testkit::tx::Payment;
use birdhouse_watch::BeyondGap;
use bitcoin::{Amount, OutPoint};
use serde_json::json;

use crate::silent_sender::{KnownCoin, pay, script, secret};
use crate::world::{Engine, World, cold, silent_receiver, to_shop};

#[test]
fn the_watches_of_a_file_are_served_and_their_windows_slide() {
    let mut world = World::of(51, Engine::File, BeyondGap::Refuse);
    world.sync();
    let wallets = world.server.wait_for("/wallets", |got| got.status == 200).json();
    let names: Vec<_> = wallets.as_object().unwrap().values().map(|wallet| wallet["name"].clone()).collect();
    assert_eq!(names.iter().filter(|name| **name == json!("Shop")).count(), 2);
    assert_eq!((names.len(), &world.server.json("/wallet/Cold")["is_wildcard"]), (3, &json!(false)));
    let mut stream = world.server.listen("/stream?category=TxoFunded", None).begun();
    // Beyond the gap of the watch, within the window of a restored wallet.
    world.live.pay(&[to_shop(90, 5_000), Payment::to_lock(cold(), 7_000)]).unwrap();
    world.sync();
    let values = [stream.next().data["params"][2].clone(), stream.next().data["params"][2].clone()];
    assert_eq!(values, [json!(5_000), json!(7_000)]);
    world.server.wait_for("/wallet/Shop/next", |got| got.text == "91");
    // The window has moved on.
    world.live.pay(&[to_shop(150, 6_000)]).unwrap();
    world.sync();
    assert_eq!(stream.next().data["params"][2], json!(6_000));
    world.server.wait_for("/wallet/Shop", |got| got.json()["max_funded_index"] == json!(150));
    assert_eq!(world.server.json("/utxos").as_array().unwrap().len(), 3);
    let made = world.server.post("/invoices", &json!({ "wallet": "Shop", "amount": 1 }).to_string());
    assert!(made.status == 201 && made.json()["origin"].as_str().unwrap().ends_with("/151"), "{made:?}");

    let world = world.restart(|_| {});
    let funded = world.server.wait_for("/wallet/Shop", |got| got.status == 200).json()["max_funded_index"].clone();
    assert_eq!(funded, json!(150));
    let made = world.server.post("/invoices", &json!({ "wallet": "Shop", "amount": 1 }).to_string());
    assert!(made.json()["origin"].as_str().unwrap().ends_with("/152"), "{made:?}");
}

#[test]
fn an_open_stream_tells_silent_payments_and_what_a_window_reaches_later() {
    let mut world = World::of(52, Engine::File, BeyondGap::Refuse);
    let (key, sat) = (secret(11), 100_000);
    let paid = world.live.pay(&[Payment::to_script(script(&key), sat)]).unwrap();
    world.live.mine().unwrap();
    world.sync();
    world.server.wait_for("/wallets", |got| got.status == 200);
    let mut stream = world.server.listen("/stream?category=TxoFunded", None).begun();
    let mut funded = || {
        let params = stream.next().data["params"].clone();
        (params[0].clone(), params[2].clone(), params[3].clone())
    };

    let outpoint = OutPoint { txid: paid.compute_txid(), vout: 0 };
    let coin = KnownCoin { key, outpoint, value: Amount::from_sat(sat) };
    let silent = pay(&coin, &silent_receiver(), None, Amount::from_sat(1_000)).transaction;
    world.live.send(&silent).unwrap();
    world.sync();
    let output = json!(format!("{}:0", silent.compute_txid()));
    assert_eq!(funded(), (output.clone(), json!(99_000), json!(null)));
    world.live.mine().unwrap();
    world.sync();
    let (height, _) = world.tip();
    assert_eq!(funded(), (output, json!(99_000), json!(height)));

    // Beyond the window of 100, in a block that the stream has gone past once the window moves.
    world.live.pay(&[to_shop(150, 5_000)]).unwrap();
    world.live.mine().unwrap();
    world.sync();
    let (height, _) = world.tip();
    world.live.pay(&[to_shop(90, 7_000)]).unwrap();
    world.sync();
    let (_, value, block) = funded();
    assert_eq!((value, block), (json!(5_000), json!(height)));
    let (_, value, block) = funded();
    assert_eq!((value, block), (json!(7_000), json!(null)));
}
