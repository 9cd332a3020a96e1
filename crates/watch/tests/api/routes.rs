//! Every route, against the node's own answers and BWT's documentation.

use birdhouse_chain::ScriptHash;
use birdhouse_testkit::tx::Payment;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Address, Amount, Network, SignedAmount};
use serde_json::{Value, json};

use crate::world::{Served, World, cold, shop_script, to_shop};

fn hash_of(branch: u32, index: u32) -> String {
    ScriptHash::of(shop_script(branch, index).as_bytes()).to_string()
}

fn address_of(branch: u32, index: u32) -> String {
    Address::from_script(&shop_script(branch, index), Network::Regtest).unwrap().to_string()
}

/// The checksum of the shop's receiving branch.
fn checksum(server: &Served) -> String {
    let wallets = server.json("/wallets");
    let mut of_shop = wallets.as_object().unwrap().iter().filter(|(_, wallet)| wallet["name"] == "Shop");
    of_shop.find(|(_, wallet)| wallet["branch"] == 0).unwrap().0.clone()
}

/// The node's checksum of a descriptor.
fn checksum_of_core(world: &World, desc: &str) -> Value {
    let bare = desc.split('#').next().unwrap();
    world.live.node().rpc("getdescriptorinfo", json!([bare])).unwrap()["checksum"].clone()
}

#[test]
fn wallets_are_named_by_the_checksums_that_the_node_computes() {
    let mut world = World::start(1);
    world.live.pay(&[to_shop(2, 50_000), to_shop(5, 60_000)]).unwrap();
    world.sync();
    let server = &world.server;
    let wallets = server.json("/wallets");
    assert_eq!(wallets.as_object().unwrap().len(), 3);
    for (name, wallet) in wallets.as_object().unwrap() {
        let desc = wallet["desc"].as_str().unwrap();
        assert_eq!((json!(name), desc.rsplit('#').next()), (checksum_of_core(&world, desc), Some(name.as_str())));
        assert_eq!(server.json(&format!("/wallet/{name}")), *wallet);
    }
    let name = checksum(server);
    let wallet = server.json(&format!("/wallet/{name}"));
    assert_eq!(server.json("/wallet/Shop"), wallet);
    assert_eq!(
        (&wallet["network"], &wallet["is_wildcard"], &wallet["gap_limit"]),
        (&json!("regtest"), &json!(true), &json!(20))
    );
    assert_eq!(wallet["bip32_origins"], json!(["73c5da0a/84'/0'/0'/0"]));
    assert_eq!((&wallet["max_funded_index"], &wallet["max_imported_index"]), (&json!(5), &json!(59)));
    // Two unused ones between the third and the sixth address, two before.
    assert_eq!(server.json(&format!("/wallet/{name}/gap")), json!(2));
    let next = server.get(&format!("/wallet/{name}/next"));
    assert_eq!((next.status, next.text.as_str()), (307, "6"));
    assert_eq!(next.header("location"), Some(format!("/wallet/{name}/6").as_str()));
    assert_eq!(server.json("/wallet/Cold/gap"), Value::Null);
    assert_eq!(server.get("/wallet/Cold/next").text, "0");
    assert_eq!(server.get("/wallet/nobody").status, 404);
}

#[test]
fn addresses_are_those_that_the_node_derives() {
    let world = World::start(2);
    let name = checksum(&world.server);
    let desc = world.server.json("/wallet/Shop")["desc"].clone();
    let derived = world.live.node().rpc("deriveaddresses", json!([desc, [0, 9]])).unwrap();
    for index in 0..10 {
        let shown = world.server.json(&format!("/wallet/Shop/{index}"));
        let desc = shown["desc"].as_str().unwrap();
        assert_eq!(world.live.node().rpc("deriveaddresses", json!([desc])).unwrap(), json!([derived[index]]));
        let origin = format!("{name}/{index}");
        let path = format!("73c5da0a/84'/0'/0'/0/{index}");
        let expected = json!({
            "address": derived[index], "scripthash": hash_of(0, u32::try_from(index).unwrap()), "origin": origin,
            "desc": desc, "bip32_origins": [path],
        });
        assert_eq!(shown, expected);
        for path in [
            format!("/address/{}", derived[index].as_str().unwrap()),
            format!("/scripthash/{}", expected["scripthash"].as_str().unwrap()),
        ] {
            assert_eq!(world.server.json(&path), expected);
        }
    }
    // A hardened number, and one of a wallet without numbers.
    assert_eq!(world.server.get("/wallet/Shop/2147483648").status, 404);
    assert_eq!(world.server.get("/wallet/Cold/1").status, 404);
    assert_eq!(world.server.get("/wallet/Shop/-1").status, 400);
    // Core's own address of somebody else, one of mainnet, and none.
    assert_eq!(world.server.get(&format!("/scripthash/{}", "11".repeat(32))).status, 404);
    assert_eq!(world.server.get("/address/bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu").status, 400);
    assert_eq!(world.server.get("/address/nonsense").status, 400);
}

/// Transactions of the wallet, as the blocks and the mempool of the node have them: txid, height, change of balance.
fn model(world: &World, addresses: &[String]) -> Vec<(String, Option<u32>, i64)> {
    let node = world.live.node();
    let mut found = Vec::new();
    let sat = |value: &Value| SignedAmount::from_btc(value.as_f64().unwrap()).unwrap().to_sat();
    let is_ours = |script: &Value| addresses.iter().any(|address| script["address"] == json!(address));
    let mut add = |tx: &Value, height: Option<u32>| {
        let mut change: Option<i64> = None;
        for output in tx["vout"].as_array().unwrap().iter().filter(|output| is_ours(&output["scriptPubKey"])) {
            *change.get_or_insert(0) += sat(&output["value"]);
        }
        for input in tx["vin"].as_array().unwrap() {
            if is_ours(&input["prevout"]["scriptPubKey"]) {
                *change.get_or_insert(0) -= sat(&input["prevout"]["value"]);
            }
        }
        found.extend(change.map(|change| (tx["txid"].as_str().unwrap().to_owned(), height, change)));
    };
    for height in 0..=node.height().unwrap() {
        let hash = node.block_hash(height).unwrap();
        let block = node.rpc("getblock", json!([hash, 3])).unwrap();
        block["tx"].as_array().unwrap().iter().for_each(|tx| add(tx, Some(height)));
    }
    for tx in world.live.waiting() {
        add(&node.rpc("getrawtransaction", json!([tx.compute_txid(), 2])).unwrap(), None);
    }
    found
}

#[test]
#[expect(clippy::too_many_lines, reason = "one chain for all of them")]
fn transactions_and_outputs_are_those_of_the_node() {
    let mut world = World::start(3);
    let paid = world.live.pay(&[to_shop(0, 70_000), to_shop(1, 30_000), Payment::to_lock(cold(), 900_000)]).unwrap();
    world.live.mine().unwrap();
    // In one block: a payment to the wallet and its spending.
    let coins = world.live.coins().into_iter().filter(|coin| coin.lock == cold()).collect::<Vec<_>>();
    let spent = world.live.pay_from(&coins, &[Payment::to_lock(cold(), 400_000), to_shop(2, 20_000)], 1000).unwrap();
    let coins = world.live.coins().into_iter().filter(|coin| coin.lock == cold()).collect::<Vec<_>>();
    world.live.pay_from(&coins, &[Payment::to_lock(cold(), 300_000)], 1000).unwrap();
    world.live.mine().unwrap();
    let waiting = world.live.pay(&[to_shop(3, 40_000)]).unwrap();
    world.sync();
    let server = &world.server;
    let cold_address = Address::from_script(&world.live.wallet().script_pubkey(cold()), Network::Regtest).unwrap();
    let mut addresses: Vec<String> =
        (0..2).flat_map(|branch| (0..10).map(move |index| address_of(branch, index))).collect();
    addresses.push(cold_address.to_string());
    let model = model(&world, &addresses);
    assert!(model.len() >= 4, "{model:?}");

    let all = server.json("/txs");
    let shown = |list: &Value| -> Vec<(String, Option<u32>, i64)> {
        let tx = |tx: &Value| {
            let height = tx["block_height"].as_u64().map(|height| u32::try_from(height).unwrap());
            (tx["txid"].as_str().unwrap().to_owned(), height, tx["balance_change"].as_i64().unwrap())
        };
        list.as_array().unwrap().iter().map(tx).collect()
    };
    assert_eq!(shown(&all), model, "in the order of the chain, then the mempool");
    let height = world.live.ledger().height();
    let newer: Vec<_> = model.iter().filter(|(_, at, _)| at.is_none_or(|at| at >= height)).cloned().collect();
    assert_eq!(shown(&server.json(&format!("/txs/since/{height}"))), newer);
    let compact: Value = newer.iter().map(|(txid, height, _)| json!([txid, height])).collect();
    assert_eq!(server.json(&format!("/txs/since/{height}/compact")), compact);
    assert_eq!(server.json(&format!("/txs/since/{}/compact", height + 5)), json!([[waiting.compute_txid(), null]]));

    // One transaction, member by member.
    let tx = server.json(&format!("/tx/{}", spent.compute_txid()));
    let funding = tx["funding"].as_array().unwrap();
    assert_eq!(funding.len(), 2);
    assert_eq!(
        (&funding[0]["vout"], &funding[0]["amount"], &funding[0]["address"]),
        (&json!(0), &json!(400_000), &json!(cold_address))
    );
    let of_core =
        world.live.node().rpc("gettxspendingprevout", json!([[{"txid": spent.compute_txid(), "vout": 0}]])).unwrap();
    assert!(of_core[0].get("spendingtxid").is_none(), "it is spent in a block: {of_core}");
    let spender = model.iter().rev().find(|(_, at, change)| *at == Some(height) && *change == -100_000).unwrap();
    assert_eq!(funding[0]["spent_by"], json!(format!("{}:0", spender.0)));
    assert_eq!((&funding[1]["amount"], &funding[1]["spent_by"]), (&json!(20_000), &Value::Null));
    let spending = &tx["spending"][0];
    assert_eq!((&spending["vin"], &spending["amount"]), (&json!(0), &json!(900_000)));
    assert_eq!(spending["prevout"], json!(format!("{}:2", paid.compute_txid())));
    assert_eq!((&tx["fee"], &tx["balance_change"]), (&json!(1000), &json!(-480_000)));
    assert!(tx.get("own_feerate").is_none());
    let tx = server.json(&format!("/tx/{}", waiting.compute_txid()));
    let entry = world.live.node().rpc("getmempoolentry", json!([waiting.compute_txid()])).unwrap();
    let rate = 1000.0 / entry["vsize"].as_f64().unwrap();
    assert_eq!((tx["own_feerate"].as_f64(), tx["effective_feerate"].as_f64()), (Some(rate), Some(rate)));
    // BIP 125: the number of an input says it.
    let is_replaceable = waiting.input.iter().any(|input| input.sequence.is_rbf());
    assert_eq!((&tx["bip125_replaceable"], &tx["has_unconfirmed_parents"]), (&json!(is_replaceable), &json!(false)));

    // Any transaction of the chain, as the node has it.
    for tx in [&paid, &waiting] {
        let txid = tx.compute_txid();
        assert_eq!(server.get(&format!("/tx/{txid}/hex")).text, serialize_hex(tx));
        let block = server.json(&format!("/tx/{txid}"))["block_height"].as_u64();
        let params = match block {
            Some(height) => json!([txid, true, world.live.node().block_hash(u32::try_from(height).unwrap()).unwrap()]),
            None => json!([txid, true]),
        };
        let of_core = world.live.node().rpc("getrawtransaction", params).unwrap();
        assert_eq!(server.json(&format!("/tx/{txid}/verbose")), of_core);
    }
    let proof = world.live.node().rpc("gettxoutproof", json!([[paid.compute_txid()]])).unwrap();
    assert_eq!(json!(server.get(&format!("/tx/{}/proof", paid.compute_txid())).text), proof);
    assert_eq!(server.get(&format!("/tx/{}/proof", waiting.compute_txid())).status, 404);
    assert_eq!(server.get(&format!("/tx/{}", "11".repeat(32))).status, 404);

    // Unspent outputs, against the node's.
    let unspent = server.json("/utxos");
    let unspent = unspent.as_array().unwrap();
    assert!(unspent.len() >= 5, "{unspent:?}");
    for output in unspent {
        let of_core = world.live.node().rpc("gettxout", json!([output["txid"], output["vout"]])).unwrap();
        let value = Amount::from_btc(of_core["value"].as_f64().unwrap()).unwrap().to_sat();
        assert_eq!((json!(value), &of_core["scriptPubKey"]["address"]), (output["amount"].clone(), &output["address"]));
        let path = format!("/txo/{}/{}", output["txid"].as_str().unwrap(), output["vout"]);
        assert_eq!(server.json(&path), *output);
        let confirmations = of_core["confirmations"].as_u64().unwrap();
        let block = output["block_height"].as_u64().map_or(0, |block| u64::from(height) + 1 - block);
        assert_eq!(confirmations, block);
    }
    let count = |path: &str| server.json(path).as_array().unwrap().len();
    let of_depth = |depth: u64| {
        let is_deep =
            |output: &&Value| output["block_height"].as_u64().is_some_and(|at| u64::from(height) + 1 - at >= depth);
        unspent.iter().filter(is_deep).count()
    };
    assert_eq!([count("/utxos?min_conf=1"), count("/utxos?min_conf=2")], [of_depth(1), of_depth(2)]);
    // A stranger's unconfirmed payment may be replaced.
    assert_eq!(count("/utxos?include_unsafe=false"), of_depth(1));
    let spent_output = server.json(&format!("/txo/{}/2", paid.compute_txid()));
    assert_eq!(spent_output["spent_by"], json!(format!("{}:0", spent.compute_txid())));
    assert_eq!(server.get(&format!("/txo/{}/3", paid.compute_txid())).status, 404, "change of somebody else");

    // One address, by its three names.
    let of_address = format!("/address/{}", address_of(0, 0));
    for path in [of_address.clone(), format!("/scripthash/{}", hash_of(0, 0)), "/wallet/Shop/0".into()] {
        let stats = server.json(&format!("{path}/stats"));
        assert_eq!(
            (&stats["tx_count"], &stats["confirmed_balance"], &stats["unconfirmed_balance"]),
            (&json!(1), &json!(70_000), &json!(0))
        );
        assert_eq!(server.json(&format!("{path}/txs/compact")), json!([[paid.compute_txid(), height - 1]]));
        assert_eq!(server.json(&format!("{path}/txs"))[0]["funding"].as_array().unwrap().len(), 3);
        assert_eq!(server.json(&format!("{path}/utxos")).as_array().unwrap().len(), 1);
    }
    let stats = server.json("/wallet/Shop/3/stats");
    assert_eq!((&stats["confirmed_balance"], &stats["unconfirmed_balance"]), (&json!(0), &json!(40_000)));
    assert_eq!(server.json("/wallet/Shop/40/stats")["tx_count"], json!(0));
    assert_eq!(server.json("/wallet/Shop/40/txs"), json!([]));
}

#[test]
fn blocks_fees_and_broadcasts_are_those_of_the_node() {
    let mut world = World::start(4);
    world.sync();
    let (height, hash) = world.tip();
    let server = &world.server;
    assert_eq!(server.json("/block/tip"), json!({ "height": height, "hash": hash }));
    for at in [0, 1, height - 1, height] {
        let hash = world.live.node().block_hash(at).unwrap().to_string();
        let by_height = server.get(&format!("/block/{at}"));
        assert_eq!((by_height.status, &by_height.text), (307, &hash));
        assert_eq!(by_height.header("location"), Some(format!("/block/{hash}").as_str()));
        let of_core = world.live.node().rpc("getblockheader", json!([hash])).unwrap();
        assert_eq!(server.json(&format!("/block/{hash}")), of_core);
        let hex = world.live.node().rpc("getblockheader", json!([hash, false])).unwrap();
        assert_eq!(json!(server.get(&format!("/block/{hash}/hex")).text), hex);
    }
    assert_eq!(server.get(&format!("/block/{}", height + 1)).status, 404);
    assert_eq!(server.get(&format!("/block/{}", "11".repeat(32))).status, 404);
    assert_eq!(server.get("/block/nonsense").status, 400);

    let relay = world.live.node().rpc("getnetworkinfo", json!([])).unwrap()["relayfee"].as_f64().unwrap();
    assert_eq!(server.json("/fee-estimate/3").as_f64(), Some((relay * 1e8).round() / 1000.0));
    assert_eq!(server.get("/fee-estimate/0").status, 400);
    assert_eq!(server.json("/mempool/histogram"), json!([]));
    let coin = world.live.confirmed_coins().into_iter().max_by_key(|coin| coin.output.value).unwrap();
    let change = coin.output.value.to_sat() - 51_000;
    let tx = world.live.sign(&[coin], &[to_shop(0, 50_000), Payment::to_lock(cold(), change)]);
    let body = json!({ "tx_hex": serialize_hex(&tx) }).to_string();
    let sent = server.post("/tx", &body);
    assert_eq!((sent.status, sent.text), (200, tx.compute_txid().to_string()));
    world.live.refresh().unwrap();
    assert!(world.live.waiting_txids().contains(&tx.compute_txid()));
    world.sync();
    let histogram = server.json("/mempool/histogram");
    assert_eq!(histogram[0][1], json!(tx.vsize()));
    let refused = server.post("/tx", &json!({ "tx_hex": "00" }).to_string());
    assert!(refused.status == 400 && refused.text.contains("RPC error code -22"), "{refused:?}");
    assert_eq!(server.post("/tx", "{}").status, 400);
}
