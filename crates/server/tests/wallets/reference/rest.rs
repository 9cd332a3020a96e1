//! Every endpoint of the REST API, with a request and its answer.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use birdhouse_testkit::client::scripthash;
use birdhouse_testkit::openapi::OpenApi;
use bitcoin::consensus::encode::serialize_hex;
use serde_json::{Value, json};

use super::{Sample, golden, push_block, shown};

const PAGE: &str = "docs/rest-examples.md";
const PATIENCE: Duration = Duration::from_mins(1);
/// Streams have no end; `docs/rest.md` shows how to read them.
const ENDLESS: [&str; 2] = ["/events", "/v1/ws"];
/// Fields that depend on the time of day.
const OF_TODAY: [&str; 5] = ["estimatedRetargetDate", "timeAvg", "adjustedTimeAvg", "remainingTime", "expectedBlocks"];

#[test]
fn the_manual_shows_every_endpoint_with_a_real_answer() {
    let sample = Sample::start();
    if !sample.has_version_of_pages() {
        return;
    }
    sample.node.rpc("sendrawtransaction", json!([serialize_hex(&sample.payment)])).unwrap();
    let txid = sample.payment.compute_txid().to_string();
    let start = Instant::now();
    while !get(&sample, "GET", "/mempool/txids", "").1.contains(&txid) {
        assert!(start.elapsed() < PATIENCE, "the payment never came");
    }
    let document: Value = serde_json::from_str(&get(&sample, "GET", "/openapi.json", "").1).unwrap();
    let paths = document["paths"].as_object().unwrap();
    // The package changes the mempool, which other answers show, so it is last.
    let paths = paths.iter().filter(|(path, _)| !ENDLESS.contains(&path.as_str()));
    let (last, first): (Vec<_>, Vec<_>) = paths.partition(|(path, _)| *path == "/txs/package");
    let mut examples = BTreeMap::new();
    for (path, operations) in first.into_iter().chain(last) {
        // The private listener has none of those that have a server of their own.
        for (verb, operation) in operations.as_object().unwrap().iter().filter(|(_, one)| one["servers"].is_null()) {
            let summary = operation["summary"].as_str().unwrap();
            let forms = OpenApi::new(document.clone());
            examples.insert((path, verb), example(&sample, &forms, path, &verb.to_uppercase(), summary));
        }
    }
    golden(PAGE, "## /", &(in_families(&examples).trim_end().to_owned() + "\n"));
}

/// Returns the examples under a heading for each family of endpoints.
fn in_families(examples: &BTreeMap<(&String, &String), String>) -> String {
    let (mut text, mut family) = (String::new(), "");
    for ((path, _), example) in examples {
        let of = path.split('/').nth(1).unwrap();
        if of != family {
            family = of;
            writeln!(text, "## /{family}\n").unwrap();
        }
        text.push_str(example);
    }
    text
}

/// Asks one endpoint, and compares its answer with the form in the document; returns both for the page.
fn example(sample: &Sample, forms: &OpenApi, path: &str, verb: &str, summary: &str) -> String {
    let mut text = String::new();
    let parts = path.split(['{', '}']).enumerate();
    let filled: String =
        parts.map(|(at, part)| if at % 2 == 0 { part.to_owned() } else { value(sample, path, part) }).collect();
    let (query, body) = (query(sample, path), body(sample, verb, path));
    let target = filled + &query;
    let (status, answer) = get(sample, verb, &target, &body);
    if status == 200
        && answer.starts_with(['{', '['])
        && let Ok(answer) = serde_json::from_str(&answer)
    {
        assert_eq!(forms.check(verb, path, &answer), Ok(()), "{verb} {path}");
    }
    let shown = match path {
        "/openapi.json" => "(this list)".to_owned(),
        // The records depend on the time of day.
        "/v1/statistics/{span}" => "(records)".to_owned(),
        _ => shown(&without_today(&answer)),
    };
    let status = if status == 200 { String::new() } else { format!("{status} ") };
    writeln!(text, "### {verb} {path}\n\n{summary}\n").unwrap();
    let data = if body.is_empty() { String::new() } else { format!("\n{body}") };
    push_block(&mut text, &[format!("{verb} {target}{data}"), String::new(), format!("{status}{shown}")]);
    text
}

/// Returns a value for a part of a path.
fn value(sample: &Sample, path: &str, name: &str) -> String {
    match name {
        "address" => sample.address(),
        "prefix" => sample.address()[..10].to_owned(),
        "scripthash" => plain_scripthash(sample),
        "hash" => sample.chain.blocks()[105].block_hash().to_string(),
        "height" => "105".to_owned(),
        "index" => "1".to_owned(),
        "span" => "2h".to_owned(),
        "start" | "vout" => "0".to_owned(),
        "time" => sample.chain.blocks()[105].header.time.to_string(),
        "txid" if path.contains("cpfp") => sample.payment.compute_txid().to_string(),
        "txid" if path.contains("mempool") => "00".repeat(32),
        "txid" => sample.spending.to_string(),
        _ => panic!("choose an example of `{name}` in {path}"),
    }
}

/// Returns the script hash as Esplora shows it: not reversed.
fn plain_scripthash(sample: &Sample) -> String {
    let reversed = scripthash(sample.bob.as_bytes());
    let bytes: Vec<&str> = (0..reversed.len()).step_by(2).rev().map(|at| &reversed[at..at + 2]).collect();
    bytes.concat()
}

fn query(sample: &Sample, path: &str) -> String {
    match path {
        "/broadcast" => format!("?tx={}", serialize_hex(&sample.payment)),
        "/v1/transaction-times" => format!("?txId[]={}", sample.spending),
        "/txs/outspends" => format!("?txids={},{}", sample.funding, sample.spending),
        _ => String::new(),
    }
}

fn body(sample: &Sample, verb: &str, path: &str) -> String {
    let body = match path {
        _ if verb != "POST" => return String::new(),
        "/tx" => return serialize_hex(&sample.payment),
        "/txs/package" | "/txs/test" => json!(sample.package_hex()),
        "/internal/mempool/txs" => json!([sample.payment.compute_txid()]),
        "/internal/txs" | "/internal/txs/outspends/by-txid" => json!([sample.spending]),
        "/internal/txs/outspends/by-outpoint" => json!([format!("{}:0", sample.funding)]),
        "/addresses/txs" => json!([sample.address()]),
        "/scripthashes/txs" => json!([plain_scripthash(sample)]),
        _ => panic!("choose an example of the body of {path}"),
    };
    body.to_string()
}

/// Sends a request over HTTP 1.0, whose answers have no chunks; returns status and text.
fn get(sample: &Sample, verb: &str, target: &str, body: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(("127.0.0.1", sample.rest_port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    write!(socket, "{verb} {target} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    let body = &answer[end + 4..];
    let is_binary = head.to_lowercase().contains("octet-stream");
    let text = if is_binary { format!("({} bytes)", body.len()) } else { String::from_utf8(body.to_vec()).unwrap() };
    (status, text)
}

/// Replaces the numbers that depend on the time of day by `..`.
fn without_today(answer: &str) -> String {
    let mut text = answer.to_owned();
    for field in OF_TODAY {
        let name = format!("\"{field}\":");
        if let Some((before, after)) = text.split_once(&name) {
            let end = after.find([',', '}']).unwrap_or(after.len());
            text = format!("{before}{name}..{}", &after[end..]);
        }
    }
    text
}
