//! The script of the genesis block, as Esplora's server has it: it counts that output as any other, for it makes rows
//! of every output of every block (`index_transaction` in `src/new_index/schema.rs` of Blockstream's electrs).

use birdhouse_testkit::client::scripthash;
use birdhouse_testkit::http_client::rest_path;
use birdhouse_testkit::tx::Payment;
use bitcoin::constants::genesis_block;
use bitcoin::{Amount, Network};
use serde_json::{Value, json};

use crate::world::World;

#[test]
fn the_output_of_the_genesis_block_counts_for_its_script() {
    let mut world = World::small(301);
    let genesis = genesis_block(Network::Regtest);
    let (transaction, time) = (&genesis.txdata[0], genesis.header.time);
    let (txid, output) = (transaction.compute_txid(), &transaction.output[0]);
    let path = rest_path(&scripthash(output.script_pubkey.as_bytes()));
    let hash = path.rsplit('/').next().unwrap().to_owned();
    let sat = Amount::from_int_btc(50).to_sat();
    let shown = world.rest.json(&format!("/tx/{txid}"));
    let status = &shown["status"];
    assert_eq!((&status["block_height"], &status["confirmed"]), (&json!(0), &json!(true)));

    let stats = world.rest.json(&path)["chain_stats"].clone();
    let expected = json!({
        "funded_txo_count": 1, "funded_txo_sum": sat, "spent_txo_count": 0, "spent_txo_sum": 0, "tx_count": 1,
    });
    assert_eq!(stats, expected);
    for list in ["txs", "txs/chain"] {
        assert_eq!(world.rest.json(&format!("{path}/{list}")), json!([shown]), "{list}");
    }
    let coin = json!({ "txid": txid.to_string(), "vout": 0, "status": status, "value": sat });
    assert_eq!(world.rest.json(&format!("{path}/utxo")), json!([coin]));
    let change = json!({ "txid": txid.to_string(), "value": sat, "height": 0, "time": time, "tx_position": 0 });
    assert_eq!(world.rest.json(&format!("{path}/txs/summary")), json!([change]));
    let posted = world.rest.post("/scripthashes/txs", &json!([hash]).to_string());
    assert_eq!(serde_json::from_slice::<Value>(&posted.body).unwrap(), json!([shown]));
    assert_eq!(world.rest.json(&format!("/tx/{txid}/outspends")), json!([{ "spent": false }]));

    // Later payments come before it, and its transaction is a cursor as any other.
    let paid = world.live.pay(&[Payment::to_script(output.script_pubkey.clone(), 5000)]).unwrap().compute_txid();
    world.live.mine().unwrap();
    world.sync();
    let stats = world.rest.json(&path)["chain_stats"].clone();
    assert_eq!((&stats["tx_count"], &stats["funded_txo_sum"]), (&json!(2), &json!(sat + 5000)));
    let txids = |list: &str| -> Vec<String> {
        let list = world.rest.json(&format!("{path}/{list}"));
        list.as_array().unwrap().iter().map(|entry| entry["txid"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(txids("txs"), [paid.to_string(), txid.to_string()]);
    assert_eq!(txids(&format!("txs/chain/{paid}")), [txid.to_string()]);
    assert_eq!(txids(&format!("txs/chain/{txid}")), [""; 0]);
    assert_eq!(txids("utxo").len(), 2);
}
