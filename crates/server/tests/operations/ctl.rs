//! `birdhouse ctl` with a running server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::node;
use crate::process::Birdhouse;
use crate::relay_client::{self, ask};

#[test]
fn status_and_connections_show_state_and_nothing_that_clients_ask() {
    let node = node();
    let server = Birdhouse::start(&node);
    let status = server.ctl_json(&["status"]);
    assert_eq!(status["network"], "regtest");
    assert_eq!(status["tip_height"], 10);
    assert_eq!(status["tip_hash"], node.tip().unwrap().to_string());
    assert!(status["memory_bytes"].as_u64().unwrap() > 1_000_000);

    let mut client = server.client();
    let script = "ab".repeat(32);
    for method in ["subscribe", "get_history", "get_balance"] {
        client.call(&format!("blockchain.scripthash.{method}"), json!([script])).unwrap();
    }
    let connections = server.ctl_json(&["connections"]);
    let connection = connections.as_array().unwrap().last().unwrap();
    assert_eq!(connection["protocol"], "Electrum");
    assert_eq!(connection["listener"], "tcp");
    assert_eq!(connection["client"], "pool");
    assert_eq!(connection["requests"], 4);
    assert_eq!(connection["subscriptions"], 1);
    assert!(connection["bytes_in"].as_u64().unwrap() > 3 * 64);
    assert!(connection["bytes_out"].as_u64().unwrap() > 0);
    let (_, table) = server.ctl(&["connections"]);
    assert!(table.starts_with("id"), "{table}");
    for said in [connections.to_string(), table, server.log()] {
        assert!(!said.contains(&script), "{said}");
    }
    assert_eq!(server.ctl_json(&["status"])["subscriptions"], 1);
}

#[test]
fn a_connection_can_be_closed_and_its_subscriptions_are_freed() {
    let node = node();
    let server = Birdhouse::start(&node);
    let mut client = server.client();
    client.call("blockchain.scripthash.subscribe", json!(["ab".repeat(32)])).unwrap();
    let mut other = server.client();
    let connections = server.ctl_json(&["connections"]);
    let ids: Vec<u64> =
        connections.as_array().unwrap().iter().map(|connection| connection["id"].as_u64().unwrap()).collect();
    let id = ids[ids.len() - 2].to_string();
    assert_eq!(server.ctl_json(&["disconnect", &id])["disconnected"].to_string(), id);
    assert!(client.closed_within(Duration::from_secs(30)));
    assert_eq!(other.call("server.ping", json!([])).unwrap(), Value::Null);
    server.until("frees the subscriptions", || (server.ctl_json(&["status"])["subscriptions"] == 0).then_some(()));
    let (done, said) = server.ctl(&["disconnect", &id]);
    assert!(!done && said.contains("no connection has the id"), "{said}");
}

#[test]
fn connections_of_all_protocols_have_numbers_of_their_own() {
    let node = node();
    let anywhere = "127.0.0.1:0";
    let server = Birdhouse::start_with(&node, &[("BIRDHOUSE_RELAY_ADDR", anywhere), ("BIRDHOUSE_REST_ADDR", anywhere)]);
    let mut wallet = server.client();
    let mut nostr = relay_client::connect(&server);
    assert_eq!(ask(&mut nostr, &json!(["REQ", "a", {}]))[0], "EOSE");
    let mut rest_client = TcpStream::connect(("127.0.0.1", server.port("serving the REST API").unwrap())).unwrap();
    let open = || server.ctl_json(&["connections"]).as_array().unwrap().clone();
    let id_of = |protocol: &str| {
        let open = open();
        open.iter().rev().find(|connection| connection["protocol"] == protocol).map(|found| found["id"].clone())
    };
    server.until("lists the REST client", || id_of("REST"));
    let ids: Vec<u64> = open().iter().map(|connection| connection["id"].as_u64().unwrap()).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    for protocol in ["Nostr", "REST"] {
        server.ctl_json(&["disconnect", &id_of(protocol).unwrap().to_string()]);
        server.until("ends the connection", || id_of(protocol).is_none().then_some(()));
    }
    assert_eq!(rest_client.read(&mut [0]).unwrap(), 0);
    assert_eq!(wallet.call("server.ping", json!([])).unwrap(), Value::Null);
}

#[test]
fn the_log_level_changes_while_it_runs() {
    let node = node();
    let server = Birdhouse::start(&node);
    assert!(!server.log().contains("connection ends"));
    server.ctl_json(&["log-level", "info,birdhouse_electrum=debug"]);
    drop(server.client());
    server.until("logs in detail", || server.log().contains("connection ends").then_some(()));
    let (done, said) = server.ctl(&["log-level", "=nonsense="]);
    assert!(!done && said.contains("invalid log level"), "{said}");
    let (done, said) = server.ctl(&["log-level", "loud"]);
    assert!(!done && said.contains("invalid log level"), "{said}");
}

#[test]
fn stop_shuts_it_down_cleanly() {
    let node = node();
    let mut server = Birdhouse::start(&node);
    assert_eq!(server.ctl_json(&["stop"]), json!({ "stopping": true }));
    let (status, _) = server.wait();
    assert!(status.success(), "{}", server.log());
    let (done, said) = server.ctl(&["status"]);
    assert!(!done && said.contains("is the server running"), "{said}");
}

#[test]
fn the_socket_is_for_its_owner_alone_and_bounded() {
    let node = node();
    let server = Birdhouse::start(&node);
    let mode = std::fs::metadata(server.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for line in ["nonsense".to_owned(), "{}".into(), "x".repeat(1_000_000), json!({ "command": "fly" }).to_string()] {
        let mut stream = UnixStream::connect(server.socket()).unwrap();
        // The server may stop reading a line that is too long.
        let _ = stream.write_all(format!("{line}\n").as_bytes());
        let mut answer = String::new();
        let read = BufReader::new(stream).read_line(&mut answer);
        assert!(read.is_err() || answer.starts_with(r#"{"error":"failed to parse the command"#), "{answer}");
    }
    assert_eq!(server.ctl_json(&["status"])["network"], "regtest");
}
