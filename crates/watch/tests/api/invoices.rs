//! Invoices: from the order to the last confirmation, and what no crash may break.

use std::collections::HashSet;

use birdhouse_testkit::tx::{Payee, Payment};
use birdhouse_watch::BeyondGap;
use bitcoin::{Address, Network};
use serde_json::{Value, json};

use crate::world::{Engine, Start, World, later, shop_script, to_shop};

fn order(amount: u64) -> String {
    json!({ "wallet": "Shop", "amount": amount, "label": "Order 7" }).to_string()
}

fn made(world: &World, body: &str) -> Value {
    let made = world.server.post("/invoices", body);
    assert_eq!(made.status, 201, "{}", made.text);
    made.json()
}

fn read(world: &World, invoice: &Value) -> Value {
    world.server.json(&format!("/invoices/{}", invoice["id"].as_str().unwrap()))
}

fn pay(world: &mut World, invoice: &Value, sat: u64) {
    let address: Address<_> = invoice["address"].as_str().unwrap().parse().unwrap();
    let script = address.require_network(Network::Regtest).unwrap().script_pubkey();
    world.live.pay(&[Payment { to: Payee::Script(script), sat }]).unwrap();
    world.sync();
}

fn index_of(invoice: &Value) -> u32 {
    invoice["origin"].as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap()
}

#[test]
fn an_invoice_is_paid_in_two_payments_and_confirmed() {
    let mut world = World::start(21);
    world.sync();
    let invoice = made(&world, &order(100_000));
    let address = Address::from_script(&shop_script(0, 0), Network::Regtest).unwrap().to_string();
    assert_eq!(invoice["address"], json!(address));
    assert_eq!(invoice["uri"], json!(format!("bitcoin:{address}?amount=0.001&label=Order%207")));
    assert_eq!((&invoice["state"], &invoice["received"]), (&json!("unpaid"), &json!(0)));
    let mut states = world.server.listen(&format!("/invoices/{}/stream", invoice["id"].as_str().unwrap()), None);
    let mut next = || states.next().data["params"][0]["state"].clone();
    assert_eq!(next(), json!("unpaid"));
    pay(&mut world, &invoice, 40_000);
    assert_eq!(next(), json!("underpaid"));
    let shown = read(&world, &invoice);
    assert_eq!((&shown["state"], &shown["received"]), (&json!("underpaid"), &json!(40_000)));
    let page = world.server.get_with(invoice["page"].as_str().unwrap(), &[]);
    assert_eq!(page.status, 200);
    assert!(page.text.contains("Partly paid") && page.text.contains("amount=0.0006&amp;label"), "{}", page.text);
    pay(&mut world, &invoice, 60_000);
    assert_eq!(next(), json!("paid"));
    world.live.mine().unwrap();
    world.sync();
    assert_eq!(next(), json!("confirmed"));
    let shown = read(&world, &invoice);
    assert_eq!((&shown["state"], &shown["confirmed"]), (&json!("confirmed"), &json!(100_000)));
    assert_eq!(shown["payments"].as_array().unwrap().len(), 2);
    // A reorg takes the block back.
    world.live.roll_back(1).unwrap();
    world.live.mine_empty(2).unwrap();
    world.sync();
    assert_eq!(next(), json!("paid"));
}

/// State and sum of each notice of invoices.
fn announced(world: &World) -> Vec<(String, u64)> {
    let notices = world.server.state.notices(0, 1_000).unwrap();
    let shapes = notices.iter().map(|notice| serde_json::to_value(notice).unwrap());
    let of_invoices = shapes.filter(|notice| notice["kind"] == "invoice");
    of_invoices.map(|one| (one["state"].as_str().unwrap().to_owned(), one["received"].as_u64().unwrap())).collect()
}

#[test]
fn each_change_of_an_invoice_is_a_notice_once() {
    let mut world = World::of(31, Engine::File, BeyondGap::Refuse);
    world.sync();
    world.server.wait_for("/wallets", |got| got.status == 200);
    let invoice = made(&world, &order(100_000));
    let path = format!("/invoices/{}", invoice["id"].as_str().unwrap());
    let mut expected = Vec::new();
    // A notice is made with the state, before anybody reads it.
    let mut until = |world: &World, state: &str, sum: u64| {
        expected.push((state.to_owned(), sum));
        world.server.wait_for(&path, |_| announced(world).len() >= expected.len());
        assert_eq!(announced(world), expected);
    };
    pay(&mut world, &invoice, 40_000);
    until(&world, "underpaid", 40_000);
    pay(&mut world, &invoice, 60_000);
    until(&world, "paid", 100_000);
    world.live.mine().unwrap();
    world.sync();
    until(&world, "confirmed", 100_000);
    world.live.roll_back(1).unwrap();
    world.live.mine_empty(2).unwrap();
    world.sync();
    until(&world, "taken-back", 100_000);
    made(&world, &json!({ "wallet": "Shop", "amount": 1, "expiry": 1 }).to_string());
    until(&world, "expired", 0);
    let notice = serde_json::to_value(world.server.state.notices(0, 1_000).unwrap()).unwrap();
    let first = notice.as_array().unwrap().iter().find(|notice| notice["kind"] == "invoice").unwrap();
    let facts = ["watch", "label", "amount", "invoice"].map(|name| first[name].clone());
    assert_eq!(facts, [json!("Shop"), json!("Order 7"), json!(100_000), invoice["id"].clone()]);
    let world = world.restart(|_| {});
    world.server.wait_for("/wallets", |got| got.status == 200);
    assert_eq!(announced(&world), expected, "a restart tells nothing again");
}

#[test]
fn an_invoice_is_overpaid_and_waits_for_its_confirmations() {
    let mut world = World::start(22);
    world.sync();
    let mut all = world.server.listen("/invoices/stream", None).begun();
    let body = json!({ "wallet": "Shop", "amount": 50_000, "confirmations": 3 }).to_string();
    let invoice = made(&world, &body);
    pay(&mut world, &invoice, 50_001);
    let reported = all.next().data;
    assert_eq!((&reported["category"], &reported["params"][0]["state"]), (&json!("Invoice"), &json!("overpaid")));
    for state in ["overpaid", "overpaid", "confirmed"] {
        world.live.mine().unwrap();
        world.sync();
        assert_eq!(read(&world, &invoice)["state"], json!(state));
    }
    assert_eq!(all.next().data["params"][0]["state"], json!("confirmed"));
}

#[test]
fn an_invoice_expires_by_itself_and_a_late_payment_does_not_pay_it() {
    let mut world = World::start(23);
    world.sync();
    let mut all = world.server.listen("/invoices/stream", None).begun();
    let invoice = made(&world, &json!({ "wallet": "Shop", "amount": 50_000, "expiry": 1 }).to_string());
    let reported = all.next().data;
    assert_eq!((&reported["params"][0]["id"], &reported["params"][0]["state"]), (&invoice["id"], &json!("expired")));
    pay(&mut world, &invoice, 50_000);
    world.live.mine().unwrap();
    world.sync();
    let shown = read(&world, &invoice);
    assert_eq!((&shown["state"], &shown["received"], &shown["late"]), (&json!("expired"), &json!(0), &json!(50_000)));
    let page = world.server.get_with(invoice["page"].as_str().unwrap(), &[]);
    assert!(page.text.contains("Expired") && page.text.contains("Received too late"), "{}", page.text);
    assert!(!page.text.contains("bitcoin:"), "nobody is asked to pay");
}

#[test]
fn no_address_is_given_twice_whatever_chain_and_other_callers_do() {
    let mut world = World::start(24);
    // Somebody else used the wallet: its third address in a block, its fifth in the mempool.
    world.live.pay(&[to_shop(2, 10_000)]).unwrap();
    world.live.mine().unwrap();
    world.live.pay(&[to_shop(4, 10_000)]).unwrap();
    world.sync();
    let first = made(&world, &order(1000));
    assert_eq!(index_of(&first), 5);
    // An address that the wallet gives by itself is not that of an invoice.
    assert_eq!(world.server.get("/wallet/Shop/next").text, "6");
    world.live.pay(&[to_shop(6, 10_000)]).unwrap();
    world.sync();
    let indices: Vec<u32> = std::thread::scope(|scope| {
        let order = || index_of(&made(&world, &order(1000)));
        let callers: Vec<_> = (0..8).map(|_| scope.spawn(order)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    assert_eq!(indices.iter().copied().collect::<HashSet<u32>>(), (7..15).collect());
}

#[test]
fn unpaid_invoices_warn_and_then_are_refused_before_the_gap() {
    let world = World::start(25);
    world.sync();
    for index in 0..20 {
        let made = made(&world, &order(1000));
        assert_eq!((index_of(&made), made.get("warning").is_some()), (index, index >= 10));
    }
    let refused = world.server.post("/invoices", &order(1000));
    assert_eq!(refused.status, 409);
    assert!(refused.text.contains("the last 20 addresses of this wallet are unpaid"), "{}", refused.text);
}

#[test]
fn an_operator_may_go_beyond_the_gap() {
    let world = World::with(26, BeyondGap::Warn);
    world.sync();
    for _ in 0..20 {
        made(&world, &order(1000));
    }
    let made = made(&world, &order(1000));
    assert!(index_of(&made) == 20 && made.get("warning").is_some());
}

#[test]
fn a_killed_server_goes_on_and_a_restored_one_asks_first() {
    let world = World::start(27);
    world.sync();
    for _ in 0..3 {
        made(&world, &order(1000));
    }
    let copied = tempfile::tempdir().unwrap();
    let copy = copied.path().join("copy.redb");
    // A server that is killed and started again is no restored one.
    let world = world.restart(|folder| {
        std::fs::copy(folder.join("watch.redb"), &copy).unwrap();
    });
    let given: Vec<u32> = (0..2).map(|_| index_of(&made(&world, &order(1000)))).collect();
    assert_eq!(given, [3, 4]);
    let world = world.restart(|folder| {
        std::fs::rename(&copy, folder.join("watch.redb")).unwrap();
    });
    let refused = world.server.post("/invoices", &order(1000));
    assert_eq!(refused.status, 409);
    assert!(
        refused.text.contains("restored from a copy") && refused.text.contains("goes on at 10"),
        "{}",
        refused.text
    );
    let resume = |body: Value| world.server.post("/invoices/resume", &body.to_string());
    assert_eq!(resume(json!({ "wallet": "Shop", "from": 9 })).status, 400);
    assert_eq!(resume(json!({ "wallet": "Shop", "from": 12 })).json(), json!({ "next": 12 }));
    assert_eq!(resume(json!({ "wallet": "Shop" })).status, 409, "asked once");
    assert_eq!(index_of(&made(&world, &order(1000))), 12);
    let world = world.restart(|_| {});
    assert_eq!(index_of(&made(&world, &order(1000))), 13);
    // Invoices of the copy are there, the others are not.
    assert_eq!(world.server.json("/invoices").as_array().unwrap().len(), 5);
}

#[test]
fn nothing_is_taken_back_before_the_mempool_is_known_again() {
    let mut world = World::start(29);
    world.sync();
    let (waiting, confirmed) = (made(&world, &order(50_000)), made(&world, &order(60_000)));
    let unpaid = made(&world, &order(70_000));
    pay(&mut world, &waiting, 50_000);
    let of = |invoice: &Value| format!("/invoices/{}", invoice["id"].as_str().unwrap());
    world.server.wait_for(&of(&waiting), |got| got.json()["state"] == json!("paid"));
    let mut stream = world.server.listen(&format!("{}/stream", of(&waiting)), None);
    while stream.next().data["params"][0]["state"] != json!("paid") {}
    // While the server is down its customer's other payment comes in time, and both times end.
    let address: Address<_> = confirmed["address"].as_str().unwrap().parse().unwrap();
    let script = address.require_network(Network::Regtest).unwrap().script_pubkey();
    let world = world.restart_at(|_| {}, Start { clock: later, is_synced: false, ..Start::NOW });
    let mut all = world.server.listen("/invoices/stream", None).begun();
    let state = |world: &World, invoice: &Value| read(world, invoice)["state"].clone();
    assert_eq!(state(&world, &waiting), json!("paid"));
    for invoice in [&confirmed, &unpaid] {
        assert_eq!(state(&world, invoice), json!("unpaid"), "whether it was paid in time is not known");
        let page = world.server.get_with(invoice["page"].as_str().unwrap(), &[]);
        assert!(page.text.contains("not known yet") && !page.text.contains("bitcoin:"), "{}", page.text);
    }
    assert_eq!(read(&world, &unpaid)["is_known"], json!(false));
    let mut world = world;
    world.live.pay(&[Payment { to: Payee::Script(script), sat: 60_000 }]).unwrap();
    world.live.mine().unwrap();
    world.sync();
    let mut changes: Vec<(Value, Value)> = Vec::new();
    while changes.len() < 3 {
        let reported = all.next().data;
        changes.push((reported["params"][0]["id"].clone(), reported["params"][0]["state"].clone()));
    }
    changes.sort_by_key(|(id, _)| [&waiting, &confirmed, &unpaid].iter().position(|invoice| invoice["id"] == *id));
    let expected = [(&waiting, "confirmed"), (&confirmed, "confirmed"), (&unpaid, "expired")];
    assert_eq!(changes, expected.map(|(invoice, state)| (invoice["id"].clone(), json!(state))));
    assert_eq!(read(&world, &unpaid)["is_known"], json!(true));
}

#[test]
fn wrong_orders_are_refused_in_words() {
    let world = World::start(28);
    world.sync();
    let wrong = [
        json!({ "wallet": "Shop" }),
        json!({ "wallet": "Shop", "amount": 0 }),
        json!({ "wallet": "Shop", "amount": -5 }),
        json!({ "wallet": "Shop", "amount": 1.5 }),
        json!({ "wallet": "Shop", "amount": 2_100_000_000_000_001_u64 }),
        json!({ "wallet": "Shop", "amount": 1, "expiry": 0 }),
        json!({ "wallet": "Shop", "amount": 1, "expiry": 8_000_000 }),
        json!({ "wallet": "Shop", "amount": 1, "confirmations": 0 }),
        json!({ "wallet": "Shop", "amount": 1, "label": "x".repeat(257) }),
        json!({ "wallet": "Shop", "amount": 1, "unknown": 1 }),
    ];
    for body in wrong {
        assert_eq!(world.server.post("/invoices", &body.to_string()).status, 400, "{body}");
    }
    let status = |body: Value| world.server.post("/invoices", &body.to_string()).status;
    assert_eq!(status(json!({ "wallet": "nobody", "amount": 1 })), 404);
    assert_eq!(status(json!({ "wallet": "Cold", "amount": 1 })), 409);
    assert_eq!(world.server.get("/invoices/00").status, 404);
    assert_eq!(world.server.get(&format!("/invoices/{}", "00".repeat(16))).status, 404);
    assert_eq!(world.server.get_with(&format!("/pay/{}", "00".repeat(16)), &[]).status, 404);
}
