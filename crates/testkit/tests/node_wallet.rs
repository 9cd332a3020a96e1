//! The wallet in front of a node, called as other projects' suites call Core's.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::node_wallet::Front;
use birdhouse_testkit::rpc::Rpc;
use birdhouse_testkit::{Bitcoind, Options};
use serde_json::{Value, json};

const RATE_SAT_VB: u32 = 10;

/// Starts a front in a thread that ends with the process.
fn front(datadir: &Path) -> Rpc {
    let node = Bitcoind::start(Options::default().in_datadir(datadir)).unwrap();
    let (cookie, port) = (node.cookie(), free_port().unwrap());
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(Front::new(node, RATE_SAT_VB.into()).serve(listener)).unwrap();
    });
    Rpc::new(port, cookie)
}

fn sat(btc: &Value) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "below 21 million coins")]
    let sat = (btc.as_f64().unwrap() * 1e8).round() as i64;
    sat
}

#[test]
fn wallet_of_a_node_without_one_pays_signs_and_tells_what_it_did() {
    let datadir = tempfile::tempdir().unwrap();
    let rpc = front(datadir.path());
    let call = |method: &str, params: Value| rpc.call(method, &params);

    assert!(call("getnewaddress", json!([])).is_err(), "there is no wallet yet");
    assert_eq!(call("createwallet", json!(["default"])).unwrap()["name"], "default");
    let address = call("getnewaddress", json!([])).unwrap();
    call("generatetoaddress", json!([101, address])).unwrap();
    assert_eq!(sat(&call("getbalance", json!([])).unwrap()), 50 * 100_000_000);

    // A payment to a stranger is from the wallet: its fee is known, and its change can be spent at once.
    let stranger = "bcrt1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqdku202";
    let txid = call("sendtoaddress", json!([stranger, 0.001])).unwrap();
    let paid = call("gettransaction", json!([txid])).unwrap();
    let raw = call("getrawtransaction", json!([txid, true])).unwrap();
    let vsize = raw["vsize"].as_i64().unwrap();
    let (fee, rate) = (-sat(&paid["fee"]), i64::from(RATE_SAT_VB));
    assert!((rate * vsize..=rate * (vsize + 1)).contains(&fee), "{paid} {vsize}");
    assert_eq!(sat(&paid["amount"]), -100_000);
    assert_eq!(paid["confirmations"], 0);
    let change = call("listunspent", json!([0, 0])).unwrap();
    assert_eq!(change[0]["txid"], txid);
    assert_eq!(sat(&change[0]["amount"]), 50 * 100_000_000 - 100_000 - fee);
    let second = call("sendtoaddress", json!([stranger, "0.002"])).unwrap();

    // After a block both are confirmed, and a transaction made elsewhere is signed.
    let block = call("generatetoaddress", json!([1, stranger])).unwrap()[0].clone();
    for txid in [&txid, &second] {
        let confirmed = call("gettransaction", json!([txid])).unwrap();
        assert_eq!((&confirmed["blockhash"], &confirmed["confirmations"]), (&block, &json!(1)));
    }
    let coin = call("listunspent", json!([1])).unwrap()[0].clone();
    let input = json!([{ "txid": coin["txid"], "vout": coin["vout"] }]);
    let unsigned = call("createrawtransaction", json!([input, { stranger: 0.5 }])).unwrap();
    let signed = call("signrawtransactionwithwallet", json!([unsigned])).unwrap();
    assert_eq!(signed["complete"], true);
    call("sendrawtransaction", json!([signed["hex"], 0])).unwrap();

    // A reorg takes the block back.
    call("invalidateblock", json!([block])).unwrap();
    assert_eq!(call("gettransaction", json!([txid])).unwrap()["confirmations"], 0);
    let error = call("sendtoaddress", json!([stranger, 1000])).unwrap_err();
    assert!(error.to_string().contains("Insufficient funds"), "{error}");
}
