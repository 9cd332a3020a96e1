//! `/api/v1/ws` with another implementation's client, on a chain and a mempool that change.

use std::time::Duration;

use birdhouse_esplora::Limits;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use bitcoin::{Address, Network, Transaction};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::mining::{made, node_rate};
use crate::world::{Rest, SMALL, World};

const PATIENCE: Duration = Duration::from_mins(1);

/// A client.
struct Client {
    runtime: Runtime,
    socket: WebSocketStream<TcpStream>,
}

impl Client {
    fn new(rest: &Rest) -> Self {
        Self::at(rest, "/api/v1/ws")
    }

    fn at(rest: &Rest, path: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let socket = runtime.block_on(async {
            let stream = TcpStream::connect(("127.0.0.1", rest.port)).await.unwrap();
            tokio_tungstenite::client_async(format!("ws://localhost{path}"), stream).await.unwrap().0
        });
        Self { runtime, socket }
    }

    /// A client that has asked for something, and got the answer to a ping after it.
    fn tracking(rest: &Rest, wish: &Value) -> Self {
        let mut client = Self::new(rest);
        client.send(wish);
        client.send(&json!({ "action": "ping" }));
        client.until("pong");
        client
    }

    fn send(&mut self, message: &Value) {
        self.runtime.block_on(self.socket.send(Message::text(message.to_string()))).unwrap();
    }

    fn frame(&mut self) -> Message {
        let next = self.runtime.block_on(async { timeout(PATIENCE, self.socket.next()).await });
        next.expect("a message within the patience").unwrap().unwrap()
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(self.frame().to_text().unwrap()).unwrap()
    }

    /// The next message with a member, without those before it.
    fn until(&mut self, member: &str) -> Value {
        loop {
            let message = self.next();
            if message.get(member).is_some() {
                return message[member].clone();
            }
        }
    }

    fn until_closed(&mut self) -> u16 {
        loop {
            if let Message::Close(Some(close)) = self.frame() {
                return close.code.into();
            }
        }
    }
}

/// An address of the world's wallet, and a payment to it.
fn payment(world: &World, number: u32, sat: u64) -> (String, Payment) {
    let lock = Lock::new(Form::P2wpkh, number);
    let script = world.live.wallet().script_pubkey(lock);
    let address = Address::from_script(&script, Network::Regtest).unwrap().to_string();
    (address, Payment::to_lock(lock, sat))
}

fn txid(transaction: &Transaction) -> Value {
    json!(transaction.compute_txid())
}

#[test]
fn a_new_client_gets_blocks_and_the_mempool_and_then_their_changes() {
    let mut world = World::small(151);
    let mut client = Client::new(&world.rest);
    client.send(&json!({ "action": "init" }));
    let first = client.next();
    let blocks = first["blocks"].as_array().unwrap();
    let mut newest = world.rest.json("/blocks").as_array().unwrap()[..8].to_vec();
    newest.reverse();
    assert_eq!(blocks, &newest);
    assert_eq!((&first["mempool-blocks"], &first["mempoolInfo"]["size"]), (&json!([]), &json!(0)));
    assert_eq!(first["fees"], world.rest.json("/api/v1/fees/precise"));
    let info = world.live.node().rpc("getmempoolinfo", json!([])).unwrap();
    assert_eq!(first["mempoolInfo"]["mempoolminfee"], info["mempoolminfee"]);
    assert_eq!(first["da"]["nextRetargetHeight"], json!(2016));
    assert!(first["backendInfo"]["version"].is_string() && first["transactions"].is_array(), "{first}");

    client.send(&json!({ "action": "want", "data": ["blocks", "stats", "mempool-blocks"] }));
    let wanted = client.next();
    assert!(["blocks", "mempool-blocks", "mempoolInfo", "fees"].iter().all(|name| wanted.get(*name).is_some()));
    let (_, pay) = payment(&world, 601, 40_000);
    let paid = world.live.pay(&[pay]).unwrap();
    world.sync();
    let message = client.next();
    assert_eq!((&message["mempoolInfo"]["size"], &message["mempool-blocks"][0]["nTx"]), (&json!(1), &json!(1)));
    assert_eq!(message["transactions"][0]["txid"], txid(&paid));
    assert_eq!(message["mempool-blocks"], world.rest.json("/api/v1/fees/mempool-blocks"));
    world.live.mine().unwrap();
    world.sync();
    assert_eq!(client.until("block"), world.rest.json("/blocks")[0]);
    assert_eq!(client.until("mempoolInfo")["size"], json!(0));
    // Two blocks at once, and a reorg.
    let height = world.live.ledger().height();
    world.live.mine_empty(2).unwrap();
    world.sync();
    assert_eq!(
        (&client.until("block")["height"], &client.until("block")["height"]),
        (&json!(height + 1), &json!(height + 2))
    );
    world.live.branch(height, vec![Vec::new(), Vec::new(), Vec::new()]).unwrap();
    world.sync();
    assert_eq!(client.until("blocks")[7], world.rest.json("/blocks")[0]);
}

#[test]
fn a_tracked_transaction_is_sent_in_the_mempool_replaced_spent_and_confirmed() {
    let mut world = World::small(152);
    let (_, pay) = payment(&world, 611, 50_000);
    let first = world.live.pay(std::slice::from_ref(&pay)).unwrap();
    let id = first.compute_txid();
    let mut awaiting = Client::tracking(&world.rest, &json!({ "track-tx": id, "watch-mempool": true }));
    world.sync();
    assert_eq!(awaiting.until("tx"), world.rest.json(&format!("/tx/{id}")));
    let position = awaiting.until("txPosition");
    let vsize = world.live.ledger().mempool()[&id].vsize;
    assert_eq!(position, json!({ "txid": id, "position": { "block": 0, "vsize": vsize / 2 } }));
    let mut late = Client::new(&world.rest);
    late.send(&json!({ "track-tx": id }));
    assert_eq!(late.next()["txPosition"], position);

    let second = world.live.replace(&first, &[pay], 20_000).unwrap();
    world.sync();
    assert_eq!(late.until("rbfTransaction"), json!({ "txid": txid(&second) }));
    awaiting.until("rbfTransaction");
    let mut replaced = Client::new(&world.rest);
    replaced.send(&json!({ "track-tx": id, "watch-mempool": true }));
    assert_eq!(replaced.next(), json!({ "txReplaced": { "txid": txid(&second) } }));

    let mut client = Client::tracking(&world.rest, &json!({ "track-tx": second.compute_txid() }));
    let coin = world.live.coins().into_iter().find(|coin| coin.outpoint.txid == second.compute_txid()).unwrap();
    let vout = coin.outpoint.vout.to_string();
    let child = world.live.pay_from(&[coin], &[], 5_000).unwrap();
    world.sync();
    assert_eq!(client.until("utxoSpent")[&vout], json!({ "vin": 0, "txid": txid(&child) }));
    world.live.mine().unwrap();
    world.sync();
    assert_eq!(client.until("txConfirmed"), txid(&second));
    // Later ones are sent nothing that they know.
    client.send(&json!({ "track-tx": "stop" }));
    client.send(&json!({ "action": "ping" }));
    assert_eq!(client.next(), json!({ "pong": true }));
}

#[test]
fn several_tracked_transactions_are_told_together() {
    let mut world = World::small(153);
    let (_, pay) = payment(&world, 621, 50_000);
    let first = world.live.pay(std::slice::from_ref(&pay)).unwrap();
    world.sync();
    let (id, unknown) = (first.compute_txid().to_string(), "ab".repeat(32));
    let mut client = Client::new(&world.rest);
    client.send(&json!({ "track-txs": [id, unknown, "x"] }));
    let known = client.until("tracked-txs");
    assert_eq!((known.as_object().unwrap().len(), &known[&id]["confirmed"]), (1, &json!(false)));
    assert_eq!(known[&id]["position"]["block"], json!(0));
    let second = world.live.replace(&first, &[pay], 20_000).unwrap();
    world.sync();
    assert_eq!(client.until("tracked-txs")[&id]["replacedBy"], txid(&second));
    client.send(&json!({ "track-txs": [txid(&second)] }));
    client.until("tracked-txs");
    world.live.mine().unwrap();
    world.sync();
    let second = second.compute_txid().to_string();
    assert_eq!(client.until("tracked-txs")[&second], json!({ "confirmed": true }));
    // Spent in the mempool, so that there is something to tell about it, and in a block.
    let coin = world.live.coins().into_iter().find(|coin| coin.outpoint.txid.to_string() == second).unwrap();
    let vout = coin.outpoint.vout.to_string();
    let child = world.live.pay_from(&[coin], &[], 5_000).unwrap();
    world.sync();
    let mut late = Client::new(&world.rest);
    late.send(&json!({ "track-txs": [second] }));
    let known = late.until("tracked-txs");
    assert_eq!(known[&second]["utxoSpent"][&vout]["txid"], txid(&child));
    let is_confirmed = world.rest.json(&format!("/tx/{second}/status"))["confirmed"].clone();
    assert_eq!((&known[&second]["confirmed"], &is_confirmed), (&json!(true), &json!(true)));
    client.send(&json!({ "track-txs": 7 }));
    assert_eq!(client.until("track-txs-error"), json!("incorrect track-txs format"));
}

#[test]
fn tracked_addresses_are_told_what_comes_leaves_and_is_confirmed() {
    let mut world = World::small(154);
    let ((one, to_one), (other, to_other)) = (payment(&world, 631, 30_000), payment(&world, 632, 31_000));
    let mut single = Client::tracking(&world.rest, &json!({ "track-address": one }));
    let mut several = Client::tracking(&world.rest, &json!({ "track-addresses": [one, other, "x"] }));
    let first = world.live.pay(std::slice::from_ref(&to_one)).unwrap();
    world.sync();
    let shown = world.rest.json(&format!("/tx/{}", first.compute_txid()));
    assert_eq!(single.until("address-transactions"), json!([shown]));
    let sent = several.until("multi-address-transactions");
    assert_eq!(sent, json!({ &one: { "mempool": [shown], "confirmed": [], "removed": [] } }));

    let second = world.live.replace(&first, &[to_other], 20_000).unwrap();
    world.sync();
    assert_eq!(single.until("address-removed-transactions"), json!([shown]));
    let replacement = world.rest.json(&format!("/tx/{}", second.compute_txid()));
    let sent = several.until("multi-address-transactions");
    assert_eq!((&sent[&one]["removed"], &sent[&other]["mempool"]), (&json!([shown]), &json!([replacement])));

    world.live.mine().unwrap();
    world.sync();
    let mined = world.rest.json(&format!("/tx/{}", second.compute_txid()));
    let sent = several.until("multi-address-transactions");
    assert_eq!(sent, json!({ &other: { "mempool": [], "confirmed": [mined], "removed": [] } }));
    let third = world.live.pay(&[to_one]).unwrap();
    world.live.mine().unwrap();
    world.sync();
    let mined = world.rest.json(&format!("/tx/{}", third.compute_txid()));
    assert_eq!(single.until("block-transactions"), json!([mined]));
}

#[test]
fn a_tracked_block_of_the_mempool_and_replacements_are_told_by_their_changes() {
    let mut world = World::small(155);
    let (_, pay) = payment(&world, 641, 30_000);
    let first = world.live.pay(std::slice::from_ref(&pay)).unwrap();
    world.sync();
    let mut client = Client::new(&world.rest);
    client.send(&json!({ "track-mempool-block": 0, "track-rbf": "all" }));
    let begun = client.next();
    let block = &begun["projected-block-transactions"];
    let waiting = &world.live.ledger().mempool()[&first.compute_txid()];
    let [entry] = &block["blockTransactions"].as_array().unwrap()[..] else { panic!("{block}") };
    assert_eq!((&entry[0], &entry[1], &entry[2]), (&txid(&first), &json!(waiting.fee_sat), &json!(waiting.vsize)));
    assert_eq!((&block["index"], &begun["rbfLatest"]), (&json!(0), &json!([])));
    let second = world.live.replace(&first, &[pay], 20_000).unwrap();
    world.sync();
    assert_eq!(client.until("rbfLatest"), world.rest.json("/api/v1/replacements"));
    let block = client.until("projected-block-transactions");
    assert_eq!(block["delta"]["added"][0][0], txid(&second));
    assert_eq!((&block["delta"]["removed"], &block["sequence"]), (&json!([txid(&first)]), &json!(1)));
    client.send(&json!({ "track-mempool-block": -1 }));
    client.send(&json!({ "track-mempool-block": 7, "action": "ping" }));
    assert_eq!(client.until("projected-block-transactions")["blockTransactions"], json!([]));
}

#[test]
fn what_is_tracked_and_what_is_sent_has_bounds() {
    let limits = Limits { tracked: 5, ..Limits::default() };
    let world = World::of(156, SMALL, limits);
    let ids = |count: usize| (0..count).map(|number| format!("{number:064x}")).collect::<Vec<_>>();
    let mut first = Client::tracking(&world.rest, &json!({ "track-txs": ids(3) }));
    let mut second = Client::new(&world.rest);
    second.send(&json!({ "track-txs": ids(3) }));
    let error = second.until("track-txs-error");
    assert!(error.as_str().unwrap().contains("a maximum of 2 transactions"), "{error}");
    second.send(&json!({ "track-addresses": ["a", "b", "c"] }));
    assert!(second.next().get("track-addresses-error").is_some());
    // Room that one gives back another one has.
    first.send(&json!({ "track-txs": [] }));
    first.send(&json!({ "action": "ping" }));
    first.until("pong");
    second.send(&json!({ "track-txs": ids(5), "action": "ping" }));
    assert_eq!(second.next(), json!({ "pong": true }));
    drop(second);

    let mut client = Client::new(&world.rest);
    client.send(&json!("not an object"));
    assert_eq!(client.until_closed(), 1008);
    let mut client = Client::new(&world.rest);
    client.send(&json!({ "track-address": "x".repeat(70_000) }));
    assert_eq!(client.until_closed(), 1009);
    let mut client = Client::new(&world.rest);
    client.runtime.block_on(client.socket.send(Message::Ping("here".into()))).unwrap();
    assert_eq!(client.frame(), Message::Pong("here".into()));
    let got = world.rest.get("/api/v1/ws");
    assert_eq!((got.status, got.text()), (400, "WebSocket is spoken here\n".into()));
}

#[test]
fn a_page_of_another_site_opens_no_websocket_over_loopback() {
    let world = World::small(158);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (host, origin, expected) in [
        ("127.0.0.1:3000", None, 101),
        ("127.0.0.1:3000", Some("http://localhost:8080"), 101),
        ("127.0.0.1:3000", Some("https://evil.example"), 403),
        ("evil.example:3000", Some("http://evil.example:3000"), 403),
    ] {
        let mut request = format!("ws://{host}/api/v1/ws").into_client_request().unwrap();
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        let status = runtime.block_on(async {
            let stream = TcpStream::connect(("127.0.0.1", world.rest.port)).await.unwrap();
            match tokio_tungstenite::client_async(request, stream).await {
                Ok((_, answer)) => answer.status().as_u16(),
                Err(Error::Http(answer)) => answer.status().as_u16(),
                Err(error) => panic!("{host}, {origin:?}: {error}"),
            }
        });
        assert_eq!(status, expected, "{host}, {origin:?}");
    }
}

/// A parent that its child pays for, a cheap child of a dear parent, and one without relatives.
#[test]
fn rates_of_new_transactions_are_those_at_which_the_node_mines_them() {
    let mut world = World::small(164);
    for (number, parent_fee, child_fee) in [(681, 300, 60_000), (682, 60_000, 300), (683, 2_000, 2_000)] {
        let coin = world.live.confirmed_coins().into_iter().max_by_key(Coin::sat).unwrap();
        let (_, pay) = payment(&world, number, 400_000);
        let parent = world.live.pay_from(&[coin], &[pay], parent_fee).unwrap();
        if number != 683 {
            let coin = made(&world, &parent)[0].clone();
            world.live.pay_from(&[coin], &[], child_fee).unwrap();
        }
    }
    world.sync();
    let mut client = Client::new(&world.rest);
    client.send(&json!({ "action": "init" }));
    let first = client.until("transactions");
    let shown = first.as_array().unwrap();
    assert_eq!(shown.len(), 5);
    for transaction in shown {
        let expected = node_rate(&world, &transaction["txid"]);
        assert!((transaction["rate"].as_f64().unwrap() - expected).abs() < 1e-9, "{transaction} for {expected}");
    }
}

/// mempool.js asks another network than mainnet at `/<network>/api/`.
#[test]
fn a_websocket_opens_below_the_network_too() {
    let world = World::small(159);
    for path in ["/v1/ws", "/api/v1/ws", "/regtest/api/v1/ws"] {
        let mut client = Client::at(&world.rest, path);
        client.send(&json!({ "action": "ping" }));
        assert_eq!(client.next(), json!({ "pong": true }), "{path}");
    }
    assert_eq!(world.rest.get("/signet/api/v1/ws").status, 404);
}

/// The members that mempool's server reads (`backend/src/api/websocket-handler.ts`, and `track-mempool-blocks` of its
/// own clients), each with a value that it takes.
#[test]
fn every_member_of_mempools_protocol_is_served_or_refused_by_name() {
    let mut world = World::small(160);
    let (address, pay) = payment(&world, 661, 50_000);
    let id = world.live.pay(&[pay]).unwrap().compute_txid();
    world.sync();
    let mut client = Client::new(&world.rest);
    for (member, value) in [
        ("track-scriptpubkeys", json!(["51"])),
        ("track-wallet", json!("name")),
        ("track-asset", json!("ab".repeat(32))),
        ("track-mempool", json!(true)),
        ("track-mempool-txids", json!(true)),
        ("track-mempool-blocks", json!([0])),
        ("track-rbf-summary", json!(true)),
        ("track-accelerations", json!(true)),
        ("track-donation", json!("a".repeat(22))),
        ("track-stratum", json!("all")),
    ] {
        client.send(&json!({ member: value }));
        let name = format!("{member}-error");
        assert_eq!(client.next(), json!({ name: "not served here" }));
    }
    // What is served has an answer of its own, and no refusal.
    for (member, value, answer) in [
        ("track-tx", json!(id), "txPosition"),
        ("track-txs", json!([id]), "tracked-txs"),
        ("track-mempool-block", json!(0), "projected-block-transactions"),
        ("track-rbf", json!("all"), "rbfLatest"),
        ("refresh-blocks", json!(true), "blocks"),
    ] {
        client.send(&json!({ member: value }));
        let message = client.next();
        let names: Vec<&String> = message.as_object().unwrap().keys().collect();
        assert_eq!(names, [answer], "{member}");
    }
    // These begin something silently; what the manual names as silent is.
    for message in [
        json!({ "track-address": address }),
        json!({ "track-addresses": [address] }),
        json!({ "track-address": "x" }),
        json!({ "track-tx": "x" }),
        json!({ "action": "dance" }),
        json!({ "action": "want", "data": ["live-2h-chart", "tomahawk"] }),
    ] {
        client.send(&message);
        client.send(&json!({ "action": "ping" }));
        assert_eq!(client.next(), json!({ "pong": true }), "{message}");
    }
}
