//! Scan keys of silent payments stay in the memory of the server, and only while they are used.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::client::Client;
use bitcoin::hex::DisplayHex as _;
use serde_json::json;

use crate::process::{Birdhouse, PATIENCE};

/// The forms in which the scan key of this test could lie somewhere.
struct Secret {
    bytes: [u8; 32],
    hex: String,
}

impl Secret {
    fn new(first: usize) -> Self {
        let bytes: [u8; 32] = std::array::from_fn(|at| u8::try_from(at * 7 + first).unwrap());
        Self { bytes, hex: bytes.to_lower_hex_string() }
    }

    fn is_in(&self, text: &[u8]) -> bool {
        let upper = self.hex.to_uppercase();
        let forms: [&[u8]; 3] = [&self.bytes, self.hex.as_bytes(), upper.as_bytes()];
        forms.iter().any(|form| memchr::memmem::find(text, form).is_some())
    }

    /// Returns the files of a folder that have it.
    fn files_in(&self, folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(self.files_in(&path));
            } else if path.is_file() && self.is_in(&fs::read(&path).unwrap()) {
                found.push(path.display().to_string());
            }
        }
        found
    }

    /// Returns the writable parts of a process's memory that have it.
    fn memory_of(&self, process: u32) -> Vec<String> {
        let memory = File::open(format!("/proc/{process}/mem")).unwrap();
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
        let writable =
            maps.lines().filter(|line| line.split_whitespace().nth(1).is_some_and(|mode| mode.contains('w')));
        let has_it = |line: &&str| {
            let (start, end) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
            let [start, end] = [start, end].map(|address| u64::from_str_radix(address, 16).unwrap());
            let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
            memory.read_exact_at(&mut bytes, start).is_ok() && self.is_in(&bytes)
        };
        writable.filter(has_it).map(str::to_owned).collect()
    }
}

/// The public spend key: the generator.
const SPEND: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";

#[test]
fn a_scan_key_is_nowhere_but_in_memory_and_there_while_it_is_used() {
    let node = crate::node();
    let settings = [
        ("BIRDHOUSE_SILENT_PAYMENTS", "scan"),
        ("BIRDHOUSE_CORE_DUMPS", "on"), // so that the test may read the memory
        ("BIRDHOUSE_LOG", "trace"),
    ];
    let server = Birdhouse::start_with(&node, &settings);
    server.until("covers the chain", || (server.ctl_json(&["status"])["derived"][0]["blocks"] == 11).then_some(()));
    let secret = Secret::new(3);
    assert!(!secret.is_in(server.log().as_bytes()));

    let mut client = server.client();
    let keys = json!([secret.hex, SPEND, 0, []]);
    let subscription = client.call("blockchain.silentpayments.subscribe", keys.clone()).unwrap();
    assert!(subscription["address"].as_str().unwrap().starts_with("sprt1"), "{subscription}");
    until_scanned(&mut client);
    // Requests that are refused, and messages that cannot be read.
    for params in [
        json!([secret.hex, "02", 0, []]),
        json!([secret.hex, SPEND, -1, []]),
        json!([secret.hex, SPEND, 0, [0]]),
        json!([secret.hex, SPEND, "9-1", []]),
        json!([format!("{}zz", secret.hex), SPEND, 0, []]),
    ] {
        let error = client.call("blockchain.silentpayments.subscribe", params).unwrap_err();
        assert!(!secret.is_in(error.to_string().as_bytes()), "{error}");
    }
    assert!(!secret.memory_of(server.id()).is_empty(), "the search finds what is there");

    let pages = ["/metrics", "/health", "/", "/connections"].map(|path| server.get(path).body);
    let asked = ["status", "connections"].map(|word| server.ctl(&[word]).1);
    for said in pages.iter().chain(&asked) {
        assert!(!secret.is_in(said.as_bytes()), "{said}");
    }
    assert_eq!(secret.files_in(server.dir()), Vec::<String>::new());

    let left = client.call("blockchain.silentpayments.unsubscribe", json!([secret.hex, SPEND])).unwrap();
    assert_eq!(left, subscription["address"]);
    drop(client);
    server.until("forgets the key", || secret.memory_of(server.id()).is_empty().then_some(()));
    assert_eq!(secret.files_in(server.dir()), Vec::<String>::new());
}

#[test]
fn a_scan_key_that_the_explorer_takes_is_in_no_file_log_or_page() {
    let node = crate::node();
    let port = free_port().unwrap();
    let http = format!("127.0.0.1:{port}");
    let settings = [("BIRDHOUSE_SILENT_PAYMENTS", "scan"), ("BIRDHOUSE_HTTP_ADDR", &*http), ("BIRDHOUSE_LOG", "trace")];
    let server = Birdhouse::start_with(&node, &settings);
    server.until("covers the chain", || (server.ctl_json(&["status"])["derived"][0]["blocks"] == 11).then_some(()));
    let secret = Secret::new(4);
    for (spend, status) in [(SPEND, "200"), ("02", "400"), (&SPEND.replace("0279", "0579"), "400")] {
        let form = format!("scan={}&spend={spend}&start=0", secret.hex);
        let mut socket = TcpStream::connect(&http).unwrap();
        let head = format!("POST /silent-payments HTTP/1.1\r\nhost: {http}\r\nconnection: close\r\n");
        socket.write_all(format!("{head}content-length: {}\r\n\r\n{form}", form.len()).as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(!secret.is_in(answer.as_bytes()), "{answer}");
    }
    let pages = ["/metrics", "/health", "/", "/connections"].map(|path| server.get(path).body);
    let asked = ["status", "connections"].map(|word| server.ctl(&[word]).1);
    for said in pages.iter().chain(&asked).chain([&server.log()]) {
        assert!(!secret.is_in(said.as_bytes()), "{said}");
    }
    assert_eq!(secret.files_in(server.dir()), Vec::<String>::new());
}

/// Waits for the end of the history.
fn until_scanned(client: &mut Client) {
    loop {
        let notification = client.notification(PATIENCE).unwrap().expect("a history ends");
        if notification.params["progress"] == 1.0 {
            return;
        }
    }
}
