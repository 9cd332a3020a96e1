//! Several addresses and descriptors at once, and broadcasting.

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Address, Amount, Network};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use crate::pages::{btc, text};
use crate::world::World;

/// Any public extended key; that of BIP 32's first test vector, with the version of test networks.
const TPUB: &str =
    "tpubD6NzVbkrYhZ4XgiXtGrdW5XDAPFCL9h7we1vwNCpn8tGbBcgfVYjXyhWo4E1xkh56hjod1RhGjxbaTLV3X4FyWuejifB9jusQ46QzG87VKp";

fn form_of(text: &str) -> String {
    format!("q={}", utf8_percent_encode(text, NON_ALPHANUMERIC))
}

/// Pays the script of a number of a branch.
fn pay(world: &mut World, address: &str, sat: u64) {
    let script = address.parse::<Address<_>>().unwrap().assume_checked().script_pubkey();
    world.live.pay(&[Payment::to_script(script, sat)]).unwrap();
}

#[test]
fn a_descriptor_finds_its_payments_up_to_the_gap_and_nothing_of_it_is_kept() {
    let mut world = World::small(101);
    let descriptor = format!("wpkh({TPUB}/0/*)");
    let asked = world.rest.post("/addresses", &form_of(&descriptor));
    assert_eq!(asked.status, 200, "{}", asked.text());
    assert!(asked.text().contains("None of these addresses has a transaction."));
    // What the page calls the next one is paid, then one beyond it and one beyond the gap.
    let derived: Vec<String> = (0..60).map(address).collect();
    pay(&mut world, &derived[0], 11_000);
    pay(&mut world, &derived[19], 22_000);
    pay(&mut world, &derived[50], 44_000);
    world.live.mine().unwrap();
    world.sync();
    for question in [descriptor.clone(), TPUB.to_owned()] {
        let asked = world.rest.post("/addresses", &form_of(&question));
        let page = asked.text();
        assert_eq!(asked.header("cache-control"), "no-store");
        assert!(page.contains("0.00033<"), "{page}");
        for (number, is_listed) in [(0, true), (19, true), (20, true), (50, false), (1, false)] {
            assert_eq!(page.contains(&derived[number]), is_listed, "{number}");
        }
        // The same by the search.
        let searched = world.rest.post("/search", &form_of(&question));
        assert_eq!((searched.status, searched.body), (200, asked.body));
    }
    // Forms that Core has beside those of miniscript.
    for form in ["addr(A)", "combo(K)", "rawtr(K)", "raw(51)"] {
        let line = form.replace('A', &derived[0]).replace('K', &format!("{TPUB}/0/0"));
        let asked = world.rest.post("/addresses", &form_of(&line));
        assert_eq!(asked.status, 200, "{line}: {}", asked.text());
        // The others have another script of this key, or none of it.
        assert_eq!(asked.text().contains(&derived[0]), !form.starts_with("raw"), "{form}");
    }
    // Addresses by themselves.
    let both = world.rest.post("/addresses", &form_of(&format!("{} {}", derived[0], derived[50])));
    assert!(both.text().contains("0.00055"), "{}", both.text());
}

fn address(number: u32) -> String {
    use miniscript::{Descriptor, DescriptorPublicKey};
    let descriptor: Descriptor<DescriptorPublicKey> = format!("wpkh({TPUB}/0/*)").parse().unwrap();
    let derived = descriptor.at_derivation_index(number).unwrap();
    derived.address(Network::Regtest).unwrap().to_string()
}

#[test]
fn private_keys_and_nonsense_are_refused() {
    let world = World::small(102);
    let paths = format!("wpkh({TPUB}/<0;1;2;3;4;5;6;7;8;9;10;11;12;13;14;15>)");
    let keys: Vec<String> =
        (0..15).map(|key| format!("{TPUB}/{key}/<0;1;2;3;4;5;6;7;8;9;10;11;12;13;14;15>/*")).collect();
    let wide = format!("wsh(multi(1,{}))", keys.join(","));
    for (text, reason) in [
        ("cVpF924EspNh8KjYsfhgY96mmxvT6DgdWiTYMtMjuM74hJaU5psW", "private key"),
        ("wpkh(tprv8ZgxMBicQKsPd/0/*)", "private key"),
        ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "another network"),
        ("nonsense", "no height, hash, outpoint, address"),
        (&"mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn ".repeat(501), "more than 500"),
        (&"2".repeat(5000), "longer than any descriptor"),
        (&format!("wpkh({TPUB}{}/*)", "/1".repeat(8)), "more than 8 steps"),
        (&format!("{wide}\n").repeat(5), "more than 20000 steps"),
        (&format!("wpkh({TPUB}/0'/*)"), "hardened step"),
        (&format!("wsh(multi(1,{TPUB}/<0;1>/*,{TPUB}/<2;3;4>/*))"), "different numbers of paths"),
        ("wpkh(cVpF924EspNh8KjYsfhgY96mmxvT6DgdWiTYMtMjuM74hJaU5psW)", "private key"),
        (
            "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs",
            "key of another network",
        ),
        (&format!("tr(musig({TPUB},{TPUB})/0/*)"), "with musig() is not supported"),
        ("wpkh(02)#qqqqqqqq", "checksum"),
        // Without a wildcard, and all equal.
        (&format!("{paths}\n").repeat(400), "more than 5000 scripts"),
    ] {
        let got = world.rest.post("/addresses", &form_of(text));
        assert_eq!(got.status, 400, "{text}");
        assert!(got.text().contains(reason), "{reason}: {}", got.text());
        assert!(!got.text().contains(text), "a refusal repeats the question: {text}");
    }
}

#[test]
fn transactions_are_broadcast_and_shown_at_once() {
    let mut world = World::small(103);
    let coin = world.live.confirmed_coins().into_iter().max_by_key(Coin::sat).unwrap();
    let tx =
        world.live.sign(std::slice::from_ref(&coin), &[Payment::to_lock(Lock::new(Form::P2tr, 6), coin.sat() - 900)]);
    let txid = tx.compute_txid();
    assert_eq!(world.rest.get(&format!("/tx/{txid}")).status, 404);
    let sent = world.rest.post("/push", &format!("tx={}", serialize_hex(&tx)));
    assert_eq!(sent.status, 200, "{}", sent.text());
    assert!(sent.text().contains(&format!("href=\"/tx/{txid}\"")));
    assert_eq!(world.rest.get(&format!("/tx/{txid}")).status, 200);
    let refused = world.rest.post("/push", "tx=00");
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("The node refuses the transaction"), "{}", refused.text());
}

#[test]
fn change_that_came_back_is_not_received() {
    let mut world = World::small(104);
    let [own, change, other] = [71, 72, 73].map(|number| Lock::new(Form::P2wpkh, number));
    world.live.pay(&[Payment::to_lock(own, 700_000)]).unwrap();
    world.live.mine().unwrap();
    let is_own = |coin: &Coin| coin.lock == own && coin.sat() == 700_000;
    let coin = world.live.coins().into_iter().find(is_own).unwrap();
    let payments = [Payment::to_lock(other, 200_000), Payment::to_lock(change, 499_000)];
    let spent = world.live.sign(&[coin], &payments);
    world.live.send(&spent).unwrap();
    world.live.mine().unwrap();
    world.sync();
    let [own, change] = [own, change].map(|lock| {
        let script = world.live.wallet().script_pubkey(lock);
        Address::from_script(&script, Network::Regtest).unwrap().to_string()
    });
    let asked = world.rest.post("/addresses", &form_of(&format!("{own} {change}")));
    let plain = text(&asked.text());
    assert!(plain.contains(&format!("Received{} without change", btc(700_000))), "{plain}");
    assert!(plain.contains(&format!("Balance{}", btc(499_000))), "{plain}");
}

#[test]
fn names_of_other_networks_are_refused_on_every_page_with_the_reason() {
    let world = World::small(105);
    let address = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";
    let key = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs";
    let paths = ["", "/unspent", "/history.csv"].map(|page| world.rest.get(&format!("/address/{address}{page}")));
    let forms = [("/search", address), ("/addresses", address), ("/search", key), ("/addresses", key)];
    let forms = forms.map(|(path, name)| world.rest.post(path, &form_of(name)));
    for refused in paths.into_iter().chain(forms) {
        let page = refused.text();
        assert_eq!(refused.status, 400, "{page}");
        assert!(page.contains("of another network: this server is for regtest"), "{page}");
    }
    let mistyped = world.rest.get("/address/bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt08q");
    assert_eq!(mistyped.status, 400);
    assert!(mistyped.text().contains("a character is mistyped or missing"), "{}", mistyped.text());
}

#[test]
fn a_transaction_is_decoded_and_tested_before_it_is_broadcast() {
    let mut world = World::small(106);
    let coin = world.live.confirmed_coins().into_iter().max_by_key(Coin::sat).unwrap();
    let payment = Payment::to_lock(Lock::new(Form::P2tr, 6), coin.sat() - 90_000);
    let tx =
        world.live.sign(std::slice::from_ref(&coin), &[payment, Payment::to_lock(Lock::new(Form::P2wpkh, 7), 80_000)]);
    let hex = serialize_hex(&tx);
    let by_core = world.live.node().rpc("decoderawtransaction", json!([hex])).unwrap();
    let tested = world.live.node().rpc("testmempoolaccept", json!([[hex]])).unwrap();
    assert_eq!(tested[0]["allowed"], json!(true), "{tested}");
    let test = |world: &World, hex: &str| world.rest.post("/push/test", &format!("tx={hex}"));
    let page = test(&world, &hex).text();
    let plain = text(&page);
    for member in ["txid", "hash"] {
        assert!(plain.contains(by_core[member].as_str().unwrap()), "{member}: {plain}");
    }
    assert!(plain.contains(&format!("Virtual size{} vB", by_core["vsize"])), "{plain}");
    for output in by_core["vout"].as_array().unwrap() {
        assert!(page.contains(output["scriptPubKey"]["address"].as_str().unwrap()), "{output}");
    }
    let fee = Amount::from_btc(tested[0]["fees"]["base"].as_f64().unwrap()).unwrap().to_sat();
    assert!(plain.contains("would take") && plain.contains(&format!("a fee of {}", btc(fee))), "{plain}");
    assert!(plain.contains(&btc(coin.sat())) && plain.contains(&coin.outpoint.txid.to_string()[..50]), "{plain}");
    // Nothing was sent.
    assert_eq!(world.rest.get(&format!("/tx/{}", tx.compute_txid())).status, 404);
    // One whose coin is spent, and one that nobody can read.
    world.live.send(&tx).unwrap();
    world.live.mine().unwrap();
    world.sync();
    let other =
        world.live.sign(std::slice::from_ref(&coin), &[Payment::to_lock(Lock::new(Form::P2tr, 8), coin.sat() - 5_000)]);
    let hex = serialize_hex(&other);
    let tested = world.live.node().rpc("testmempoolaccept", json!([[hex]])).unwrap();
    let refused = text(&test(&world, &hex).text());
    assert!(refused.contains(tested[0]["reject-reason"].as_str().unwrap()), "{tested}: {refused}");
    assert!(refused.contains("does not exist, or is spent already"), "{refused}");
    let unreadable = test(&world, "00");
    assert_eq!(unreadable.status, 400);
    assert!(unreadable.text().contains("TX decode failed"), "{}", unreadable.text());
}
