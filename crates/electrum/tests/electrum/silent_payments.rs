//! Silent payments in the dialect of Frigate: payments of a sender who knows nothing of this server, seen by a wallet.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_electrum::{Limits, ScanKeys, ServerLimits, Settings};
use birdhouse_testkit::Options;
use birdhouse_testkit::client::{Client, Notification};
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::rng::rounds;
use birdhouse_testkit::tx::Payment;
use bitcoin::{Amount, OutPoint, Transaction};
use serde_json::{Value, json};

use crate::model;
use crate::silent_sender::{KnownCoin, Receiver, Sent, pay, script, secret};
use crate::world::{Server, Silent, tcp};

const PATIENCE: Duration = Duration::from_mins(1);
const SUBSCRIBE: &str = "blockchain.silentpayments.subscribe";
const TINY: Size = Size { blocks: 3, block_txs: 2, scripts_per_form: 1, busy: &[] };

struct World {
    live: LiveNode,
    server: Server,
}

fn private() -> Limits {
    Limits { scan_keys: ScanKeys::Encrypted, ..Limits::default() }
}

fn world(seed: u64) -> World {
    world_with(seed, private())
}

fn world_with(seed: u64, limits: Limits) -> World {
    let live = LiveNode::start(seed, TINY, Options::default()).unwrap();
    let server = Server::with_silent_payments(live.node(), Settings::default(), tcp(limits), Silent::Indexed);
    World { live, server }
}

impl World {
    /// A confirmed coin with this key.
    fn coin(&mut self, key: u8) -> KnownCoin {
        let (key, sat) = (secret(key), 100_000);
        let paid = self.live.pay(&[Payment::to_script(script(&key), sat)]).unwrap();
        self.mine();
        let outpoint = OutPoint { txid: paid.compute_txid(), vout: 0 };
        KnownCoin { key, outpoint, value: Amount::from_sat(sat) }
    }

    fn send(&mut self, sent: &Sent) {
        self.live.send(&sent.transaction).unwrap();
        self.server.sync();
    }

    fn mine(&mut self) {
        self.live.mine().unwrap();
        self.server.sync();
    }

    fn height(&self) -> u32 {
        self.live.ledger().height()
    }

    fn pay(&mut self, key: u8, receiver: &Receiver, label: Option<u32>) -> Sent {
        let coin = self.coin(key);
        pay(&coin, receiver, label, Amount::from_sat(1000))
    }
}

fn entry(sent: &Sent, height: u32) -> Value {
    json!({ "height": height, "tx_hash": txid(&sent.transaction), "tweak_key": sent.tweak })
}

fn txid(transaction: &Transaction) -> String {
    transaction.compute_txid().to_string()
}

#[expect(clippy::needless_pass_by_value, reason = "call sites pass json!([..])")]
fn subscribe(client: &mut Client, receiver: &Receiver, start: Value, labels: Value) -> Value {
    client.call(SUBSCRIBE, json!([receiver.scan_hex(), receiver.spend_hex(), start, labels])).unwrap()
}

/// Returns the next notification of any kind.
fn next(client: &mut Client) -> Notification {
    client.notification(PATIENCE).unwrap().expect("a notification")
}

/// Returns what the next notification says, which must be about this subscription.
fn next_about(client: &mut Client, subscription: &Value) -> Value {
    let Notification { method, mut params } = next(client);
    assert_eq!((method.as_str(), &params["subscription"]), (SUBSCRIBE, subscription));
    assert_eq!(params.as_object().unwrap().len(), 3);
    params.as_object_mut().unwrap().remove("subscription");
    params
}

/// Returns the entries of a history up to its end, which may be repeated without entries later.
fn history(client: &mut Client, subscription: &Value) -> Vec<Value> {
    let mut entries = Vec::new();
    loop {
        let page = next_about(client, subscription);
        entries.extend(page["history"].as_array().unwrap().iter().cloned());
        if page["progress"] == json!(1.0) {
            return entries;
        }
        assert!(page["progress"].as_f64().unwrap() < 1.0);
    }
}

/// Returns the entries of the next live notification. The repetition of the history's end, which has none, is skipped.
fn live_entries(client: &mut Client, subscription: &Value) -> Vec<Value> {
    loop {
        let page = next_about(client, subscription);
        assert_eq!(page["progress"], json!(1.0));
        let entries = page["history"].as_array().unwrap();
        if !entries.is_empty() {
            return entries.clone();
        }
    }
}

#[test]
fn payments_are_found_in_history_in_the_mempool_live_and_after_a_reorg_once_each() {
    let mut world = world(301);
    let receiver = Receiver::new(1);
    let (first, change) = (world.pay(11, &receiver, None), world.pay(12, &receiver, Some(0)));
    world.send(&first);
    world.mine();
    let first_height = world.height();
    world.send(&change);
    world.mine();
    let change_height = world.height();
    let waiting = world.pay(13, &receiver, None);
    world.send(&waiting);

    let mut client = world.server.client();
    let subscription = subscribe(&mut client, &receiver, json!(0), json!([]));
    assert_eq!(subscription["labels"], json!([0]));
    assert_eq!(subscription["start_height"], json!(0));
    assert!(subscription["address"].as_str().unwrap().starts_with("sprt1q"));
    assert_eq!(subscription.as_object().unwrap().len(), 3);
    let expected = [entry(&first, first_height), entry(&change, change_height), entry(&waiting, 0)];
    assert_eq!(history(&mut client, &subscription), expected);

    // Confirmed now, and known to the client; a new one is live, in the mempool and in a block at once.
    let mined = world.pay(14, &receiver, None);
    world.live.mine_these(vec![mined.transaction.clone()]).unwrap();
    world.server.sync();
    assert_eq!(live_entries(&mut client, &subscription), [entry(&mined, world.height())]);
    let unconfirmed = world.pay(15, &receiver, None);
    world.send(&unconfirmed);
    assert_eq!(live_entries(&mut client, &subscription), [entry(&unconfirmed, 0)]);

    // A reorg brings back what was sent, at other heights, and one more.
    let late = world.pay(16, &receiver, None);
    let fork = world.height() - 3;
    let contents = vec![vec![mined.transaction.clone()], vec![], vec![], vec![late.transaction.clone()], vec![]];
    let again = world.live.ledger().chain()[fork as usize + 1..].iter();
    let mut again: Vec<Transaction> = again.flat_map(|mined| mined.block.txdata[1..].to_vec()).collect();
    again.extend(contents.into_iter().flatten());
    again.push(unconfirmed.transaction.clone());
    let mut blocks = vec![again];
    blocks.extend(vec![Vec::new(); 5]);
    world.live.branch(fork, blocks).unwrap();
    world.server.sync();
    assert_eq!(live_entries(&mut client, &subscription), [entry(&late, fork + 1)]);

    let address =
        client.call("blockchain.silentpayments.unsubscribe", json!([receiver.scan_hex(), receiver.spend_hex()]));
    assert_eq!(address.unwrap(), subscription["address"]);
    let after = world.pay(17, &receiver, None);
    world.send(&after);
    // A subscription to something else shows that nothing came before.
    let other = Receiver::new(2);
    let subscription = subscribe(&mut client, &other, json!(0), json!(null));
    assert_eq!(history(&mut client, &subscription), [] as [Value; 0]);
}

#[test]
fn a_payment_is_told_before_the_script_that_it_pays() {
    let mut world = world(302);
    let receiver = Receiver::new(1);
    let (sent, in_block) = (world.pay(11, &receiver, None), world.pay(12, &receiver, None));
    let scripthash = model::scripthash(&sent.transaction.output[0].script_pubkey);
    let mut client = world.server.client();
    let subscription = subscribe(&mut client, &receiver, json!(0), json!([]));
    assert_eq!(history(&mut client, &subscription), [] as [Value; 0]);
    assert_eq!(client.call("blockchain.scripthash.subscribe", json!([scripthash])).unwrap(), Value::Null);
    world.send(&sent);
    assert_eq!(live_entries(&mut client, &subscription), [entry(&sent, 0)]);
    let notified = next(&mut client);
    assert_eq!(
        (notified.method.as_str(), &notified.params[0]),
        ("blockchain.scripthash.subscribe", &json!(scripthash))
    );

    let scripthash = model::scripthash(&in_block.transaction.output[0].script_pubkey);
    let _ = client.call("blockchain.scripthash.subscribe", json!([scripthash])).unwrap();
    world.live.mine_these(vec![in_block.transaction.clone()]).unwrap();
    world.server.sync();
    assert_eq!(live_entries(&mut client, &subscription), [entry(&in_block, world.height())]);
    let notified = next(&mut client);
    assert_eq!(
        (notified.method.as_str(), &notified.params[0]),
        ("blockchain.scripthash.subscribe", &json!(scripthash))
    );
}

#[test]
fn labels_starts_and_ranges_decide_what_is_found() {
    let mut world = world(303);
    let receiver = Receiver::new(1);
    let mut heights = Vec::new();
    let sent: Vec<Sent> = [None, Some(5), Some(0), None]
        .into_iter()
        .zip(20..)
        .map(|(label, key)| {
            let sent = world.pay(key, &receiver, label);
            world.send(&sent);
            world.mine();
            heights.push(world.height());
            sent
        })
        .collect();
    let entries: Vec<Value> = sent.iter().zip(&heights).map(|(sent, height)| entry(sent, *height)).collect();
    let pick = |picked: &[usize]| -> Vec<Value> { picked.iter().map(|index| entries[*index].clone()).collect() };
    let time = |height: u32| world.live.ledger().chain()[height as usize].block.header.time;
    let table = [
        (json!(null), json!(null), 0, json!([0]), pick(&[0, 2, 3])),
        (json!(0), json!([5, 5, null]), 0, json!([0, 5]), pick(&[0, 1, 2, 3])),
        (json!(heights[1]), json!([5]), heights[1], json!([0, 5]), pick(&[1, 2, 3])),
        (json!(heights[3] + 1), json!([]), heights[3] + 1, json!([0]), pick(&[])),
        (
            json!(format!("{}-{}", heights[0], heights[2])),
            json!([7, 5]),
            heights[0],
            json!([0, 5, 7]),
            pick(&[0, 1, 2]),
        ),
        (json!(format!("{0}-{0}", heights[2])), json!([]), heights[2], json!([0]), pick(&[2])),
    ];
    for (start, labels, start_height, all_labels, expected) in table {
        let mut client = world.server.client();
        let subscription = subscribe(&mut client, &receiver, start.clone(), labels);
        assert_eq!((&subscription["start_height"], &subscription["labels"]), (&json!(start_height), &all_labels));
        assert_eq!(history(&mut client, &subscription), expected, "{start}");
    }
    // A time means blocks of that time or later; which ones before come too is the server's choice.
    let mut client = world.server.client();
    let subscription = subscribe(&mut client, &receiver, json!(time(heights[3])), json!([]));
    assert!(subscription["start_height"].as_u64().unwrap() <= u64::from(heights[3]));
    assert!(history(&mut client, &subscription).contains(&entries[3]));
    // Beyond every block there is nothing, and it goes on live.
    let mut client = world.server.client();
    let subscription = subscribe(&mut client, &receiver, json!(4_000_000_000_u32), json!([]));
    assert_eq!(subscription["start_height"], json!(world.height()));
    // A range is closed, and goes on live too.
    let mut client = world.server.client();
    let subscription = subscribe(&mut client, &receiver, json!("0-1"), json!([]));
    assert_eq!(history(&mut client, &subscription), [] as [Value; 0]);
    let more = world.pay(30, &receiver, None);
    world.live.mine_these(vec![more.transaction.clone()]).unwrap();
    world.server.sync();
    assert_eq!(live_entries(&mut client, &subscription), [entry(&more, world.height())]);
}

#[test]
fn to_subscribe_again_never_narrows_and_sends_the_history_anew() {
    let mut world = world(304);
    let receiver = Receiver::new(1);
    let sent = world.pay(20, &receiver, Some(9));
    world.send(&sent);
    world.mine();
    let found = [entry(&sent, world.height())];
    let mut client = world.server.client();
    let first = subscribe(&mut client, &receiver, json!(3), json!([]));
    assert_eq!(history(&mut client, &first), [] as [Value; 0]);
    let second = subscribe(&mut client, &receiver, json!(5), json!([9]));
    assert_eq!((&second["start_height"], &second["labels"]), (&json!(3), &json!([0, 9])));
    assert_eq!(history(&mut client, &second), found);
    let third = subscribe(&mut client, &receiver, json!(1), json!([9]));
    assert_eq!(third["start_height"], json!(1));
    assert_eq!(history(&mut client, &third), found);
    // Connections of one wallet know nothing of each other.
    let mut other = world.server.client();
    let fourth = subscribe(&mut other, &receiver, json!(4), json!([9]));
    assert_eq!(fourth["start_height"], json!(4));
    assert_eq!(history(&mut other, &fourth), found);
}

#[test]
fn a_long_history_comes_in_pages_that_grow() {
    let mut world = world(305);
    let receiver = Receiver::new(1);
    // One coin pays the next receiver's coin: each transaction of the chain is a payment of its own.
    let keys: Vec<u8> = (0..130).collect();
    let payments: Vec<Payment> = keys.iter().map(|key| Payment::to_script(script(&secret(*key)), 10_000)).collect();
    let funding = world.live.pay(&payments).unwrap();
    world.mine();
    let sent: Vec<Sent> = (0u32..)
        .zip(&keys)
        .map(|(vout, key)| {
            let outpoint = OutPoint { txid: funding.compute_txid(), vout };
            let coin = KnownCoin { key: secret(*key), outpoint, value: Amount::from_sat(10_000) };
            pay(&coin, &receiver, None, Amount::from_sat(500))
        })
        .collect();
    world.live.mine_these(sent.iter().map(|sent| sent.transaction.clone()).collect()).unwrap();
    world.server.sync();
    let height = world.height();
    let expected: Vec<Value> = sent.iter().map(|sent| entry(sent, height)).collect();
    let mut client = world.server.client();
    let subscription = subscribe(&mut client, &receiver, json!(0), json!([]));
    let (mut pages, mut progress) = (Vec::new(), 0.0);
    while progress < 1.0 {
        let page = next_about(&mut client, &subscription);
        let now = page["progress"].as_f64().unwrap();
        assert!(now >= progress);
        progress = now;
        pages.push(page["history"].as_array().unwrap().clone());
    }
    assert!(pages.iter().all(|page| page.len() <= 100));
    assert_eq!(pages.concat(), expected);
}

#[test]
fn a_pipelined_request_by_name_is_answered_as_by_position() {
    let mut world = world(306);
    let receiver = Receiver::new(1);
    let sent = world.pay(20, &receiver, None);
    world.send(&sent);
    world.mine();
    // The form of Frigate's own benchmark: a plain socket, the version and the subscription in one write.
    let mut socket = world.server.socket();
    let version =
        json!({ "jsonrpc": "2.0", "id": 0, "method": "server.version", "params": ["benchmark", ["1.4", "1.6"]] });
    let params =
        json!({ "scan_private_key": receiver.scan_hex(), "spend_public_key": receiver.spend_hex(), "start": 1 });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": SUBSCRIBE, "params": params });
    socket.write_all(format!("{version}\n{request}\n").as_bytes()).unwrap();
    let mut lines = BufReader::new(socket).lines().map(|line| line.unwrap());
    let mut read = || -> Value { serde_json::from_str(&lines.next().unwrap()).unwrap() };
    assert_eq!(read()["id"], json!(0));
    let reply = read();
    assert_eq!(reply["id"], json!(1));
    let mut entries = Vec::new();
    loop {
        let notification = read();
        assert_eq!(notification["params"]["subscription"], reply["result"]);
        entries.extend(notification["params"]["history"].as_array().unwrap().clone());
        if notification["params"]["progress"] == json!(1.0) {
            break;
        }
    }
    assert_eq!(entries, [entry(&sent, world.height())]);
}

/// Sparrow's reader, as far as it decides what is lost. One thread reads lines, and drops a notification unless the
/// wallet's thread has stored the response that it repeats. The wallet's thread stores a response some time after it
/// was read, and then waits for the end of the history.
struct SparrowReader {
    socket: TcpStream,
    stored: Arc<Mutex<Option<Value>>>,
    responses: mpsc::Receiver<Value>,
    ends: mpsc::Receiver<Vec<Value>>,
}

impl Drop for SparrowReader {
    /// Its thread holds the socket, too.
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl SparrowReader {
    fn connect(server: &Server) -> Self {
        let socket = server.socket();
        let lines = BufReader::new(socket.try_clone().unwrap()).lines();
        let stored = Arc::new(Mutex::new(None));
        let (responded, responses) = mpsc::sync_channel(10);
        let (ended, ends) = mpsc::sync_channel(10);
        let known = Arc::clone(&stored);
        thread::spawn(move || {
            let mut found = Vec::new();
            for line in lines {
                let Ok(line) = line else { return };
                let line: Value = serde_json::from_str(&line).unwrap();
                if line["id"] != Value::Null {
                    let _ = responded.send(line["result"].clone());
                    continue;
                }
                let params = &line["params"];
                if line["method"] != SUBSCRIBE || known.lock().unwrap().as_ref() != Some(&params["subscription"]) {
                    continue;
                }
                found.extend(params["history"].as_array().unwrap().clone());
                if params["progress"] == json!(1.0) {
                    let _ = ended.send(std::mem::take(&mut found));
                }
            }
        });
        Self { socket, stored, responses, ends }
    }

    /// Begins a scan, and hands the response over after a time; returns the time from the request until it is stored.
    fn begin(&mut self, receiver: &Receiver, start: u32, hand_over: Duration) -> Duration {
        let params = json!([receiver.scan_hex(), receiver.spend_hex(), start, []]);
        let request = json!({ "jsonrpc": "2.0", "id": 7, "method": SUBSCRIBE, "params": params });
        let began = Instant::now();
        writeln!(self.socket, "{request}").unwrap();
        let response = self.responses.recv_timeout(PATIENCE).expect("the server responds");
        thread::sleep(hand_over);
        *self.stored.lock().unwrap() = Some(response);
        began.elapsed()
    }

    /// Returns what the scan finds; `None` if its end never comes.
    fn end(&mut self) -> Option<Vec<Value>> {
        self.ends.recv_timeout(PATIENCE).ok()
    }
}

/// A server with one payment, and the entry that each scan of it must find.
fn paid_once(seed: u64) -> (World, Receiver, [Value; 1]) {
    let mut world = world(seed);
    let receiver = Receiver::new(1);
    let sent = world.pay(20, &receiver, None);
    world.send(&sent);
    world.mine();
    let expected = [entry(&sent, world.height())];
    (world, receiver, expected)
}

/// `BIRDHOUSE_ROUNDS=2000` makes that many scans, each on a connection of its own, some at once.
#[test]
fn a_reader_that_stores_the_response_late_misses_nothing() {
    const DELAYS_MS: [u64; 6] = [0, 1, 5, 20, 60, 100];
    /// Scans at once: a loaded machine.
    const TOGETHER: usize = 8;
    /// A reader that the machine makes later than this may miss the first notification, which comes after 250 ms.
    const LATEST: Duration = Duration::from_millis(200);
    /// Readers of a round, of which one is in time.
    const READERS: usize = 50;
    let (world, receiver, expected) = paid_once(307);
    let next = AtomicU64::new(0);
    let count = rounds(DELAYS_MS.len() as u64).count() as u64;
    let scans = || {
        let mut hung = Vec::new();
        while let Some(round) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|round| *round < count) {
            let delay_ms = DELAYS_MS[usize::try_from(round).unwrap() % DELAYS_MS.len()];
            let begin = || {
                let mut reader = SparrowReader::connect(&world.server);
                let took = reader.begin(&receiver, 1, Duration::from_millis(delay_ms));
                (took < LATEST).then_some(reader)
            };
            let mut reader = (0..READERS).find_map(|_| begin()).expect("the machine lets one be in time");
            let found = reader.end();
            hung.extend((found.as_deref() != Some(&expected[..])).then_some((round, delay_ms, found)));
        }
        hung
    };
    let hung = thread::scope(|scope| {
        let threads: Vec<_> = (0..TOGETHER).map(|_| scope.spawn(scans)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    println!("{} of {count} scans hang or miss a payment", hung.len());
    assert_eq!(hung, []);
}

#[test]
fn a_reader_that_is_later_than_the_first_notification_gets_the_end_again() {
    let (world, receiver, _) = paid_once(314);
    // Without the payments that it has dropped.
    let mut reader = SparrowReader::connect(&world.server);
    let began = Instant::now();
    reader.begin(&receiver, 1, Duration::from_secs(2));
    let found = reader.end();
    assert_eq!(found.as_deref(), Some(&[][..]), "{:?}", began.elapsed());
}

#[test]
fn requests_that_cannot_be_served_get_their_errors() {
    let world = world_with(308, Limits { silent_subscriptions: 2, ..private() });
    let receiver = Receiver::new(1);
    let (scan, spend) = (receiver.scan_hex(), receiver.spend_hex());
    let mut client = world.server.client();
    let tip = world.height();
    let table = [
        (json!([scan, spend, format!("0-{}", tip + 1)]), format!("start range 'to' ({}) exceeds tip ({tip})", tip + 1)),
        (json!(["00".repeat(32), spend]), "invalid scan/spend key: the scan key is not a private key".into()),
        (
            json!([scan, format!("05{}", "11".repeat(32))]),
            "invalid scan/spend key: the spend key is not a compressed public key".into(),
        ),
    ];
    for (params, message) in table {
        let error = client.batch(&[(SUBSCRIBE, params)]).unwrap().remove(0).unwrap_err();
        assert_eq!(error, json!({ "code": -32602, "message": message }));
    }
    for number in [1, 2] {
        subscribe(&mut client, &Receiver::new(number), json!(tip), json!([]));
    }
    let third = Receiver::new(3);
    let error =
        client.batch(&[(SUBSCRIBE, json!([third.scan_hex(), third.spend_hex()]))]).unwrap().remove(0).unwrap_err();
    assert_eq!(error, json!({ "code": -32602, "message": "subscription limit reached (2) for this connection" }));
    // The same address again takes no more room.
    subscribe(&mut client, &receiver, json!(0), json!([]));
    // An address that is not followed can be left.
    let left =
        client.call("blockchain.silentpayments.unsubscribe", json!([third.scan_hex(), third.spend_hex()])).unwrap();
    assert!(left.as_str().unwrap().starts_with("sprt1q"));
}

#[test]
fn the_feature_is_there_where_scan_keys_are_taken() {
    let live = LiveNode::start(309, TINY, Options::default()).unwrap();
    let receiver = Receiver::new(1);
    let request = || (SUBSCRIBE, json!([receiver.scan_hex(), receiver.spend_hex()]));
    let cases = [
        (private(), Silent::Indexed, true),
        (Limits::default(), Silent::Indexed, false),
        (private(), Silent::Off, false),
    ];
    for (limits, silent, is_there) in cases {
        let server = Server::with_silent_payments(live.node(), Settings::default(), tcp(limits), silent);
        let mut client = server.client();
        let features = client.call("server.features", json!([])).unwrap();
        let expected = if is_there { json!([0]) } else { Value::Null };
        assert_eq!(features["silent_payments"], expected);
        let answer = client.batch(&[request()]).unwrap().remove(0);
        match answer {
            Ok(_) => assert!(is_there),
            Err(error) => {
                let message = format!("unknown method \"{SUBSCRIBE}\"");
                assert_eq!(error, json!({ "code": -32601, "message": message }));
                assert!(!is_there);
            }
        }
    }
}

#[test]
fn an_index_that_is_behind_is_named_with_its_height() {
    let live = LiveNode::start(310, TINY, Options::default()).unwrap();
    let server = Server::with_silent_payments(live.node(), Settings::default(), tcp(private()), Silent::Behind);
    let receiver = Receiver::new(1);
    let mut client = server.client();
    let request = (SUBSCRIBE, json!([receiver.scan_hex(), receiver.spend_hex()]));
    let error = client.batch(&[request]).unwrap().remove(0).unwrap_err();
    let message = format!("silent payments index at 0 of {}", live.ledger().height());
    assert_eq!(error, json!({ "code": -102, "message": message }));
    // It catches up, and then the same request is served.
    server.index_silent_payments();
    let subscription = subscribe(&mut client, &receiver, json!(0), json!([]));
    assert_eq!(history(&mut client, &subscription), [] as [Value; 0]);
}

/// Waits until the server has this many subscriptions to silent payments.
fn until_subscriptions(server: &Server, count: usize) {
    let began = Instant::now();
    while server.overview().silent_subscriptions != count {
        assert!(began.elapsed() < PATIENCE, "{:?}", server.overview());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn connections_with_one_key_share_its_scan_and_subscriptions_end_with_them() {
    let mut world = world(311);
    let receiver = Receiver::new(1);
    let sent = world.pay(20, &receiver, None);
    world.send(&sent);
    world.mine();
    let expected = [entry(&sent, world.height())];
    let mut first = world.server.client();
    let subscription = subscribe(&mut first, &receiver, json!(0), json!([]));
    assert_eq!(history(&mut first, &subscription), expected);
    let scanned = world.server.overview().counted.silent_scanned;
    assert!(scanned > 0);
    let mut second = world.server.client();
    let subscription = subscribe(&mut second, &receiver, json!(0), json!([]));
    assert_eq!(history(&mut second, &subscription), expected);
    let overview = world.server.overview();
    assert_eq!((overview.counted.silent_scanned, overview.counted.silent_found), (scanned, 2));
    assert_eq!((overview.silent_subscriptions, overview.silent_scans), (2, 0));
    // Other labels make another key.
    let mut third = world.server.client();
    let subscription = subscribe(&mut third, &receiver, json!(0), json!([3]));
    assert_eq!(history(&mut third, &subscription), expected);
    assert_eq!(world.server.overview().counted.silent_scanned, 2 * scanned);
    drop((first, third));
    until_subscriptions(&world.server, 1);
    drop(second);
    until_subscriptions(&world.server, 0);
}

#[test]
fn one_client_has_its_part_of_the_subscriptions_over_all_of_its_connections() {
    // Connections whose address is that of a proxy or of this machine share the bounds of twenty clients.
    let world = world_with(313, Limits { client_silent_subscriptions: Some(1), ..private() });
    let (mut first, mut second) = (world.server.client(), world.server.client());
    for number in 1..=10 {
        subscribe(&mut first, &Receiver::new(number), json!(0), json!([]));
        subscribe(&mut second, &Receiver::new(10 + number), json!(0), json!([]));
    }
    let more = Receiver::new(30);
    let request = (SUBSCRIBE, json!([more.scan_hex(), more.spend_hex()]));
    let error = first.batch(&[request]).unwrap().remove(0).unwrap_err();
    let message = "the number of subscriptions to silent payments exceeds the cap of one client";
    assert_eq!(error, json!({ "code": -32602, "message": message }));
    drop(second);
    until_subscriptions(&world.server, 10);
    subscribe(&mut first, &more, json!(0), json!([]));
}

#[test]
fn a_server_whose_scans_are_all_taken_refuses_more() {
    let live = LiveNode::start(312, TINY, Options::default()).unwrap();
    let limits = ServerLimits { silent_scans: 0, ..ServerLimits::default() };
    let settings = Settings { limits, ..Settings::default() };
    let server = Server::with_silent_payments(live.node(), settings, tcp(private()), Silent::Indexed);
    let receiver = Receiver::new(1);
    let mut client = server.client();
    let request = (SUBSCRIBE, json!([receiver.scan_hex(), receiver.spend_hex()]));
    let error = client.batch(&[request]).unwrap().remove(0).unwrap_err();
    let message = "the number of scans for silent payments exceeds the server's cap of 0";
    assert_eq!(error, json!({ "code": -32602, "message": message }));
    assert_eq!(server.overview().silent_subscriptions, 0);
}
