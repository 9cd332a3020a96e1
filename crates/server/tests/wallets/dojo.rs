//! Samourai's Dojo, whose importer asks an Electrum server for histories: the calls that it makes, alone, in batches of
//! 50 and five at a time, by the client that it uses (`@samouraiwallet/electrum-client` of npm).

use std::process::Command;

use birdhouse_testkit::Options;
use birdhouse_testkit::client::scripthash;
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::peers::Home;
use birdhouse_testkit::program::find_program;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use serde_json::{Value, json};

use crate::{LiveWorld, serve};

const CACHED: &str = "birdhouse/dojo-client-1.5.2/node_modules/@samouraiwallet/electrum-client/dist/index.js";
const SCRIPT: &str = include_str!("dojo_client.js");
/// Two batches and a part of a third.
const SCRIPTS: usize = 120;

#[test]
fn dojo_imports_addresses_with_their_histories() {
    let found =
        find_program("@samouraiwallet/electrum-client", "DOJO_CLIENT", None, CACHED, "scripts/peers dojo-client");
    let Ok(client) = found else {
        eprintln!("LEFT OUT: @samouraiwallet/electrum-client is not there; run `scripts/peers dojo-client`");
        return;
    };
    // One script with a history of 300 transactions, as a mixer's or an exchange's.
    let size = Size { blocks: 10, block_txs: 6, scripts_per_form: 12, busy: &[300] };
    let live = LiveNode::start(57, size, Options::default()).unwrap();
    let server = serve(live.node(), Home::Temporary, &[]);
    let mut world = LiveWorld { server, live };
    world.live.pay(&[Payment::to_lock(Lock::new(Form::P2wpkh, 710), 40_000)]).unwrap();
    world.settle();

    let mut facts: Vec<(String, Value)> = world
        .live
        .ledger()
        .scripts()
        .iter()
        .map(|(script, facts)| (scripthash(script.as_bytes()), txids(&facts.history())))
        .collect();
    facts.sort_by_key(|(_, txids)| std::cmp::Reverse(txids.as_array().unwrap().len()));
    facts.truncate(SCRIPTS - 1);
    // An address that was never used.
    facts.push(("00".repeat(32), json!([])));
    assert!(facts.len() > 50 && facts[0].1.as_array().unwrap().len() >= 300);

    let hashes: Vec<&str> = facts.iter().map(|(hash, _)| hash.as_str()).collect();
    let output = Command::new("node")
        .args(["--eval", SCRIPT])
        .args([client.as_os_str(), world.server.port().to_string().as_ref(), json!(hashes).to_string().as_ref()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let got: Value = serde_json::from_slice(&output.stdout).unwrap();

    assert_eq!(got["version"][1], json!("1.4"));
    assert_eq!(got["tip"]["height"], json!(world.live.ledger().height()));
    // The client gives its caller the whole message where the result is null.
    let pong = &got["ping"];
    assert_eq!(pong, &json!({ "jsonrpc": "2.0", "id": pong["id"], "result": null }));
    assert_eq!(txids(&got["alone"]), facts[0].1);
    let (batch, parallel) = (got["batch"].as_array().unwrap(), got["parallel"].as_array().unwrap());
    assert_eq!((batch.len(), parallel.len()), (facts.len(), facts.len()));
    for (at, (hash, expected)) in facts.iter().enumerate() {
        let in_batch = batch.iter().find(|answer| answer["param"] == json!(hash)).unwrap();
        assert_eq!((&txids(&in_batch["result"]), &txids(&parallel[at])), (expected, expected), "{hash}");
    }
}

/// The only members that Dojo reads.
fn txids(history: &Value) -> Value {
    history.as_array().unwrap().iter().map(|entry| entry["tx_hash"].clone()).collect()
}
