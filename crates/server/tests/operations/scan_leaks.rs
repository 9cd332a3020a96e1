//! Scans for many keys in every dialect, by right requests and wrong ones: no key is in a file, log, page or core dump
//! afterwards.
//!
//! Keys of watches, which an operator writes into a file, are looked for in `watch_secrets`.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::process::ExitStatusExt as _;

use birdhouse_testkit::Options;
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::pipe::{Lines, Pipe, tcp, tls, ws};
use birdhouse_testkit::rng::{Rng, rounds};
use birdhouse_testkit::tx::Payment;
use bitcoin::secp256k1::{SECP256K1, SecretKey};
use bitcoin::{Amount, OutPoint};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::process::Birdhouse;
use crate::secret::{Secret, assert_hidden};
use crate::silent_sender::{KnownCoin, Receiver, Sent, pay, script, secret};

const SEED: u64 = 352;
const TINY: Size = Size { blocks: 3, block_txs: 2, scripts_per_form: 1, busy: &[] };
/// Receivers with a payment.
const PAID: u8 = 3;
const SUBSCRIBE: &str = "blockchain.silentpayments.subscribe";
const UNSUBSCRIBE: &str = "blockchain.silentpayments.unsubscribe";

/// A server with all dialects, and its listeners.
struct World {
    server: Birdhouse,
    ports: Ports,
    height: u32,
    /// The payment of each of the first receivers.
    paid: Vec<Sent>,
}

#[derive(Clone, Copy)]
struct Ports {
    tls: u16,
    ws: u16,
    web: u16,
    rest: u16,
}

impl World {
    fn start(live: &mut LiveNode) -> Self {
        let paid: Vec<Sent> = (0..PAID).map(|number| sent(live, number)).collect();
        live.mine_these(paid.iter().map(|sent| sent.transaction.clone()).collect()).unwrap();
        let [tls, ws, web, rest] = [(); 4].map(|()| free_port().unwrap());
        let ports = Ports { tls, ws, web, rest };
        let at = |port: u16| format!("127.0.0.1:{port}");
        let [tls, ws, web, rest] = [tls, ws, web, rest].map(at);
        let settings = [
            ("BIRDHOUSE_SILENT_PAYMENTS", "full"),
            ("BIRDHOUSE_TWEAK_STREAMS", "v2"),
            ("BIRDHOUSE_ELECTRUM_TLS_ADDR", &tls),
            ("BIRDHOUSE_ELECTRUM_WS_ADDR", &ws),
            ("BIRDHOUSE_HTTP_ADDR", &web),
            ("BIRDHOUSE_REST_ADDR", &rest),
            ("BIRDHOUSE_LOG", "trace"),
        ];
        let server = Birdhouse::start_after("ulimit -c unlimited", live.node(), &settings);
        let height = live.ledger().height();
        server.until_derived(height + 1);
        Self { server, ports, height, paid }
    }

    /// Connects by one transport after the other.
    fn connect(&self, number: u64) -> Box<dyn Pipe> {
        match number % 3 {
            0 => Box::new(Lines(self.tcp())),
            1 => Box::new(Lines(tls(tcp(self.ports.tls).unwrap()).unwrap())),
            _ => Box::new(ws(tcp(self.ports.ws).unwrap()).unwrap()),
        }
    }

    fn tcp(&self) -> TcpStream {
        tcp(self.server.port("serving the Electrum protocol").unwrap()).unwrap()
    }

    /// Sends a request over HTTP; returns the status and the whole answer.
    fn http(&self, line: &str, body: &str) -> (u16, String) {
        let mut socket = tcp(self.ports.web).unwrap();
        let head = format!(
            "{line} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            self.ports.web,
            body.len()
        );
        socket.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }
}

/// Pays a receiver from a coin of its own; the payment is not mined.
pub(crate) fn sent(live: &mut LiveNode, number: u8) -> Sent {
    let key = secret(50 + number);
    let coin = live.pay(&[Payment::to_script(script(&key), 100_000)]).unwrap();
    live.mine().unwrap();
    let outpoint = OutPoint { txid: coin.compute_txid(), vout: 0 };
    let coin = KnownCoin { key, outpoint, value: Amount::from_sat(100_000) };
    pay(&coin, &Receiver::new(number), None, Amount::from_sat(1000))
}

/// The keys of a round: first those that are paid.
fn receiver(number: u64) -> Receiver {
    if let Some(number) = u8::try_from(number).ok().filter(|number| *number < PAID) {
        return Receiver::new(number);
    }
    let mut rng = Rng::new(number);
    let [scan, spend] = [(); 2].map(|()| SecretKey::from_slice(&rng.bytes::<32>()).unwrap());
    Receiver { scan, spend: spend.public_key(SECP256K1) }
}

/// Scans as Sparrow does, over one transport after the other; returns the number of payments.
fn by_frigates(world: &World, number: u64, receiver: &Receiver) -> usize {
    let mut client = world.connect(number);
    client.call("server.version", &json!(["birdhouse-test", "1.4"])).unwrap();
    let (scan, spend) = (receiver.scan_hex(), receiver.spend_hex());
    let params = match number % 2 {
        0 => json!([scan, spend, 0, [1, 7]]),
        _ => json!({ "scan_private_key": scan, "spend_public_key": spend, "start": 0 }),
    };
    client.call(SUBSCRIBE, &params).unwrap();
    let mut found = 0;
    loop {
        let notification = client.json().unwrap();
        found += notification["params"]["history"].as_array().unwrap().len();
        if notification["params"]["progress"] == json!(1.0) {
            break;
        }
    }
    if number.is_multiple_of(2) {
        client.call(UNSUBSCRIBE, &json!([scan, spend])).unwrap();
    }
    found
}

/// Requests that are refused, and lines that are no requests.
fn by_mistakes(world: &World, number: u64, receiver: &Receiver) {
    let (scan, spend) = (receiver.scan_hex(), receiver.spend_hex());
    let mut client = world.connect(number + 1);
    for (method, params) in [
        (SUBSCRIBE, json!([scan, "02", 0, []])),
        (SUBSCRIBE, json!([scan, spend, -1, []])),
        (SUBSCRIBE, json!([format!("{scan}00"), spend])),
        (SUBSCRIBE, json!({ "scan": scan })),
        ("blockchain.silentpayments.scan", json!([scan])),
        ("blockchain.scripthash.get_history", json!([scan, scan])),
        ("blockchain.tweaks.subscribe", json!([scan])),
    ] {
        let error = client.call(method, &params).unwrap_err().to_string();
        assert!(!Secret::of(receiver.scan.secret_bytes()).is_in(error.as_bytes()), "{error}");
    }
    let request = json!({ "id": 1, "method": SUBSCRIBE, "params": [scan, spend] }).to_string();
    for line in [request.clone() + "]\n", format!("{scan}\n"), request[..request.len() - 9].to_owned()] {
        let mut socket = world.tcp();
        socket.write_all(line.as_bytes()).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        // An error, or the end of the connection.
        let _ = socket.read_to_end(&mut Vec::new());
    }
    // People and programs that mistake one listener, page or form for another.
    for (line, body) in [
        (format!("GET /silent-payments?scan={scan}&spend={spend}"), String::new()),
        (format!("GET /search?q={scan}"), String::new()),
        (format!("GET /address/{scan}"), String::new()),
        (format!("GET /api/{scan}"), String::new()),
        ("POST /search".to_owned(), format!("q={scan}")),
        ("POST /addresses".to_owned(), format!("q=sp({scan},{spend})")),
        ("POST /tx".to_owned(), scan.clone()),
        ("POST /silent-payments".to_owned(), format!("scan={scan}&spend=02")),
    ] {
        let (status, _) = world.http(&line, &body);
        assert_ne!(status, 500, "{line}");
    }
}

/// Scans by the explorer's page; returns true if it shows a transaction.
fn by_the_explorer(world: &World, receiver: &Receiver, txid: &str) -> bool {
    let form = format!("scan={}&spend={}&start=0", receiver.scan_hex(), receiver.spend_hex());
    let (status, page) = world.http("POST /silent-payments", &form);
    assert_eq!(status, 200, "{page}");
    assert!(!Secret::of(receiver.scan.secret_bytes()).is_in(page.as_bytes()), "{page}");
    page.contains(txid)
}

/// Reads all tweaks as wallets do that scan by themselves.
fn by_tweaks(world: &World, number: u64) {
    let mut client = world.connect(number);
    client.call("blockchain.tweaks.subscribe", &json!([0, world.height + 1, false, 2])).unwrap();
    while client.json().unwrap()["params"][0] != json!({ "message": "done" }) {}
    if let Some(sent) = usize::try_from(number).ok().and_then(|number| world.paid.get(number)) {
        let txid = sent.transaction.compute_txid().to_string();
        let state = client.call("blockchain.tweaks.get", &json!([txid, 0, world.height])).unwrap();
        assert_eq!(state, json!({ "amount": 99_000, "spent": false }));
    }
    for path in ["/block-dn/sp/tweaks/0/0".to_owned(), format!("/blindbit/tweaks/{}", world.height)] {
        // The tweaks of files are bytes.
        let mut socket = tcp(world.ports.rest).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "{path}: {}", String::from_utf8_lossy(&answer));
    }
}

/// `BIRDHOUSE_ROUNDS=2000` scans for that many keys.
#[test]
fn scan_keys_of_all_dialects_are_in_no_file_log_page_or_core_dump() {
    let mut live = LiveNode::start(SEED, TINY, Options::default()).unwrap();
    let mut world = World::start(&mut live);
    let mut secrets = Vec::new();
    for number in rounds(5) {
        let receiver = receiver(number);
        let paid = usize::try_from(number).ok().and_then(|number| world.paid.get(number));
        let txid = paid.map(|sent| sent.transaction.compute_txid().to_string());
        let found = by_frigates(&world, number, &receiver);
        assert_eq!(found, usize::from(paid.is_some()), "key {number}");
        by_mistakes(&world, number, &receiver);
        let is_shown = by_the_explorer(&world, &receiver, txid.as_deref().unwrap_or("no txid"));
        assert_eq!(is_shown, txid.is_some(), "key {number}");
        by_tweaks(&world, number);
        secrets.push(Secret::of(receiver.scan.secret_bytes()));
    }
    assert_hidden(&secrets, &world.server);
    world.server.signal(Signal::SIGABRT);
    let (status, _) = world.server.wait();
    assert!(status.signal() == Some(6) && !status.core_dumped(), "{status:?}");
    for secret in &secrets {
        assert_eq!(secret.files_in(world.server.dir()), Vec::<String>::new());
    }
    println!("{} keys are nowhere", secrets.len());
}
