//! The examples of the manual: every Electrum method and every REST endpoint, asked of a server on a chain that is the
//! same every time. The requests and replies are `docs/electrum-examples.md` and `docs/rest-examples.md`, word for
//! word; `make golden` writes these pages anew.
//!
//! Some replies are the node's own and differ between its versions, so the pages are compared only on the version that
//! they name.

mod electrum;
mod rest;

use std::fmt::Write as _;

use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::peers::{Home, Peer};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment, signed};
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Address, ScriptBuf, Transaction, Txid};
use serde_json::json;

use crate::serve;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Major version of the Bitcoin Core whose replies the pages have.
const NODE_MAJOR: u64 = 31;
/// Characters of a reply that stays in one line.
const LINE_CHARS: usize = 150;
/// Lines of a reply on a page; the rest is counted.
const LINES_MAX: usize = 40;

/// A small chain with a few payments between two scripts, and transactions that nobody has seen.
struct Sample {
    // Declared before the node, which must end last.
    server: Peer,
    node: Bitcoind,
    chain: ChainBuilder,
    rest_port: u16,
    /// Script that was paid, has spent, and has an unspent output.
    alice: ScriptBuf,
    bob: ScriptBuf,
    /// Confirmed payments to Alice, and from her to Bob.
    funding: Txid,
    spending: Txid,
    /// A payment from Alice to Bob.
    payment: Transaction,
    /// Two more, of which the second spends the first.
    package: [Transaction; 2],
}

impl Sample {
    fn start() -> Self {
        let [alice, bob] = [1, 2].map(|number| Lock::new(Form::P2wpkh, number));
        let mut chain = ChainBuilder::new(2026);
        chain.mine(103);
        let funding = chain.pay(&[Payment::to_lock(alice, 300_000_000)]);
        chain.mine(1);
        let coins = [coin(&chain, funding, alice)];
        let spending = chain.spend(&coins, &[Payment::to_lock(bob, 100_000_000), Payment::to_lock(alice, 199_990_000)]);
        chain.mine(4);
        let sign = |coin: &Coin, payments: &[Payment]| signed(chain.wallet(), std::slice::from_ref(coin), payments);
        let payment = sign(
            &coin(&chain, spending, alice),
            &[Payment::to_lock(bob, 50_000_000), Payment::to_lock(alice, 149_980_000)],
        );
        let parent = sign(&coin(&chain, spending, bob), &[Payment::to_lock(bob, 99_990_000)]);
        let outpoint = bitcoin::OutPoint { txid: parent.compute_txid(), vout: 0 };
        let unseen = Coin { outpoint, output: parent.output[0].clone(), lock: bob, spendable_from: 0 };
        let child = sign(&unseen, &[Payment::to_lock(alice, 99_980_000)]);

        let node = Bitcoind::start(Options::default().arg("-minrelaytxfee=0.00001")).unwrap();
        chain.submit_to(&node).unwrap();
        let rest_port = free_port().unwrap();
        // The private listener has every endpoint.
        let rest = format!("--rest-private-addr=127.0.0.1:{rest_port}");
        let name = "--server-name=Birdhouse (ElectrumX-compatible)";
        let flags = [&*rest, name, "--banner=Welcome.", "--silent-payments=full", "--tweak-streams=v2"];
        let server = serve(&node, Home::Temporary, &flags);
        let [alice, bob] = [alice, bob].map(|lock| chain.wallet().script_pubkey(lock));
        Self { server, node, chain, rest_port, alice, bob, funding, spending, payment, package: [parent, child] }
    }

    /// Returns true if the node has the version of the pages.
    fn has_version_of_pages(&self) -> bool {
        let version = self.node.rpc("getnetworkinfo", json!([])).unwrap()["version"].as_u64().unwrap();
        let has = version / 10_000 == NODE_MAJOR;
        if !has {
            eprintln!("LEFT OUT: the examples are compared on Bitcoin Core {NODE_MAJOR}, and this is {version}");
        }
        has
    }

    fn address(&self) -> String {
        Address::from_script(&self.bob, bitcoin::Network::Regtest).unwrap().to_string()
    }

    fn package_hex(&self) -> [String; 2] {
        self.package.each_ref().map(serialize_hex)
    }
}

/// Returns the output of a transaction that pays a lock.
fn coin(chain: &ChainBuilder, txid: Txid, lock: Lock) -> Coin {
    chain.coins().find(|coin| coin.outpoint.txid == txid && coin.lock == lock).unwrap().clone()
}

/// Compares a page from its first heading that begins so, or writes it if `make golden` asks for it.
fn golden(path: &str, first_heading: &str, examples: &str) {
    let file = format!("{ROOT}/{path}");
    let found = std::fs::read_to_string(&file).unwrap();
    let (head, _) = found.split_once(first_heading).unwrap_or_else(|| panic!("{path} has no {first_heading:?}"));
    let current = format!("{head}{examples}");
    if std::env::var_os("BIRDHOUSE_GOLDEN").is_some() {
        std::fs::write(file, current).unwrap();
    } else if let Some((number, _)) = (1..)
        .zip(found.lines())
        .zip(current.lines())
        .find_map(|((number, one), other)| (one != other).then_some((number, other)))
    {
        panic!("{path}:{number} is not current; run `make golden`");
    } else {
        assert!(found == current, "{path} is not current; run `make golden`");
    }
}

/// Appends a question and its answer as a block of code.
fn push_block(text: &mut String, lines: &[String]) {
    writeln!(text, "```text\n{}\n```\n", lines.join("\n")).unwrap();
}

/// Formats an answer for a page: JSON that is long gets a line for each item, and is cut. A result that is one text
/// stays in its line.
fn shown(answer: &str) -> String {
    let is_list = answer.starts_with(['{', '[']) && !answer.contains(r#""result":""#);
    if answer.len() <= LINE_CHARS || !is_list {
        return answer.to_owned();
    }
    let pretty = pretty(answer);
    let mut lines: Vec<&str> = pretty.lines().collect();
    let more = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    let cut = if more > 0 { format!("\n.. and {more} more lines") } else { String::new() };
    lines.join("\n") + &cut
}

/// Breaks JSON into lines and changes nothing else, not even the order of fields.
fn pretty(json: &str) -> String {
    let (mut text, mut depth, mut in_string, mut is_escaped) = (String::new(), 0, false, false);
    let mut chars = json.chars().peekable();
    while let Some(char) = chars.next() {
        if in_string {
            in_string = char != '"' || is_escaped;
            is_escaped = char == '\\' && !is_escaped;
            text.push(char);
            continue;
        }
        match char {
            '{' | '[' if chars.peek().is_some_and(|next| "}]".contains(*next)) => text.push(char),
            '{' | '[' => {
                depth += 1;
                text.push(char);
                new_line(&mut text, depth);
            }
            '}' | ']' if text.ends_with(['{', '[']) => text.push(char),
            '}' | ']' => {
                depth -= 1;
                new_line(&mut text, depth);
                text.push(char);
            }
            ',' => {
                text.push(char);
                new_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => {
                in_string = char == '"';
                text.push(char);
            }
        }
    }
    text
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

#[test]
fn long_json_is_broken_into_lines_and_not_changed() {
    let json = r#"{"b":[1,{"a":"x,{\"y"}],"c":[],"d":{}}"#;
    let lines = pretty(json);
    assert_eq!(lines.lines().count(), 10);
    let value: serde_json::Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(value, serde_json::from_str::<serde_json::Value>(json).unwrap());
}
