//! The scan for a wallet's silent payments: payments of a sender who knows nothing of this server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use birdhouse_chain::TweakDetail;
use birdhouse_esplora::Limits;
use birdhouse_testkit::tx::Payment;
use bitcoin::key::Keypair;
use bitcoin::secp256k1::{PublicKey, SECP256K1};
use bitcoin::sighash::{Prevouts, SighashCache, TapSighashType};
use bitcoin::{Amount, OutPoint, Sequence, Transaction, TxIn, TxOut, Witness, absolute, transaction};

use crate::pages::{page, text};
use crate::silent_sender::{KnownCoin, Receiver, Sent, pay, script, secret, tagged};
use crate::world::{Rest, World};

const PATH: &str = "/silent-payments";

/// Pays a receiver from a confirmed coin of its own.
fn sent(world: &mut World, key: u8, receiver: &Receiver, label: Option<u32>) -> Sent {
    let key = secret(key);
    let paid = world.live.pay(&[Payment::to_script(script(&key), 100_000)]).unwrap();
    world.live.mine().unwrap();
    let outpoint = OutPoint { txid: paid.compute_txid(), vout: 0 };
    pay(&KnownCoin { key, outpoint, value: Amount::from_sat(100_000) }, receiver, label, Amount::from_sat(1000))
}

/// Confirms one payment to a receiver, of which the index knows.
pub(crate) fn pay_once(world: &mut World, receiver: &Receiver) {
    let sent = sent(world, 31, receiver, None);
    world.live.mine_these(vec![sent.transaction]).unwrap();
    world.sync();
    world.rest.compute_derived();
}

/// Spends a payment to a receiver without labels, whose spend key has this number.
fn spent(sent: &Sent, receiver: &Receiver, number: u8) -> Transaction {
    let tweak: PublicKey = sent.tweak.parse().unwrap();
    let shared = tweak.mul_tweak(SECP256K1, &receiver.scan.into()).unwrap().serialize();
    let key = secret(number).add_tweak(&tagged("BIP0352/SharedSecret", &[&shared, &0u32.to_be_bytes()])).unwrap();
    let coin = &sent.transaction.output[0];
    let mut spending = Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: OutPoint { txid: sent.transaction.compute_txid(), vout: 0 },
            sequence: Sequence::ENABLE_RBF_NO_LOCKTIME,
            ..TxIn::default()
        }],
        output: vec![TxOut { value: coin.value - Amount::from_sat(1000), script_pubkey: script(&secret(99)) }],
    };
    let coins = [coin];
    let mut cache = SighashCache::new(&spending);
    let hash = cache.taproot_key_spend_signature_hash(0, &Prevouts::All(&coins), TapSighashType::Default).unwrap();
    let signature = SECP256K1.sign_schnorr_no_aux_rand(&hash.into(), &Keypair::from_secret_key(SECP256K1, &key));
    spending.input[0].witness = Witness::from_slice(&[signature.serialize()]);
    spending
}

fn form_of(receiver: &Receiver, start: &str) -> String {
    format!("scan={}&spend={}&start={start}", receiver.scan_hex(), receiver.spend_hex())
}

/// The rows of the table of payments.
fn rows(page: &str) -> Vec<String> {
    let table = page.split_once("<tbody>").unwrap().1.split_once("</tbody>").unwrap().0;
    table.split("<tr>").skip(1).map(str::to_owned).collect()
}

fn assert_rows(page: &str, expected: &[(&Sent, Option<u32>, &str, &str)]) {
    let rows = rows(page);
    assert_eq!(rows.len(), expected.len(), "{rows:?}");
    for (row, (sent, height, label, state)) in rows.iter().zip(expected) {
        let (txid, plain) = (sent.transaction.compute_txid(), text(row));
        assert!(row.contains(&format!("/tx/{txid}#output-0")), "{row}");
        let block = height.map_or("mempool".to_owned(), |height| height.to_string());
        // 99 000 satoshis.
        let digits = plain.chars().filter(char::is_ascii_digit).collect::<String>();
        assert!(digits.ends_with("00099000") || digits.ends_with("00099"), "{plain}");
        assert!(plain.contains(&block) && plain.contains(label) && plain.trim_end().ends_with(state), "{plain}");
    }
}

#[test]
fn a_scan_shows_the_payments_of_blocks_and_mempool_with_amount_height_and_state() {
    let mut world = World::small(181);
    let receiver = Receiver::new(1);
    let (plain, change, labelled) = (
        sent(&mut world, 11, &receiver, None),
        sent(&mut world, 12, &receiver, Some(0)),
        sent(&mut world, 13, &receiver, Some(5)),
    );
    let late = sent(&mut world, 14, &receiver, None);
    let mut heights = Vec::new();
    for sent in [&plain, &change, &labelled] {
        world.live.mine_these(vec![sent.transaction.clone()]).unwrap();
        heights.push(world.live.ledger().height());
    }
    let spending = spent(&plain, &receiver, 101);
    world.live.mine_these(vec![spending]).unwrap();
    world.sync();
    // The index has nothing yet: a short answer would look whole.
    let behind = world.rest.post(PATH, &form_of(&receiver, "0"));
    assert!(behind.status == 503 && behind.text().contains("index of silent payments"), "{}", behind.text());
    world.rest.compute_derived();
    // From now on it follows the chain, and transactions of the mempool have tweaks.
    world.rest.index.set_derived(world.rest.derived.clone());
    world.live.send(&late.transaction).unwrap();
    world.sync();

    let all = [
        (&plain, Some(heights[0]), "without label", "spent"),
        (&change, Some(heights[1]), "change", "unspent"),
        (&late, None, "without label", "unspent"),
    ];
    for (start, expected) in [
        ("", &all[..]),
        ("0", &all[..]),
        (&heights[1].to_string(), &all[1..]),
        (&(heights[1] + 1).to_string(), &all[2..]),
        ("4294967295", &all[2..]),
    ] {
        let got = world.rest.post(PATH, &form_of(&receiver, start));
        assert_eq!((got.status, got.header("cache-control")), (200, "no-store"), "{start}");
        let page = got.text();
        assert_rows(&page, expected);
        let unspent = expected.iter().filter(|(.., state)| *state == "unspent").count();
        let summary = text(page.split_once("</tbody>").unwrap().1);
        assert!(summary.contains(&format!("Payments{}", expected.len())), "{summary}");
        assert!(summary.contains("All blocks are scanned") && page.ends_with("</html>"), "{unspent}: {summary}");
        assert!(!page.contains(&receiver.scan_hex()), "the page repeats the key");
    }
    let nobody = world.rest.post(PATH, &form_of(&Receiver::new(2), "0"));
    assert_rows(&nobody.text(), &[]);
}

#[test]
fn keys_and_heights_that_are_none_are_refused_and_not_repeated() {
    let world = World::small(182);
    world.rest.compute_derived();
    let receiver = Receiver::new(1);
    let (scan, spend) = (receiver.scan_hex(), receiver.spend_hex());
    for (form, reason) in [
        (String::new(), "66 hexadecimal digits"),
        (format!("scan={scan}&spend={scan}"), "66 hexadecimal digits"),
        (format!("scan={spend}&spend={spend}"), "64 hexadecimal digits"),
        (format!("scan={}&spend={spend}", "0".repeat(64)), "64 hexadecimal digits"),
        (format!("scan={}g&spend={spend}", &scan[..63]), "64 hexadecimal digits"),
        (format!("scan={scan}&spend=05{}", "11".repeat(32)), "not a compressed public key"),
        (format!("scan={scan}&spend={spend}&start=x"), "no number"),
        (format!("scan={scan}&spend={spend}&start=-1"), "no number"),
    ] {
        let got = world.rest.post(PATH, &form);
        assert!(got.status == 400 && got.text().contains(reason), "{form}: {} {}", got.status, got.text());
        assert!(!got.text().contains(&scan[..63]), "{}", got.text());
    }
}

/// Sends a form with more headers; returns the answer as it came.
fn posted(rest: &Rest, headers: &str, form: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", rest.port)).unwrap();
    let len = form.len();
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len}\r\n");
    socket.write_all(format!("{head}{headers}\r\n{form}").as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_key_that_others_could_read_is_refused_and_no_form_asks_for_it() {
    let world = World::small(183);
    world.rest.compute_derived();
    let receiver = Receiver::new(1);
    let form = form_of(&receiver, "0");
    let (client, tls) = (("x-forwarded-for", "203.0.113.7"), ("x-forwarded-proto", "https"));
    for path in ["/addresses", PATH] {
        assert!(page(&world, path).contains("name=\"scan\""), "{path}");
        assert!(world.rest.get_with(path, &[client, tls]).text().contains("name=\"scan\""), "{path}");
        let clear = world.rest.get_with(path, &[client]).text();
        assert!(!clear.contains("name=\"scan\"") && text(&clear).contains("could read the key"), "{path}: {clear}");
    }
    let refused = posted(&world.rest, "x-forwarded-for: 203.0.113.7\r\n", &form);
    assert!(refused.starts_with("HTTP/1.1 403 ") && refused.contains("over TLS"), "{refused}");
    assert!(!refused.contains(&receiver.scan_hex()));
    let taken = posted(&world.rest, "x-forwarded-for: 203.0.113.7\r\nx-forwarded-proto: https\r\n", &form);
    assert!(taken.starts_with("HTTP/1.1 200 "), "{taken}");
    // An encoder, or a proxy, would hold back what the page shows while blocks are scanned.
    let secure = "x-forwarded-for: 203.0.113.7\r\nx-forwarded-proto: https\r\naccept-encoding: gzip\r\n";
    let grown = posted(&world.rest, secure, &form);
    assert!(grown.contains("x-accel-buffering: no\r\n") && grown.contains("</html>"), "{grown}");
}

#[test]
fn a_server_without_an_index_says_so() {
    let world = World::small(184);
    let rest = Rest::with_tweaks(world.live.node(), Limits::default(), None::<TweakDetail>);
    rest.build();
    let form = rest.get(PATH);
    assert!(!form.text().contains("name=\"scan\"") && form.text().contains("keeps no index"), "{}", form.text());
    let refused = rest.post(PATH, &form_of(&Receiver::new(1), "0"));
    assert!(refused.status == 403 && refused.text().contains("keeps no index"), "{}", refused.text());
}
