//! Scan keys of silent payments stay in the memory of the server, and only while they are used.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::client::Client;
use serde_json::json;

use crate::process::{Birdhouse, PATIENCE};
use crate::secret::{Secret, assert_hidden};

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
    server.until_derived(11);
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

    assert_hidden(std::slice::from_ref(&secret), &server);

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
    server.until_derived(11);
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
    assert_hidden(std::slice::from_ref(&secret), &server);
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
