//! The HTTP requests of attacks on REST, explorer, replicas and dashboard.

use std::fmt::Write as _;

use bitcoin::bip32::{Xpriv, Xpub};
use bitcoin::secp256k1::SECP256K1;
use bitcoin::{Address, KnownHrp, Network, WitnessProgram, WitnessVersion};

use crate::clients::http_client::{get, rest_path};

/// Requests to the REST API sent together.
pub(super) const REST_REQUESTS: usize = 100;
/// Txids of a request for spenders, the most that are allowed.
const OUTSPENDS_TXIDS: usize = 50;
/// Addresses that a stream of events watches. 300 are allowed, which make a head of 15 kB.
const WATCHED: u8 = 100;
/// Keys of a descriptor, the most of a script; and descriptors of a question.
const KEYS: usize = 15;
const LINES: usize = 12;
/// Levels of nesting that the explorer accepts.
const NESTING_MAX: usize = 20;

/// Requests that are wrong, that name nothing, and that read as much as one may.
pub(super) fn rest_flood(scripthash: &str) -> Vec<u8> {
    let (script, unknown) = (rest_path(scripthash), "00".repeat(32));
    let paths = [
        format!("{script}/txs/summary"),
        format!("{script}/utxo"),
        format!("{script}/txs"),
        format!("{script}/txs/chain/{unknown}"),
        format!("/tx/{unknown}"),
        format!("/tx/{unknown}/outspends"),
        format!("/block/{unknown}/txs/25"),
        "/address/%00/txs".to_owned(),
        "/tx/../../etc/passwd".to_owned(),
        "/blocks/999999999999999999999".to_owned(),
    ];
    paths.iter().cycle().take(REST_REQUESTS).flat_map(|path| get(path)).collect()
}

/// The spenders of all outputs of one transaction, fifty times.
pub(super) fn outspends(txid: &str) -> Vec<u8> {
    get(&format!("/txs/outspends?txids={}", vec![txid; OUTSPENDS_TXIDS].join(",")))
}

/// A stream about blocks and as many addresses as fit into a head.
pub(super) fn streams() -> Vec<u8> {
    let address = |number: u8| {
        let program = WitnessProgram::new(WitnessVersion::V0, &[number; 20]).expect("a program of 20 bytes");
        Address::from_witness_program(program, KnownHrp::Regtest)
    };
    let watched: Vec<String> = (0..WATCHED).map(|number| format!("&address={}", address(number))).collect();
    get(&format!("/events?blocks{}", watched.concat()))
}

/// Descriptors with the most keys, each derived over all the steps that are allowed.
pub(super) fn derivation() -> Vec<u8> {
    let line = |line: usize| {
        let keys: Vec<String> = (0..KEYS).map(|number| format!(",{}/{line}/{number}/2/3/4/5/<0;1>/*", key())).collect();
        format!("wsh(sortedmulti(1{}))", keys.concat())
    };
    ask_explorer(&(0..LINES).map(line).collect::<Vec<_>>().join("\n"))
}

/// A descriptor with the most levels that are allowed, and one with a level more.
pub(super) fn nesting() -> Vec<u8> {
    let nested = |levels: usize| {
        // The outer and the inner level are `wsh` and `pk`.
        let (open, close) = ("or_i(0,".repeat(levels - 2), ")".repeat(levels - 2));
        format!("wsh({open}pk({}){close})", key())
    };
    ask_explorer(&[NESTING_MAX, NESTING_MAX + 1].map(nested).join("\n"))
}

/// A replica's first request, without the secret.
pub(super) fn strangers() -> Vec<u8> {
    get("/states")
}

/// The dashboard's page with all that it knows.
pub(super) fn pages() -> Vec<u8> {
    get("/")
}

fn key() -> Xpub {
    let secret = Xpriv::new_master(Network::Regtest, &[7; 32]).expect("a seed of 32 bytes");
    Xpub::from_priv(SECP256K1, &secret)
}

fn ask_explorer(text: &str) -> Vec<u8> {
    let mut body = "q=".to_owned();
    for byte in text.bytes() {
        write!(body, "%{byte:02x}").expect("a string grows");
    }
    let head = format!(
        "POST /addresses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}
