//! Every endpoint about blocks, transactions and scripts, compared with the model at one state of the node.

use std::collections::{BTreeMap, HashMap};

use bitcoin::hashes::{Hash as _, sha256};
use bitcoin::hex::DisplayHex as _;
use bitcoin::{Address, Network, OutPoint, ScriptBuf, Txid, consensus};
use serde_json::{Value, json};

use crate::model::{Model, without_texts};
use crate::world::{Rest, World};

const LONG: &str = "public, max-age=157784630";
const SHORT: &str = "public, max-age=10";

/// Compares everything.
pub(crate) fn all(world: &World) {
    each_nth(world, 1);
}

/// Compares everything but what only some transactions and scripts are asked for: every `nth` and the unconfirmed ones.
pub(crate) fn each_nth(world: &World, nth: usize) {
    world.sync();
    let model = Model::of(&world.live);
    blocks(&world.rest, &model);
    let shapes = transactions(&world.rest, &model, nth);
    pages_of_blocks(&world.rest, &model, &shapes);
    scripts(&world.rest, &model, &shapes, nth);
    mempool(&world.rest, &model);
}

fn cache(model: &Model<'_>, height: Option<u32>) -> &'static str {
    if height.is_some_and(|height| height + 10 <= model.tip()) { LONG } else { SHORT }
}

fn blocks(rest: &Rest, model: &Model<'_>) {
    let chain = model.live.ledger().chain();
    let tip = model.tip();
    assert_eq!(rest.text("/blocks/tip/height"), tip.to_string());
    assert_eq!(rest.text("/blocks/tip/hash"), chain.last().unwrap().hash.to_string());
    let expected: Vec<Value> = (0..=tip).map(|height| model.block(height)).collect();
    let page =
        |top: u32| -> Value { (0..=top).rev().take(10).map(|height| expected[height as usize].clone()).collect() };
    assert_eq!(rest.json("/blocks"), page(tip));
    for top in [0, 5, 9, 10, tip / 2, tip] {
        assert_eq!(rest.json(&format!("/blocks/{top}")), page(top), "{top}");
    }
    for (height, mined) in (0..).zip(chain) {
        let hash = mined.hash;
        let got = rest.get(&format!("/block/{hash}"));
        assert_eq!(serde_json::from_slice::<Value>(&got.body).unwrap(), expected[height as usize]);
        assert_eq!(got.header("cache-control"), LONG);
        let got = rest.get(&format!("/block-height/{height}"));
        assert_eq!((got.text(), got.header("cache-control")), (hash.to_string(), cache(model, Some(height))));
        let next = chain.get(height as usize + 1).map(|mined| mined.hash.to_string());
        let status = json!({ "in_best_chain": true, "height": height, "next_best": next });
        assert_eq!(rest.json(&format!("/block/{hash}/status")), status);
        let bytes = consensus::serialize(&mined.block);
        assert_eq!(rest.text(&format!("/block/{hash}/header")), bytes[..80].to_lower_hex_string());
        let raw = rest.get(&format!("/block/{hash}/raw"));
        assert_eq!(raw.header("content-length"), bytes.len().to_string());
        assert!(raw.body == bytes, "{height}");
        let txids: Vec<String> = mined.txids.iter().map(Txid::to_string).collect();
        assert_eq!(rest.json(&format!("/block/{hash}/txids")), json!(txids));
        let last = txids.len() - 1;
        assert_eq!(rest.text(&format!("/block/{hash}/txid/{last}")), txids[last]);
        let beyond = rest.refusal(&format!("/block/{hash}/txid/{}", txids.len()));
        assert_eq!(beyond, (404, "tx index out of range".into()));
    }
    assert_eq!(rest.refusal(&format!("/blocks/{}", tip + 1)), (404, "Block not found".into()));
    assert_eq!(rest.refusal(&format!("/block-height/{}", tip + 1)), (404, "Block not found".into()));
}

/// Compares every transaction, all else about each `nth` of them, and returns their JSON.
fn transactions(rest: &Rest, model: &Model<'_>, nth: usize) -> HashMap<Txid, Value> {
    let mut shapes = HashMap::new();
    for (number, (txid, found)) in model.transactions.iter().enumerate() {
        let height = found.block.map(|(height, _)| height);
        let got = rest.get(&format!("/tx/{txid}"));
        assert_eq!((got.status, got.header("cache-control")), (200, cache(model, height)), "{txid} {}", got.text());
        let shape: Value = serde_json::from_slice(&got.body).unwrap();
        assert_eq!(without_texts(shape.clone()), model.transaction(*txid));
        shapes.insert(*txid, shape);
        if height.is_some() && number % nth != 0 {
            continue;
        }
        assert_eq!(rest.json(&format!("/tx/{txid}/status")), model.status(height));
        let raw = consensus::serialize(found.transaction);
        assert_eq!(rest.text(&format!("/tx/{txid}/hex")), raw.to_lower_hex_string());
        assert!(rest.get(&format!("/tx/{txid}/raw")).body == raw);
        assert_eq!(rest.json(&format!("/tx/{txid}/outspends")), model.outspends(*txid), "{txid}");
        let last = u32::try_from(found.transaction.output.len() - 1).unwrap();
        for vout in [0, last, last + 1] {
            let outpoint = OutPoint { txid: *txid, vout };
            assert_eq!(rest.json(&format!("/tx/{txid}/outspend/{vout}")), model.outspend(outpoint));
        }
        proofs(rest, model, *txid);
    }
    let some: Vec<Txid> = model.transactions.keys().take(50).copied().collect();
    let list: Vec<String> = some.iter().map(Txid::to_string).collect();
    let expected: Value = some.iter().map(|txid| model.outspends(*txid)).collect();
    assert_eq!(rest.json(&format!("/txs/outspends?txids={}", list.join(","))), expected);
    shapes
}

fn proofs(rest: &Rest, model: &Model<'_>, txid: Txid) {
    let (merkle, merkleblock) = (format!("/tx/{txid}/merkle-proof"), format!("/tx/{txid}/merkleblock-proof"));
    let Some((height, index)) = model.transactions[&txid].block else {
        let refusal = (404, "Transaction not found or is unconfirmed".to_owned());
        assert_eq!((rest.refusal(&merkle), rest.refusal(&merkleblock)), (refusal.clone(), refusal));
        return;
    };
    let block = &model.live.ledger().chain()[height as usize];
    let core = model.live.node().rpc("gettxoutproof", json!([[txid.to_string()], block.hash.to_string()])).unwrap();
    assert_eq!(json!(rest.text(&merkleblock)), core);
    let proof = rest.json(&merkle);
    assert_eq!((&proof["block_height"], &proof["pos"]), (&json!(height), &json!(index)));
    let mut hash = txid.to_raw_hash();
    for (level, sibling) in proof["merkle"].as_array().unwrap().iter().enumerate() {
        let sibling: Txid = sibling.as_str().unwrap().parse().unwrap();
        let pair = [hash.to_byte_array(), sibling.to_byte_array()];
        let (left, right) = if index >> level & 1 == 0 { (pair[0], pair[1]) } else { (pair[1], pair[0]) };
        hash = bitcoin::hashes::sha256d::Hash::hash(&[left, right].concat());
    }
    assert_eq!(hash, block.block.header.merkle_root.to_raw_hash());
}

/// The pages of blocks, whose inputs come from undo data, have the same transactions as `/tx`.
fn pages_of_blocks(rest: &Rest, model: &Model<'_>, shapes: &HashMap<Txid, Value>) {
    for mined in model.live.ledger().chain() {
        let mut all = Vec::new();
        for start in (0..mined.txids.len()).step_by(25) {
            let page = rest.json(&format!("/block/{}/txs/{start}", mined.hash));
            all.extend(page.as_array().unwrap().iter().cloned());
        }
        let expected: Vec<Value> = mined.txids.iter().map(|txid| shapes[txid].clone()).collect();
        assert_eq!(all, expected);
        let first = rest.json(&format!("/block/{}/txs", mined.hash));
        assert_eq!(first.as_array().unwrap()[..], expected[..expected.len().min(25)]);
    }
}

fn scripts(rest: &Rest, model: &Model<'_>, shapes: &HashMap<Txid, Value>, nth: usize) {
    for (number, (script, facts)) in model.scripts.iter().enumerate() {
        if facts.unconfirmed.is_empty() && number % nth != 0 {
            continue;
        }
        let hash = sha256::Hash::hash(script.as_bytes()).to_byte_array().to_lower_hex_string();
        let mut names = vec![("scripthash", hash)];
        if let Ok(address) = Address::from_script(script, Network::Regtest) {
            names.push(("address", address.to_string()));
        }
        for (kind, name) in names {
            compare_script(rest, model, shapes, script, (kind, &name));
        }
    }
    several(rest, model, shapes);
}

fn compare_script(
    rest: &Rest,
    model: &Model<'_>,
    shapes: &HashMap<Txid, Value>,
    script: &ScriptBuf,
    (kind, name): (&str, &str),
) {
    let base = format!("/{kind}/{name}");
    let (chain, mempool) = model.stats(script);
    assert_eq!(rest.json(&base), json!({ kind: name, "chain_stats": chain, "mempool_stats": mempool }), "{base}");
    let confirmed: Vec<Value> =
        model.scripts[script].confirmed.iter().rev().map(|(_, txid)| shapes[txid].clone()).collect();
    let mut paged = Vec::new();
    let mut path = format!("{base}/txs/chain");
    loop {
        let page = rest.json(&path);
        let page = page.as_array().unwrap();
        assert!(page.len() <= 25);
        let Some(last) = page.last() else { break };
        path = format!("{base}/txs/chain/{}", last["txid"].as_str().unwrap());
        paged.extend(page.iter().cloned());
    }
    assert_eq!(txids(&paged), txids(&confirmed), "{base}");
    assert_eq!(paged, confirmed);
    let unconfirmed = rest.json(&format!("{base}/txs/mempool"));
    let unconfirmed = unconfirmed.as_array().unwrap();
    let mut waiting: Vec<String> = model.scripts[script].unconfirmed.iter().map(|entry| entry.txid.clone()).collect();
    let mut listed = txids(unconfirmed);
    waiting.sort();
    listed.sort();
    assert_eq!(listed, waiting);
    for transaction in unconfirmed {
        assert_eq!(*transaction, shapes[&transaction["txid"].as_str().unwrap().parse::<Txid>().unwrap()]);
    }
    let both: Vec<Value> = unconfirmed.iter().cloned().chain(confirmed.iter().take(25).cloned()).collect();
    assert_eq!(rest.json(&format!("{base}/txs")), Value::Array(both));
    let unspent: BTreeMap<(String, u64), Value> = match rest.json(&format!("{base}/utxo")) {
        Value::Array(unspent) => unspent
            .into_iter()
            .map(|coin| ((coin["txid"].as_str().unwrap().to_owned(), coin["vout"].as_u64().unwrap()), coin))
            .collect(),
        other => panic!("{other}"),
    };
    assert_eq!(unspent, model.unspent(script), "{base}");
    let summary = model.summary(script);
    assert_eq!(rest.json(&format!("{base}/txs/summary")), json!(summary));
    let middle = summary.len() / 2;
    if let Some(cursor) = summary.get(middle) {
        let path = format!("{base}/txs/summary/{}", cursor["txid"].as_str().unwrap());
        assert_eq!(rest.json(&path), json!(summary[middle + 1..]));
    }
}

/// `POST /addresses/txs` and `/scripthashes/txs`, page by page.
fn several(rest: &Rest, model: &Model<'_>, shapes: &HashMap<Txid, Value>) {
    let some: Vec<&ScriptBuf> = model.scripts.keys().step_by(7).take(20).collect();
    let hashes: Vec<String> =
        some.iter().map(|script| sha256::Hash::hash(script.as_bytes()).to_byte_array().to_lower_hex_string()).collect();
    let mut confirmed: Vec<(u32, usize, Txid)> = Vec::new();
    for (height, txid) in some.iter().flat_map(|script| &model.scripts[*script].confirmed) {
        confirmed.push((*height, model.transactions[txid].block.unwrap().1, *txid));
    }
    confirmed.sort_unstable();
    confirmed.dedup();
    let mut waiting: Vec<String> =
        some.iter().flat_map(|script| &model.scripts[*script].unconfirmed).map(|entry| entry.txid.clone()).collect();
    waiting.sort();
    waiting.dedup();
    let mut all = Vec::new();
    let mut path = "/scripthashes/txs".to_owned();
    loop {
        let got = rest.post(&path, &json!(hashes).to_string());
        let page: Vec<Value> = serde_json::from_slice(&got.body).unwrap();
        let Some(last) = page.last() else { break };
        path = format!("/scripthashes/txs?after_txid={}", last["txid"].as_str().unwrap());
        all.extend(page);
    }
    for transaction in &all {
        assert_eq!(*transaction, shapes[&transaction["txid"].as_str().unwrap().parse::<Txid>().unwrap()]);
    }
    let all = txids(&all);
    let mut unconfirmed = all[..waiting.len()].to_vec();
    unconfirmed.sort();
    assert_eq!(unconfirmed, waiting);
    let newest_first: Vec<String> = confirmed.iter().rev().map(|(.., txid)| txid.to_string()).collect();
    assert_eq!(all[waiting.len()..], newest_first);
}

fn mempool(rest: &Rest, model: &Model<'_>) {
    let waiting = model.live.ledger().mempool();
    let numbers = rest.json("/mempool");
    let vsize: u64 = waiting.values().map(|waiting| waiting.tx.vsize() as u64).sum();
    let fees: u64 = waiting.values().map(|waiting| waiting.fee_sat).sum();
    assert_eq!(
        (&numbers["count"], &numbers["vsize"], &numbers["total_fee"]),
        (&json!(waiting.len()), &json!(vsize), &json!(fees))
    );
    let bins = numbers["fee_histogram"].as_array().unwrap();
    assert_eq!(bins.iter().map(|bin| bin[1].as_u64().unwrap()).sum::<u64>(), vsize);
    assert!(bins.is_sorted_by(|left, right| left[0].as_f64() > right[0].as_f64()));
    let sorted: Vec<String> = waiting.keys().map(Txid::to_string).collect();
    let mut listed: Vec<Txid> = serde_json::from_value(rest.json("/mempool/txids")).unwrap();
    listed.sort();
    assert_eq!(listed.iter().map(Txid::to_string).collect::<Vec<_>>(), sorted);
    assert_eq!(rest.json("/mempool/txids/page"), json!(sorted));
    if let Some(first) = sorted.first() {
        assert_eq!(rest.json(&format!("/mempool/txids/page/{first}")), json!(sorted[1..]));
    }
    let recent = rest.json("/mempool/recent");
    assert_eq!(recent.as_array().unwrap().len(), waiting.len().min(10));
    for entry in recent.as_array().unwrap() {
        let txid: Txid = entry["txid"].as_str().unwrap().parse().unwrap();
        let found = &waiting[&txid];
        let value: u64 = found.tx.input.iter().map(|input| model.output(&input.previous_output).value.to_sat()).sum();
        let expected =
            json!({ "txid": txid.to_string(), "fee": found.fee_sat, "vsize": found.tx.vsize(), "value": value });
        assert_eq!(*entry, expected);
    }
}

fn txids(transactions: &[Value]) -> Vec<String> {
    transactions.iter().map(|transaction| transaction["txid"].as_str().unwrap().to_owned()).collect()
}
