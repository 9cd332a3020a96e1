//! Every method of the Electrum protocol, with the lines of a request and its reply.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use birdhouse_testkit::client::scripthash;
use birdhouse_testkit::script::Form;
use bitcoin::consensus::encode::serialize_hex;
use serde_json::{Value, json};

use super::{Sample, golden, push_block, shown};

const PAGE: &str = "docs/electrum-examples.md";
const PARSER: &str = include_str!("../../../../electrum/src/request/parse.rs");
const PATIENCE: Duration = Duration::from_mins(1);

/// A connection that shows the lines as they are.
struct Wire {
    socket: BufReader<TcpStream>,
    next_id: u32,
}

impl Wire {
    /// Connects and says nothing.
    fn unversioned(sample: &Sample) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", sample.server.port())).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket: BufReader::new(socket), next_id: 0 }
    }

    /// Connects and negotiates a version.
    fn connect(sample: &Sample, version: &str) -> Self {
        let mut wire = Self::unversioned(sample);
        wire.ask("server.version", &json!(["manual", version]));
        wire
    }

    /// Sends a request; returns its line and that of the reply.
    fn ask(&mut self, method: &str, params: &Value) -> [String; 2] {
        let request = format!(r#"{{"id":{},"method":"{method}","params":{params}}}"#, self.next_id);
        self.next_id += 1;
        self.socket.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
        [request, self.line()]
    }

    /// Returns the next line of the server.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.socket.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

/// The page so far.
struct Book {
    text: String,
    named: BTreeSet<String>,
}

impl Book {
    fn section(&mut self, title: &str) {
        writeln!(self.text, "## {title}\n").unwrap();
    }

    /// Asks, and writes the method with its request and reply.
    fn ask(&mut self, wire: &mut Wire, method: &str, meaning: &str, params: &Value) {
        let [request, reply] = wire.ask(method, params);
        self.push(method, meaning, &[format!("> {request}"), format!("< {}", shown(&reply))]);
    }

    fn push(&mut self, method: &str, meaning: &str, lines: &[String]) {
        self.named.insert(method.to_owned());
        writeln!(self.text, "### {method}\n\n{meaning}\n").unwrap();
        push_block(&mut self.text, lines);
    }
}

#[test]
fn the_manual_shows_every_method_with_a_real_reply() {
    let sample = Sample::start();
    if !sample.has_version_of_pages() {
        return;
    }
    let mut book = Book { text: String::new(), named: BTreeSet::new() };
    let (mut wire, mut newest) = (Wire::connect(&sample, "1.6"), Wire::connect(&sample, "1.7"));
    server(&mut book, &sample, &mut wire);
    headers(&mut book, &sample, &mut wire);
    scripts(&mut book, &sample, &mut wire);
    script_bytes(&mut book, &sample, &mut newest);
    outputs(&mut book, &sample, &mut newest);
    transactions(&mut book, &sample, &mut wire);
    mempool(&mut book, &sample, &mut wire, &mut newest);
    silent_payments(&mut book, &sample);
    notifications(&mut book, &sample);
    golden(PAGE, "## Server\n", &(book.text.trim_end().to_owned() + "\n"));
    let known: BTreeSet<String> = methods().map(str::to_owned).collect();
    assert_eq!(known.difference(&book.named).collect::<Vec<_>>(), [""; 0], "methods without an example");
}

/// Keys of the first receiver in the vectors of BIP 352, which everybody knows.
const SCAN_KEY: &str = "0f694e068028a717f8af6b9411f9a133dd3565258714cc226594b34db90c1f2c";
const SPEND_KEY: &str = "025cc9856d6f8375350e123978daac200c260cb5b5ae83106cab90484dcd8fcf36";

fn silent_payments(book: &mut Book, sample: &Sample) {
    let (subscribe, params) = ("blockchain.silentpayments.subscribe", json!([SCAN_KEY, SPEND_KEY, 100, [7]]));
    // The index is computed in the background.
    let mut other = Wire::connect(sample, "1.6");
    while other.ask(subscribe, &params)[1].contains("silent payments index at") {
        std::thread::sleep(Duration::from_millis(50));
    }
    book.section("Silent payments");
    let mut wire = Wire::connect(sample, "1.6");
    let [request, reply] = wire.ask(subscribe, &params);
    let lines = [format!("> {request}"), format!("< {reply}"), format!("< {}", wire.line())];
    let meaning =
        "Payments to the address of a scan key, here that of BIP 352's first vector; progress 1.0 ends the history.";
    book.push(subscribe, meaning, &lines);
    let keys = json!([SCAN_KEY, SPEND_KEY]);
    book.ask(&mut wire, "blockchain.silentpayments.unsubscribe", "Ends these notifications.", &keys);
    let subscribe = "blockchain.tweaks.subscribe";
    let [request, reply] = wire.ask(subscribe, &json!([104, 2, false]));
    let mut lines = vec![format!("> {request}"), format!("< {reply}")];
    lines.extend((0..2).map(|_| format!("< {}", wire.line())));
    let meaning =
        "Tweaks of a number of blocks from a height, with or without those of spent payments. These blocks have none.";
    book.push(subscribe, meaning, &lines);
    book.ask(
        &mut wire,
        "blockchain.tweaks.get",
        "Value and state of an output that a wallet has found.",
        &json!([sample.funding, 0, 104]),
    );
}

/// Returns the names of all methods that the server parses.
fn methods() -> impl Iterator<Item = &'static str> {
    let names = PARSER.lines().filter_map(|line| line.trim_start().strip_prefix('"')?.split_once('"'));
    let names = names.filter(|(_, rest)| rest.starts_with(" =>") || rest.starts_with(" if ")).map(|(name, _)| name);
    names.filter(|name| name.contains('.'))
}

fn server(book: &mut Book, sample: &Sample, wire: &mut Wire) {
    book.section("Server");
    book.ask(
        &mut Wire::unversioned(sample),
        "server.version",
        "Name and version of both sides; the first message of a connection.",
        &json!(["manual", ["1.4", "1.6"]]),
    );
    book.ask(wire, "server.ping", "A sign of life.", &json!([]));
    book.ask(wire, "server.banner", "The text of `banner`.", &json!([]));
    book.ask(wire, "server.donation_address", "The text of `donation-address`.", &json!([]));
    book.ask(wire, "server.peers.subscribe", "Other servers, if `peer` is set.", &json!([]));
    book.ask(
        wire,
        "server.add_peer",
        "Announces another server; false where this one lists none.",
        &json!([{ "hosts": { "electrum.example.org": { "ssl_port": 50002 } } }]),
    );
    let [request, reply] = wire.ask("server.features", &json!([]));
    // The port is another one at each run.
    let reply = reply.replace(&sample.server.port().to_string(), "60401");
    book.push(
        "server.features",
        "Abilities of the server, with the addresses of `public-host`.",
        &[format!("> {request}"), format!("< {}", shown(&reply))],
    );
}

fn headers(book: &mut Book, sample: &Sample, wire: &mut Wire) {
    book.section("Headers");
    let hash = sample.chain.blocks()[104].block_hash();
    book.ask(wire, "blockchain.block.header", "The header at a height.", &json!([104]));
    book.ask(
        wire,
        "blockchain.block.headers",
        "Headers from a height on; with a third parameter a proof up to a checkpoint.",
        &json!([104, 2, 108]),
    );
    book.ask(wire, "blockchain.headers.get_tip", "Height and header of the tip.", &json!([]));
    book.ask(wire, "blockchain.header.get", "Height and header of a block, by its hash.", &json!([hash]));
    book.ask(wire, "blockchain.headers.subscribe", "The tip now, and a notification for each new one.", &json!([]));
    book.ask(wire, "blockchain.headers.unsubscribe", "Ends these notifications.", &json!([]));
}

fn scripts(book: &mut Book, sample: &Sample, wire: &mut Wire) {
    book.section("Scripts by hash");
    let hash = json!([scripthash(sample.alice.as_bytes())]);
    for (name, meaning) in [
        ("get_balance", "Confirmed and unconfirmed balance in satoshi."),
        ("get_history", "Transactions with their heights; 0 and -1 are in the mempool."),
        ("get_mempool", "The unconfirmed ones alone."),
        ("listunspent", "Unspent outputs."),
        ("subscribe", "The status now, and a notification for each new one; null without history."),
        ("unsubscribe", "Ends these notifications; true if there was a subscription."),
        ("get_status", "The status without a subscription."),
        ("get_first_use", "The first transaction."),
    ] {
        book.ask(wire, &format!("blockchain.scripthash.{name}"), meaning, &hash);
    }
}

fn script_bytes(book: &mut Book, sample: &Sample, newest: &mut Wire) {
    book.section("Scripts by bytes (1.7)");
    let script = json!([sample.bob.to_hex_string()]);
    for (name, meaning) in [
        ("get_balance", "As `scripthash.get_balance`."),
        ("get_history", "The history, as a field of an object."),
        ("get_mempool", "The unconfirmed part of it."),
        ("listunspent", "Unspent outputs, as a field of an object."),
        ("subscribe", "The status now; notifications name the script by its hash."),
        ("unsubscribe", "Ends these notifications."),
    ] {
        book.ask(newest, &format!("blockchain.scriptpubkey.{name}"), meaning, &script);
    }
}

fn outputs(book: &mut Book, sample: &Sample, newest: &mut Wire) {
    book.section("Outputs");
    let script = sample.alice.to_hex_string();
    let output = json!([sample.spending, 1, script]);
    book.ask(newest, "blockchain.outpoint.get_status", "Where an output was funded and spent.", &output);
    book.ask(newest, "blockchain.outpoint.subscribe", "The same, and a notification for each change.", &output);
    let output = json!([sample.spending, 1]);
    book.ask(newest, "blockchain.outpoint.unsubscribe", "Ends these notifications.", &output);
    book.ask(newest, "blockchain.utxo.get_info", "An unspent output; null if there is none.", &output);
}

fn transactions(book: &mut Book, sample: &Sample, wire: &mut Wire) {
    book.section("Transactions");
    let txid = json!([sample.spending]);
    book.ask(wire, "blockchain.transaction.get", "A transaction in hexadecimal.", &txid);
    book.ask(
        wire,
        "blockchain.transaction.get",
        "With `true` it is the node's own JSON.",
        &json!([sample.spending, true]),
    );
    book.ask(wire, "blockchain.transaction.get_height", "The height of its block; 0 in the mempool.", &txid);
    book.ask(
        wire,
        "blockchain.transaction.get_confirmed_blockhash",
        "Its block, with `true` also the header.",
        &json!([sample.spending, true]),
    );
    book.ask(
        wire,
        "blockchain.transaction.get_merkle",
        "The proof that its block has it; the height may be left out.",
        &json!([sample.spending, 105]),
    );
    book.ask(
        wire,
        "blockchain.transaction.id_from_pos",
        "The id at a position of a block, with `true` also the proof.",
        &json!([105, 1, true]),
    );
    book.ask(
        wire,
        "blockchain.transaction.broadcast",
        "Sends a transaction to the node; a refusal has the node's reason.",
        &json!([serialize_hex(&sample.payment)]),
    );
}

fn mempool(book: &mut Book, sample: &Sample, wire: &mut Wire, newest: &mut Wire) {
    let package = json!([sample.package_hex()]);
    book.ask(
        newest,
        "blockchain.transaction.testmempoolaccept",
        "The node's opinion of transactions, without sending them (1.7).",
        &package,
    );
    book.ask(wire, "blockchain.transaction.broadcast_package", "Sends a package, parents first (1.6).", &package);
    book.section("Mempool and fees");
    book.ask(wire, "mempool.get_fee_histogram", "Fee rates in sat/vB with the virtual bytes at them.", &json!([]));
    book.ask(wire, "mempool.get_info", "Fee rates below which the node takes nothing, in BTC/kvB (1.6).", &json!([]));
    let recent = newest.ask("mempool.recent", &json!([]));
    for tx in &sample.package {
        // What one method shows, every later one shows.
        assert!(recent[1].contains(&tx.compute_txid().to_string()), "{recent:?} lacks a broadcast package");
    }
    let lines = [format!("> {}", recent[0]), format!("< {}", shown(&recent[1]))];
    book.push("mempool.recent", "The newest transactions of the mempool (1.7).", &lines);
    book.ask(
        wire,
        "blockchain.estimatefee",
        "A fee rate in BTC/kvB for confirmation within some blocks; -1 where the node has no estimate.",
        &json!([6]),
    );
    let mut old = Wire::connect(sample, "1.4");
    book.ask(
        &mut old,
        "blockchain.relayfee",
        "The least fee rate that the node relays, in BTC/kvB (until 1.6).",
        &json!([]),
    );
}

/// Subscribes to a script and to the tip, and shows what a payment and a block bring.
fn notifications(book: &mut Book, sample: &Sample) {
    book.section("Notifications");
    let mut wire = Wire::connect(sample, "1.6");
    wire.ask("blockchain.headers.subscribe", &json!([]));
    let mut chain = sample.chain.clone();
    chain.mine(1);
    chain.submit_to(&sample.node).unwrap();
    let tip = wire.line();
    writeln!(book.text, "A new tip, to a connection that has subscribed to headers:\n").unwrap();
    push_block(&mut book.text, &[format!("< {tip}")]);
    writeln!(
        book.text,
        "A new status, to one that has subscribed to a script. The client then asks for its history:\n"
    )
    .unwrap();
    let mut wire = Wire::connect(sample, "1.6");
    wire.ask("blockchain.scripthash.subscribe", &json!([scripthash(sample.alice.as_bytes())]));
    let coin = chain.coins().find(|coin| coin.lock.form == Form::P2tr).unwrap().clone();
    let payments = [birdhouse_testkit::tx::Payment::to_script(sample.alice.clone(), coin.sat() - 10_000)];
    let paid = birdhouse_testkit::tx::signed(chain.wallet(), &[coin], &payments);
    let mut other = Wire::connect(sample, "1.6");
    let reply = &other.ask("blockchain.transaction.broadcast", &json!([serialize_hex(&paid)]))[1];
    assert!(reply.contains(&paid.compute_txid().to_string()), "{reply}");
    push_block(&mut book.text, &[format!("< {}", wire.line())]);
}
