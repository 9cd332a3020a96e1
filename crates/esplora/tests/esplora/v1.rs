//! mempool's additions under `/v1`.

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use serde_json::{Value, json};

use crate::world::World;

/// A parent with a low fee and a child with a high one, in the mempool.
fn family(world: &mut World) -> (String, String) {
    let lock = Lock::new(Form::P2wpkh, 77);
    let parent = world.live.pay(&[Payment::to_lock(lock, 500_000)]).unwrap();
    let script = world.live.wallet().script_pubkey(lock);
    let coin: Coin = world.live.coins().into_iter().find(|coin| coin.output.script_pubkey == script).unwrap();
    let child = world.live.pay_from(&[coin], &[], 50_000).unwrap();
    world.sync();
    (parent.compute_txid().to_string(), child.compute_txid().to_string())
}

#[test]
fn fees_and_relatives_follow_from_the_mempool() {
    let mut world = World::small(71);
    let minimum = json!({ "fastestFee": 1, "halfHourFee": 1, "hourFee": 1, "economyFee": 1, "minimumFee": 1 });
    assert_eq!(world.rest.json("/api/v1/fees/recommended"), minimum);
    // The floor of Core 29.1 and later; mempool's server says at least 1 and 0.5 for the two most urgent.
    let precise = json!({ "fastestFee": 1, "halfHourFee": 0.5, "hourFee": 0.1, "economyFee": 0.1, "minimumFee": 0.1 });
    assert_eq!(world.rest.json("/api/v1/fees/precise"), precise);
    assert_eq!(world.rest.json("/api/v1/fees/mempool-blocks"), json!([]));
    let (parent, child) = family(&mut world);
    let waiting = world.live.ledger().mempool();
    let (fee, vsize) = waiting.values().fold((0, 0), |(fee, vsize), one| (fee + one.fee_sat, vsize + one.vsize));
    let blocks = world.rest.json("/api/v1/fees/mempool-blocks");
    let [block] = &blocks.as_array().unwrap()[..] else { panic!("{blocks}") };
    assert_eq!((&block["nTx"], &block["totalFees"], &block["blockVSize"]), (&json!(2), &json!(fee), &json!(vsize)));
    let rate = block["medianFee"].as_f64().unwrap();
    let entry = world.live.node().rpc("getmempoolentry", json!([child])).unwrap();
    let chunk_fee = entry["fees"]["chunk"].as_f64().unwrap() * 100_000_000.0;
    let expected = chunk_fee * 4.0 / entry["chunkweight"].as_f64().unwrap();
    assert!((rate - expected).abs() < 1e-9, "the child pays for both");
    assert_eq!(block["feeRange"].as_array().unwrap().len(), 7);
    let of_child = world.rest.json(&format!("/api/v1/cpfp/{child}"));
    assert_eq!((&of_child["ancestors"][0]["txid"], &of_child["descendants"]), (&json!(parent), &json!([])));
    assert!((of_child["effectiveFeePerVsize"].as_f64().unwrap() - expected).abs() < 1e-9);
    let of_parent = world.rest.json(&format!("/api/v1/cpfp/{parent}"));
    assert_eq!(of_parent["effectiveFeePerVsize"], of_child["effectiveFeePerVsize"]);
    assert_eq!((&of_parent["bestDescendant"]["txid"], &of_parent["ancestors"]), (&json!(child), &json!([])));
    let confirmed = world.live.ledger().chain().last().unwrap().txids[0];
    assert_eq!(world.rest.json(&format!("/api/v1/cpfp/{confirmed}")), json!({ "ancestors": [] }));
}

#[test]
fn blocks_times_and_addresses_have_mempools_shapes() {
    let world = World::small(72);
    let chain = world.live.ledger().chain();
    let blocks = world.rest.json("/api/v1/blocks");
    assert_eq!(blocks.as_array().unwrap().len(), 15);
    assert_eq!(blocks[0], world.rest.json("/blocks")[0]);
    assert_eq!(world.rest.json("/api/v1/blocks/3").as_array().unwrap().len(), 4);
    let times: Vec<u32> = chain.iter().map(|mined| mined.block.header.time).collect();
    for time in [times[0], times[5], times[5] + 1, u32::MAX] {
        let found = world.rest.json(&format!("/api/v1/mining/blocks/timestamp/{time}"));
        let best =
            (0..times.len()).filter(|height| times[*height] <= time).max_by_key(|height| (times[*height], *height));
        let height = best.unwrap();
        assert_eq!((&found["height"], &found["hash"]), (&json!(height), &json!(chain[height].hash.to_string())));
        assert!(found["timestamp"].as_str().unwrap().contains(".000Z"), "{found}");
    }
    assert_eq!(world.rest.refusal("/api/v1/mining/blocks/timestamp/1"), (404, "Block not found".into()));
    let change: Value = world.rest.json("/api/v1/difficulty-adjustment");
    let tip = world.live.ledger().height();
    assert_eq!((&change["remainingBlocks"], &change["nextRetargetHeight"]), (&json!(2016 - tip), &json!(2016)));
    let (status, text) = world.rest.refusal("/api/v1/prices");
    assert!(status == 404 && text.contains("not in the chain"), "{text}");
}

/// The addresses and mistakes of BIP 173, BIP 350 and Core's tests, besides addresses of every form.
#[test]
fn addresses_are_judged_as_core_does() {
    let world = World::small(73);
    let mut texts: Vec<String> = [Form::P2pkh, Form::P2shMultisig, Form::P2wpkh, Form::P2wsh, Form::P2tr]
        .map(|form| {
            let script = world.live.wallet().script_pubkey(Lock::new(form, 1));
            bitcoin::Address::from_script(&script, bitcoin::Network::Regtest).unwrap().to_string()
        })
        .into();
    // Pay-to-anchor, and a witness program of a version without a meaning.
    for script in ["51024e73", "52024e73", "60021234", "5114751e76e8199196d454941c45d1b3a323f1433bd6"] {
        let script = bitcoin::ScriptBuf::from_hex(script).unwrap();
        texts.push(bitcoin::Address::from_script(&script, bitcoin::Network::Regtest).unwrap().to_string());
    }
    let wrong = [
        "x",
        "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2",
        "mfWxJ45yp2SFn7UciZyNpvDKrzbhyfKrY9",
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
        "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt081",
        "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xx7kygt080",
        "bcrt1qw508d6qejxtdg4y5r3zarvaRy0c5xw7kygt080",
        "bcrt1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqc8gma6",
    ];
    texts.extend(wrong.map(str::to_owned));
    for text in texts {
        let core = world.live.node().rpc("validateaddress", json!([text])).unwrap();
        assert_eq!(world.rest.json(&format!("/api/v1/validate-address/{text}")), core, "{text}");
    }
}

/// mempool.js asks another network than mainnet at `/<network>/api/`.
#[test]
fn the_network_may_stand_before_the_api() {
    let world = World::small(74);
    let height = world.live.ledger().height().to_string();
    assert_eq!(world.rest.text("/regtest/api/blocks/tip/height"), height);
    for path in ["/signet/api/blocks/tip/height", "/testnet/api/blocks/tip/height", "/regtest/blocks/tip/height"] {
        let (status, text) = world.rest.refusal(path);
        assert_eq!((status, text), (404, format!("endpoint does not exist {path:?}")));
    }
}
