//! Clients of npm, run by Node.js: `@mempool/mempool.js` with its WebSocket, and `@bitcoinerlab/explorer`. Every
//! function that asks for something in the chain, against the answers that the endpoints have for it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;

use birdhouse_testkit::client::scripthash;
use birdhouse_testkit::program::find_program;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Address, Network};
use serde_json::{Value, json};

use crate::world::World;

const CACHED: &str = "birdhouse/rest-clients-1/node_modules/@mempool/mempool.js/package.json";
const SCRIPT: &str = include_str!("npm_clients.js");

/// The folder of the packages; `None` if they are not installed.
fn packages() -> Option<PathBuf> {
    let found = find_program("@mempool/mempool.js", "REST_CLIENTS", None, CACHED, "scripts/peers rest-clients");
    let Ok(file) = found else {
        eprintln!("LEFT OUT: the clients of npm are not there; run `scripts/peers rest-clients`");
        return None;
    };
    Some(file.parent().unwrap().parent().unwrap().parent().unwrap().to_owned())
}

#[test]
fn clients_of_npm_get_every_answer() {
    let Some(packages) = packages() else { return };
    let mut world = World::small(161);
    let lock = Lock::new(Form::P2wpkh, 700);
    let script = world.live.wallet().script_pubkey(lock);
    let address = Address::from_script(&script, Network::Regtest).unwrap().to_string();
    let paid = world.live.pay(&[Payment::to_lock(lock, 90_000)]).unwrap();
    world.live.mine().unwrap();
    let waiting = world.live.pay(&[Payment::to_lock(lock, 10_000)]).unwrap();
    world.sync();
    let mut coins = world.live.confirmed_coins();
    coins.retain(|coin| coin.sat() > 200_000 && coin.lock != lock);
    let [raw, other] = [0, 1].map(|at| {
        let coin = coins[at].clone();
        let pay = Payment::to_lock(Lock::new(Form::P2wpkh, 701), coin.sat() - 1000);
        world.live.sign(&[coin], &[pay])
    });
    let (txid, height) = (paid.compute_txid(), world.live.ledger().height());
    let tip = world.live.ledger().chain().last().unwrap();
    let asked = json!({
        "address": address, "electrumHash": scripthash(script.as_bytes()), "txid": txid,
        "unconfirmed": waiting.compute_txid(), "hash": tip.hash, "height": height,
        "raw": serialize_hex(&raw), "rawOfAnother": serialize_hex(&other),
    });
    let rest = &world.rest;
    let answer = |path: String| {
        let got = rest.get(&path);
        serde_json::from_slice(&got.body).unwrap_or_else(|_| json!(got.text()))
    };
    let (hash, waiting) = (tip.hash, waiting.compute_txid());
    // What the mempool and the clock change is asked before the client changes it.
    let expected: Vec<(&str, Value)> = [
        ("getAddress", format!("/address/{address}")),
        ("getAddressTxs", format!("/address/{address}/txs")),
        ("getAddressTxsChain", format!("/address/{address}/txs/chain")),
        ("getAddressTxsMempool", format!("/address/{address}/txs/mempool")),
        ("getAddressTxsUtxo", format!("/address/{address}/utxo")),
        ("getBlock", format!("/block/{hash}")),
        ("getBlockStatus", format!("/block/{hash}/status")),
        ("getBlockTxs", format!("/block/{hash}/txs")),
        ("getBlockTxids", format!("/block/{hash}/txids")),
        ("getBlockTxid", format!("/block/{hash}/txid/0")),
        ("getBlockHeader", format!("/block/{hash}/header")),
        ("getBlockHeight", format!("/block-height/{height}")),
        ("getBlocks", format!("/v1/blocks/{height}")),
        ("getBlocksTipHeight", "/blocks/tip/height".into()),
        ("getBlocksTipHash", "/blocks/tip/hash".into()),
        ("getFeesRecommended", "/v1/fees/recommended".into()),
        ("getFeesMempoolBlocks", "/v1/fees/mempool-blocks".into()),
        ("getCPFP", format!("/v1/cpfp/{waiting}")),
        ("getMempool", "/mempool".into()),
        ("getMempoolTxids", "/mempool/txids".into()),
        ("getMempoolRecent", "/mempool/recent".into()),
        ("getTx", format!("/tx/{txid}")),
        ("getTxStatus", format!("/tx/{txid}/status")),
        ("getTxHex", format!("/tx/{txid}/hex")),
        ("getTxMerkleProof", format!("/tx/{txid}/merkle-proof")),
        ("getTxMerkleBlockProof", format!("/tx/{txid}/merkleblock-proof")),
        ("getTxOutspend", format!("/tx/{txid}/outspend/0")),
        ("getTxOutspends", format!("/tx/{txid}/outspends")),
    ]
    .map(|(name, path)| (name, answer(path)))
    .into();
    let history = rest.json(&format!("/address/{address}/txs")).as_array().unwrap().len();

    let output = Command::new("node")
        .args(["--eval", SCRIPT])
        .args([packages.as_os_str(), rest.port.to_string().as_ref(), asked.to_string().as_ref()])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let got: HashMap<String, Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| (line["what"].as_str().unwrap().to_owned(), line["value"].clone()))
        .collect();
    assert!(got.contains_key("done"), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    for (name, value) in expected {
        assert_eq!(got[name], value, "{name}");
    }
    assert_eq!(got["getDifficultyAdjustment"]["nextRetargetHeight"], json!(2016));
    assert_eq!(got["postTx"], json!(raw.compute_txid()));
    assert_eq!(got["init"]["blocks"][7]["id"], json!(hash));
    assert_eq!(got["txPosition"]["txid"], json!(waiting));

    let balance = json!({ "balance": 90_000, "txCount": 1, "unconfirmedBalance": 10_000, "unconfirmedTxCount": 1 });
    assert_eq!((&got["fetchAddress"], &got["fetchScriptHash"]), (&balance, &balance));
    assert_eq!(got["isConnected"], json!(true));
    assert_eq!(got["fetchTxHistory"].as_array().unwrap().len(), history);
    assert_eq!(got["fetchTx"], json!(serialize_hex(&paid)));
    assert_eq!(got["fetchBlockHeight"], json!(height));
    assert_eq!(got["fetchBlockStatus"]["blockHash"], json!(hash));
    assert_eq!(got["push"], json!(other.compute_txid()));
}
