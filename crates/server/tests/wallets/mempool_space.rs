//! `@mempool/electrum-client` (npm) subscribes, gets notifications, and sends the requests of mempool.space's backend.

use birdhouse_testkit::client::scripthash;
use birdhouse_testkit::mempool_client::{MempoolClient, Output};
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Transaction, Txid};
use serde_json::{Value, json};

use crate::LiveWorld;

const STATUS: &str = "blockchain.scripthash.subscribe";
const TIP: &str = "blockchain.headers.subscribe";

#[test]
fn mempool_spaces_client_subscribes_and_gets_its_notifications() {
    let mut world = LiveWorld::start(53);
    let script = world.live.wallet().foreign_address(7).script_pubkey();
    let hash = scripthash(script.as_bytes());
    let mut client = match MempoolClient::start(world.server.port(), &hash) {
        Err(error) if error.is_missing_program() => {
            eprintln!("LEFT OUT: @mempool/electrum-client is not there; run `scripts/peers mempool-client`");
            return;
        }
        started => started.unwrap(),
    };
    let mut hears = |what: &str| {
        let output = client.next_output().unwrap();
        assert_eq!(output.what, what, "{output:?}");
        output.value
    };
    let version = hears("version");
    assert!(version[0].as_str().unwrap().contains("ElectrumX") && version[1] == "1.4", "{version}");
    assert_eq!(hears("tip")["height"], json!(world.live.ledger().height()));
    assert_eq!((hears("status"), hears("ready")), (Value::Null, Value::Null));

    let tx = world.pay(&script, 123_456);
    let status = |world: &LiveWorld| world.live.ledger().scripts()[&script].status();
    assert_eq!(hears(STATUS), json!([hash, status(&world)]), "unconfirmed");

    world.live.mine().unwrap();
    let height = world.live.ledger().height();
    let tip = serialize_hex(&world.live.ledger().chain()[height as usize].block.header);
    assert_eq!(hears(TIP), json!([{ "hex": tip, "height": height }]));
    assert_eq!(hears(STATUS), json!([hash, status(&world)]), "confirmed");
    asks(&mut client, &world, &hash, &tx);
}

fn asks(client: &mut MempoolClient, world: &LiveWorld, hash: &str, tx: &Transaction) {
    let (height, txid): (u32, Txid) = (world.live.ledger().height(), tx.compute_txid());
    let mut ask = |function: &str, params: Value| {
        client.call(function, params).unwrap();
        let Output { what, value } = client.next_output().unwrap();
        assert_eq!(what, function, "{value}");
        value
    };
    let balance = json!({ "confirmed": 123_456, "unconfirmed": 0 });
    assert_eq!(ask("blockchainScripthash_getBalance", json!([hash])), balance);
    let history = json!([{ "height": height, "tx_hash": txid }]);
    assert_eq!(ask("blockchainScripthash_getHistory", json!([hash])), history);
    assert_eq!(ask("blockchainTransaction_get", json!([txid])), json!(serialize_hex(tx)));
    let verbose = ask("blockchainTransaction_get", json!([txid, true]));
    let vout = verbose["vout"].as_array().unwrap().len();
    assert_eq!((&verbose["confirmations"], vout), (&json!(1), tx.output.len()), "{verbose}");
    let histories = ask("blockchainScripthash_getHistoryBatch", json!([[hash, "00".repeat(32)]]));
    assert_eq!((&histories[0]["result"], &histories[1]["result"]), (&history, &json!([])), "{histories}");
    // The client's own function for this sends `false`, as in protocol 1.2, which newer servers refuse.
    let tip = ask("request", json!(["blockchain.headers.subscribe", []]));
    assert_eq!(tip["height"], json!(height));
}
