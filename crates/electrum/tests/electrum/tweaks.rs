//! Tweaks in the dialect of Cake Wallet, against a model of BIP 352, an own decoder and Core.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use birdhouse_electrum::{Limits, Settings, TweakDialect};
use birdhouse_testkit::Options;
use birdhouse_testkit::client::Client;
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use bitcoin::{Amount, OutPoint, Txid};
use serde_json::{Value, json};

use crate::eligible::{Eligible, eligible};
use crate::silent_sender::{KnownCoin, Receiver, Sent, pay, script, secret};
use crate::world::{Server, Silent, tcp};

const PATIENCE: Duration = Duration::from_mins(1);
const SUBSCRIBE: &str = "blockchain.tweaks.subscribe";
const SMALL: Size = Size { blocks: 12, block_txs: 8, scripts_per_form: 3, busy: &[] };
const TINY: Size = Size { blocks: 3, block_txs: 2, scripts_per_form: 1, busy: &[] };

fn settings(tweak_dialect: TweakDialect) -> Settings {
    let server_version = "Birdhouse (ElectrumX-compatible, with tweaks as electrs)".into();
    Settings { tweak_dialect, server_version, ..Settings::default() }
}

fn serve(live: &LiveNode, dialect: TweakDialect, limits: Limits) -> Server {
    Server::with_silent_payments(live.node(), settings(dialect), tcp(limits), Silent::Full)
}

// === reading ===

/// An output as version 1 has it.
#[derive(Debug, PartialEq)]
struct Output {
    key: String,
    sats: u64,
    spender: Option<Value>,
}

/// A transaction as either version has it; values and spenders are those of version 1.
#[derive(Debug, PartialEq)]
struct Found {
    tweak: String,
    outputs: BTreeMap<u32, Output>,
}

type Blocks = Vec<(u32, BTreeMap<String, Found>)>;

/// Reads a block as the wallet does: the last member whose name is a number is the block.
fn of_json(map: &Value) -> (u32, BTreeMap<String, Found>) {
    let (height, transactions) = map.as_object().unwrap().iter().next().unwrap();
    let output = |(vout, output): (&String, &Value)| {
        let of = output.as_array().unwrap();
        let key = of[0].as_str().unwrap().to_owned();
        (vout.parse().unwrap(), Output { key, sats: of[1].as_u64().unwrap(), spender: of.get(2).cloned() })
    };
    let found = |(txid, found): (&String, &Value)| {
        let outputs = found["output_pubkeys"].as_object().unwrap().iter().map(output).collect();
        (txid.clone(), Found { tweak: found["tweak"].as_str().unwrap().to_owned(), outputs })
    };
    (height.parse().unwrap(), transactions.as_object().unwrap().iter().map(found).collect())
}

/// A reader of version 2, from its description alone.
struct Reader(Vec<u8>);

impl Reader {
    fn take(&mut self, count: usize) -> Vec<u8> {
        self.0.drain(..count).collect()
    }

    fn number(&mut self) -> u64 {
        let bytes = match self.take(1)[0] {
            0xfd => 2,
            0xfe => 4,
            0xff => 8,
            small => return small.into(),
        };
        self.take(bytes).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

fn of_base64(text: &str) -> (u32, BTreeMap<String, Found>) {
    let digit =
        |byte: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".iter().position(|c| *c == byte);
    let mut bytes = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let digits: Vec<usize> = four.iter().filter_map(|byte| digit(*byte)).collect();
        let bits = digits.iter().fold(0_u32, |bits, digit| bits << 6 | u32::try_from(*digit).unwrap());
        let bits = bits << (6 * (4 - digits.len()));
        bytes.extend(&bits.to_be_bytes()[1..digits.len()]);
    }
    let mut reader = Reader(bytes);
    let height = u32::from_le_bytes(reader.take(4).try_into().unwrap());
    let mut found = BTreeMap::new();
    for _ in 0..reader.number() {
        let mut txid = reader.take(32);
        txid.reverse();
        let tweak = const_hex::encode(reader.take(33));
        let mut outputs = BTreeMap::new();
        for _ in 0..reader.number() {
            let vout = u32::try_from(reader.number()).unwrap();
            outputs.insert(vout, Output { key: const_hex::encode(reader.take(32)), sats: 0, spender: None });
        }
        found.insert(const_hex::encode(txid), Found { tweak, outputs });
    }
    assert!(reader.0.is_empty(), "{} bytes are left", reader.0.len());
    (height, found)
}

fn of_object(object: &Value) -> (u32, BTreeMap<String, Found>) {
    object["tweaks_v2"].as_str().map_or_else(|| of_json(object), of_base64)
}

/// Reads a stream to its end.
fn stream(client: &mut Client, params: Value) -> Blocks {
    let mut blocks = vec![of_object(&client.call(SUBSCRIBE, params).unwrap())];
    loop {
        let next = client.notification(PATIENCE).unwrap().expect("a notification");
        assert_eq!((next.method.as_str(), next.params.as_array().unwrap().len()), (SUBSCRIBE, 1));
        if next.params[0] == json!({ "message": "done" }) {
            return blocks;
        }
        blocks.push(of_object(&next.params[0]));
    }
}

// === the model ===

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Past {
    Left,
    Sent,
}

/// Returns true if Core has no such output, whatever its mempool has.
fn is_spent(live: &LiveNode, outpoint: OutPoint) -> bool {
    live.node().rpc("gettxout", json!([outpoint.txid.to_string(), outpoint.vout, false])).unwrap().is_null()
}

/// The inputs of blocks that spend outputs, as version 1 has them.
fn spenders(live: &LiveNode) -> HashMap<OutPoint, Value> {
    let mut spenders = HashMap::new();
    for (height, mined) in live.ledger().chain().iter().enumerate() {
        let block = json!({ "height": height, "hash": mined.hash.to_string() });
        for (tx, txid) in mined.block.txdata.iter().zip(&mined.txids) {
            for (vin, input) in tx.input.iter().enumerate() {
                let spender = json!({ "txid": txid.to_string(), "vin": vin, "confirmed": block });
                spenders.insert(input.previous_output, spender);
            }
        }
    }
    spenders
}

/// A transaction of a block as it is to be sent; `None` if it is left out.
fn expected(live: &LiveNode, one: &Eligible, version: u32, past: Past) -> Option<(String, Found)> {
    let (outputs, spenders) = (live.ledger().outputs(), spenders(live));
    let outpoints = (0..).map(|vout| OutPoint { txid: one.txid, vout });
    let mut found = BTreeMap::new();
    let mut spent = 0;
    for outpoint in outpoints.take_while(|outpoint| outputs.contains_key(outpoint)) {
        let output = &outputs[&outpoint];
        if !output.output.script_pubkey.is_p2tr() {
            continue;
        }
        let is_gone = is_spent(live, outpoint);
        spent += usize::from(is_gone);
        let spender = spenders.get(&outpoint).cloned();
        assert_eq!(spender.is_some(), is_gone, "the ledger and Core differ");
        let key = const_hex::encode(&output.output.script_pubkey.as_bytes()[2..]);
        let (sats, spender) = if version == 1 { (output.output.value.to_sat(), spender) } else { (0, None) };
        found.insert(outpoint.vout, Output { key, sats, spender });
    }
    let keys: Vec<String> = one.keys.iter().map(const_hex::encode).collect();
    assert_eq!(found.values().map(|output| output.key.clone()).collect::<Vec<_>>(), keys);
    let is_left = past == Past::Left && spent == found.len();
    (!is_left).then(|| (one.txid.to_string(), Found { tweak: const_hex::encode(one.tweak), outputs: found }))
}

#[test]
fn streams_have_the_transactions_of_the_model_whole_and_without_the_spent_ones() {
    let mut live = LiveNode::start(401, SMALL, Options::default()).unwrap();
    let lock = |salt| Lock::new(Form::P2tr, salt);
    // One whose outputs are both spent, one with a part, one that only the mempool spends.
    let payments = |salt| [salt, salt + 1].map(|salt| Payment::to_lock(lock(salt), 50_000));
    for salt in [600, 610, 620] {
        live.pay(&payments(salt)).unwrap();
    }
    live.mine().unwrap();
    for salts in [&[600, 601][..], &[610]] {
        let scripts: Vec<_> = salts.iter().map(|salt| live.wallet().script_pubkey(lock(*salt))).collect();
        let coins: Vec<_> =
            live.confirmed_coins().into_iter().filter(|coin| scripts.contains(&coin.output.script_pubkey)).collect();
        live.pay_from(&coins, &[Payment::to_lock(Lock::new(Form::P2wpkh, 1), 10_000)], 5_000).unwrap();
    }
    live.mine().unwrap();
    live.mine_empty(2).unwrap();
    let scripts = [620, 621].map(|salt| live.wallet().script_pubkey(lock(salt)));
    let coins: Vec<_> =
        live.confirmed_coins().into_iter().filter(|coin| scripts.contains(&coin.output.script_pubkey)).collect();
    live.pay_from(&coins, &[Payment::to_lock(Lock::new(Form::P2wpkh, 1), 10_000)], 5_000).unwrap();

    let server = serve(&live, TweakDialect::V2, Limits::default());
    server.sync();
    let blocks = eligible(live.ledger());
    let mut client = server.client();
    let mut lens = Vec::new();
    for (version, past) in [(1, Past::Left), (1, Past::Sent), (2, Past::Left), (2, Past::Sent)] {
        let model: Blocks = (0..)
            .zip(&blocks)
            .map(|(height, block)| {
                (height, block.iter().filter_map(|one| expected(&live, one, version, past)).collect())
            })
            .collect();
        let params = json!([0, blocks.len() + 7, past == Past::Sent, version]);
        assert_eq!(stream(&mut client, params), model, "version {version}, {past:?}");
        lens.push(model.iter().map(|(_, found)| found.len()).sum::<usize>());
    }
    assert!(lens[0] < lens[1] && (lens[0], lens[1]) == (lens[2], lens[3]), "some are left out: {lens:?}");
    // Parts of the chain, one block, and the last one, which is empty.
    let all = stream(&mut client, json!([0, 1000, true]));
    for (start, count) in [(0, 1), (1, 1), (3, 5), (all.len() - 1, 1), (all.len() - 3, 100)] {
        let end = (start + count).min(all.len());
        assert_eq!(stream(&mut client, json!([start, count, true])), all[start..end]);
    }
}

#[test]
fn an_output_has_the_value_and_the_state_that_core_says() {
    let live = LiveNode::start(402, SMALL, Options::default()).unwrap();
    let server = serve(&live, TweakDialect::V2, Limits::default());
    let mut client = server.client();
    let mut states = [0, 0];
    for (outpoint, output) in live.ledger().outputs() {
        if !output.output.script_pubkey.is_p2tr() {
            continue;
        }
        let is_spent = is_spent(&live, outpoint);
        let params = json!([outpoint.txid.to_string(), outpoint.vout, output.height.unwrap()]);
        let answer = client.call("blockchain.tweaks.get", params).unwrap();
        assert_eq!(answer, json!({ "amount": output.output.value.to_sat(), "spent": is_spent }), "{outpoint}");
        states[usize::from(is_spent)] += 1;
    }
    assert!(states.iter().all(|count| *count > 3), "{states:?}");
    let unknown = Txid::from_raw_hash(bitcoin::hashes::Hash::all_zeros());
    let error =
        client.batch(&[("blockchain.tweaks.get", json!([unknown.to_string(), 0, 1]))]).unwrap().remove(0).unwrap_err();
    assert_eq!(error, json!({ "code": 1, "message": format!("no tweak row for {unknown}:0") }));
}

// === the wallet ===

/// A wallet's scan, as Cake's: one connection, whose subscription is made anew at each end, from the height after the
/// last block that came. Returns the requests that it took, and the tweaks of transactions that pay one of the keys.
struct Scan {
    requests: usize,
    found: Vec<(u32, String)>,
}

/// Cake's version 2 begins with 2000 blocks, and asks for half when a request exceeds the cap.
fn scan(client: &mut Client, from: u32, tip: u32, version: u32, keys: &[String]) -> Scan {
    let (mut last, mut requests, mut found) = (from - 1, 0, Vec::new());
    let mut most = if version == 1 { u32::MAX } else { 2000 };
    while last < tip {
        let (height, count) = (last + 1, (tip - last).min(most));
        let params = if version == 1 { json!([height, count, false]) } else { json!([height, count, false, 2]) };
        requests += 1;
        assert!(requests < 1000, "the wallet asks for ever");
        let reply = client.batch(&[(SUBSCRIBE, params)]).unwrap().remove(0);
        let mut next = match reply {
            Ok(result) => Some(result),
            Err(error) => {
                let message = error["message"].as_str().unwrap();
                assert!(message.contains("exceeds") && message.contains("cap"), "{message}");
                most = (count / 2).max(1);
                continue;
            }
        };
        while let Some(object) = next.take() {
            let (height, transactions) = of_object(&object);
            for transaction in transactions.into_values() {
                if transaction.outputs.values().any(|output| keys.contains(&output.key)) {
                    found.push((height, transaction.tweak));
                }
            }
            last = height;
            let notification = client.notification(PATIENCE).unwrap().expect("a notification");
            next = Some(notification.params[0].clone()).filter(|object| object.get("message").is_none());
        }
    }
    Scan { requests, found }
}

struct Paid {
    live: LiveNode,
    sent: Vec<(u32, Sent)>,
}

impl Paid {
    /// Payments of a sender who knows nothing of this server, with empty blocks between them and at the end.
    fn new(seed: u64) -> Self {
        let mut live = LiveNode::start(seed, TINY, Options::default()).unwrap();
        let receiver = Receiver::new(1);
        let mut sent = Vec::new();
        for number in 11..16 {
            let key = secret(number);
            let paid = live.pay(&[Payment::to_script(script(&key), 100_000)]).unwrap();
            live.mine().unwrap();
            let outpoint = OutPoint { txid: paid.compute_txid(), vout: 0 };
            let coin = KnownCoin { key, outpoint, value: Amount::from_sat(100_000) };
            let payment = pay(&coin, &receiver, None, Amount::from_sat(1000));
            live.mine_these(vec![payment.transaction.clone()]).unwrap();
            sent.push((live.ledger().height(), payment));
            live.mine_empty(2).unwrap();
        }
        Self { live, sent }
    }

    fn keys(&self) -> Vec<String> {
        let key = |sent: &Sent| const_hex::encode(&sent.transaction.output[0].script_pubkey.as_bytes()[2..]);
        self.sent.iter().map(|(_, sent)| key(sent)).collect()
    }

    fn expected(&self) -> Vec<(u32, String)> {
        self.sent.iter().map(|(height, sent)| (*height, sent.tweak.clone())).collect()
    }
}

#[test]
fn the_wallets_probe_and_scan_find_every_payment_and_end() {
    let paid = Paid::new(403);
    let tip = paid.live.ledger().height();
    let server = serve(&paid.live, TweakDialect::V2, Limits::default());
    // The wallet asks only servers whose name says electrs, and takes any result for a yes.
    let mut client = server.stranger();
    let version = client.call("server.version", json!(["", "1.4"])).unwrap();
    assert!(version[0].as_str().unwrap().to_lowercase().contains("electrs"));
    let probe = client.call(SUBSCRIBE, json!([0, 1, false])).unwrap();
    assert_eq!(probe, json!({ "0": {}, "params": [{ "max_protocol_version": 2 }] }));
    assert_eq!(client.notification(PATIENCE).unwrap().unwrap().params, json!([{ "message": "done" }]));
    assert_eq!(client.call("server.features", json!([])).unwrap()["tweaks"], json!(true));
    // The id is a string in one of its clients.
    client.send_line(format!(r#"{{"method":"{SUBSCRIBE}","id":"scan","params":[{tip},1,false]}}"#).as_bytes()).unwrap();
    let reply = client.answer().unwrap();
    assert_eq!((&reply["id"], &reply["result"]), (&json!("scan"), &json!({ (tip.to_string()): {} })));
    assert_eq!(client.notification(PATIENCE).unwrap().unwrap().params, json!([{ "message": "done" }]));
    for version in [1, 2] {
        let Scan { requests, found } = scan(&mut client, 1, tip, version, &paid.keys());
        assert_eq!((requests, found), (1, paid.expected()), "version {version}");
    }
    let one_reply = client.call(SUBSCRIBE, json!([1, 1, false, 2])).unwrap();
    assert_eq!(one_reply["params"], json!([{ "max_protocol_version": 2 }]));
}

#[test]
fn a_range_beyond_the_bytes_is_refused_in_words_that_the_wallet_understands() {
    let paid = Paid::new(404);
    let limits = Limits { tweak_stream_bytes: Some(2_000), ..Limits::default() };
    let server = serve(&paid.live, TweakDialect::V2, limits);
    let mut client = server.client();
    let Scan { requests, found } = scan(&mut client, 1, paid.live.ledger().height(), 2, &paid.keys());
    assert!(requests > 5 && found == paid.expected(), "{requests}, {found:?}");
}

#[test]
fn requests_that_cannot_be_served_get_their_errors() {
    let live = LiveNode::start(405, TINY, Options::default()).unwrap();
    let tip = live.ledger().height();
    let unknown = |method: &str| json!({ "code": -32601, "message": format!("unknown method \"{method}\"") });
    let disabled = "tweaks index disabled: it needs the server's setting silent-payments = \"full\"";
    let version = |number| json!({ "code": -32602, "message": format!("unsupported version of tweaks: {number}") });
    let behind = format!("silent payments index at 0 of {tip}");
    let get = "blockchain.tweaks.get";
    let table = [
        (TweakDialect::Off, Silent::Full, SUBSCRIBE, json!([0, 1]), unknown(SUBSCRIBE)),
        (TweakDialect::Off, Silent::Full, get, json!([]), unknown(get)),
        (TweakDialect::V1, Silent::Full, get, json!([]), unknown(get)),
        (TweakDialect::V1, Silent::Off, SUBSCRIBE, json!([0, 1]), json!({ "code": 1, "message": disabled })),
        (TweakDialect::V2, Silent::Indexed, SUBSCRIBE, json!([0, 1]), json!({ "code": 1, "message": disabled })),
        (TweakDialect::V1, Silent::Full, SUBSCRIBE, json!([0, 1, false, 2]), version(2)),
        (TweakDialect::V2, Silent::Full, SUBSCRIBE, json!([0, 1, false, 3]), version(3)),
        (TweakDialect::V2, Silent::Full, SUBSCRIBE, json!([0, 1, false, 0]), version(0)),
        (
            TweakDialect::V1,
            Silent::Full,
            SUBSCRIBE,
            json!([tip + 1, 1]),
            json!({ "code": 1, "message": format!("height {} is above the tip, {tip}", tip + 1) }),
        ),
        (TweakDialect::V1, Silent::FullBehind, SUBSCRIBE, json!([0, 9]), json!({ "code": -102, "message": behind })),
        (
            TweakDialect::V1,
            Silent::Full,
            SUBSCRIBE,
            json!([]),
            json!({ "code": -32602, "message": "height is missing" }),
        ),
    ];
    for (dialect, silent, method, params, expected) in table {
        let server = Server::with_silent_payments(live.node(), settings(dialect), tcp(Limits::default()), silent);
        let mut client = server.client();
        let error = client.batch(&[(method, params.clone())]).unwrap().remove(0).unwrap_err();
        assert_eq!(error, expected, "{dialect:?} {method} {params}");
        let features = client.call("server.features", json!([])).unwrap();
        let is_there = dialect != TweakDialect::Off && matches!(silent, Silent::Full | Silent::FullBehind);
        assert_eq!(features.get("tweaks"), is_there.then_some(&json!(true)));
    }
}

#[test]
fn streams_of_one_connection_follow_each_other_up_to_their_bound() {
    let live = LiveNode::start(406, SMALL, Options::default()).unwrap();
    let server = serve(&live, TweakDialect::V1, Limits::default());
    let mut client = server.client();
    let whole = stream(&mut client, json!([0, 1000, true]));
    let requests: Vec<(&str, Value)> = (0..11).map(|_| (SUBSCRIBE, json!([0, 1000, true]))).collect();
    let replies = client.batch(&requests).unwrap();
    let refused: Vec<&Value> = replies.iter().filter_map(|reply| reply.as_ref().err()).collect();
    let message = "excessive resource usage: the number of streams of tweaks exceeds the cap of 10";
    assert_eq!(refused, [&json!({ "code": -101, "message": message })]);
    for _ in 0..10 {
        let mut rest = Vec::new();
        loop {
            let next = client.notification(PATIENCE).unwrap().expect("a notification");
            if next.params[0].get("message").is_some() {
                break;
            }
            rest.push(of_object(&next.params[0]));
        }
        assert_eq!(rest, whole[1..]);
    }
    // All are over, so there is room again.
    assert_eq!(stream(&mut client, json!([0, 1000, true])), whole);
}
