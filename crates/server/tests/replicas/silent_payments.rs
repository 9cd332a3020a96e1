//! Silent payments at a replica, which copies no tweaks but computes its own.

use std::time::Instant;

use birdhouse_regtest::bitcoind::free_port;
use birdhouse_testkit::Options;
use birdhouse_testkit::client::Client;
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::peers::{Birdhouse, Home, Peer};
use birdhouse_testkit::tx::Payment;
use bitcoin::{Amount, OutPoint};
use serde_json::{Value, json};

use crate::silent_sender::{KnownCoin, Receiver, Sent, pay, script, secret};
use crate::world::{PATIENCE, program};

const TINY: Size = Size { blocks: 5, block_txs: 4, scripts_per_form: 3, busy: &[] };
const SUBSCRIBE: &str = "blockchain.silentpayments.subscribe";

/// Pays a receiver from a coin of its own; returns the payment, and the entry that a scan must find.
fn paid(live: &mut LiveNode, key: u8, receiver: &Receiver) -> (Sent, Value) {
    let key = secret(key);
    let coin = live.pay(&[Payment::to_script(script(&key), 100_000)]).unwrap();
    live.mine().unwrap();
    let outpoint = OutPoint { txid: coin.compute_txid(), vout: 0 };
    let sent =
        pay(&KnownCoin { key, outpoint, value: Amount::from_sat(100_000) }, receiver, None, Amount::from_sat(1000));
    live.mine_these(vec![sent.transaction.clone()]).unwrap();
    let (height, txid) = (live.ledger().height(), sent.transaction.compute_txid().to_string());
    let entry = json!({ "height": height, "tx_hash": txid, "tweak_key": sent.tweak });
    (sent, entry)
}

/// Subscribes as soon as the index covers the chain; returns the history.
fn history(server: &Peer, receiver: &Receiver) -> (Client, Vec<Value>) {
    let (mut client, began) = (server.client().unwrap(), Instant::now());
    let params = json!([receiver.scan_hex(), receiver.spend_hex(), 0, []]);
    while let Err(error) = client.call(SUBSCRIBE, params.clone()) {
        assert!(error.to_string().contains("silent payments index at") && began.elapsed() < PATIENCE, "{error}");
    }
    let found = entries(&mut client);
    (client, found)
}

/// Returns what comes up to the next progress of 1.0.
fn entries(client: &mut Client) -> Vec<Value> {
    let mut found = Vec::new();
    loop {
        let notification = client.notification(PATIENCE).unwrap().expect("a notification");
        found.extend(notification.params["history"].as_array().unwrap().clone());
        if notification.params["progress"] == json!(1.0) {
            return found;
        }
    }
}

#[test]
fn a_replica_scans_for_silent_payments_among_tweaks_of_its_own() {
    let mut live = LiveNode::start(23, TINY, Options::default()).unwrap();
    let receiver = Receiver::new(1);
    let (_, first) = paid(&mut live, 20, &receiver);
    let port = free_port().unwrap();
    let (serve, follow) = (format!("--replicas-addr=127.0.0.1:{port}"), format!("--follow=http://127.0.0.1:{port}"));
    let start = |args: &[&str]| Birdhouse::start_in(live.node(), Home::Temporary, program(), args).unwrap();
    // The primary has none, so nothing could be copied.
    let primary = start(&[&serve]);
    let replica = start(&[&follow, "--silent-payments=scan"]);
    let plain = start(&[&follow]);
    for server in [&primary, &plain] {
        let params = json!([receiver.scan_hex(), receiver.spend_hex(), 0, []]);
        let error = server.client().unwrap().call(SUBSCRIBE, params).unwrap_err().to_string();
        assert!(error.contains("unknown method"), "{error}");
    }
    let (mut client, found) = history(&replica, &receiver);
    assert_eq!(found, std::slice::from_ref(&first));
    let (_, second) = paid(&mut live, 21, &receiver);
    let mut live_entries = Vec::new();
    while live_entries.is_empty() {
        live_entries = entries(&mut client);
    }
    assert_eq!(live_entries, std::slice::from_ref(&second));
    let (_, found) = history(&replica, &receiver);
    assert_eq!(found, [first, second]);
}
