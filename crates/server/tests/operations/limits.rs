//! Limits from the configuration file, and those that several servers share.

use std::io::Write as _;
use std::net::TcpStream;

use birdhouse_testkit::client::Client;
use serde_json::json;

use crate::node;
use crate::process::Birdhouse;

#[test]
fn a_limit_of_the_configuration_file_applies_to_clients() {
    let node = node();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[limits.private]\nbatch-items = 2\n").unwrap();
    let server = Birdhouse::start_with(&node, &[("BIRDHOUSE_CONFIG", file.path().to_str().unwrap())]);
    let mut client = server.client();
    let ping = r#"{"id":1,"method":"server.ping"}"#;
    let ask = |client: &mut Client, pings: usize| {
        client.send_line(format!("[{}]", vec![ping; pings].join(",")).as_bytes()).unwrap();
        client.answer().unwrap()
    };
    assert_eq!(ask(&mut client, 2).as_array().unwrap().len(), 2);
    assert_eq!(ask(&mut client, 3)["error"]["code"], -32600);
}

#[test]
fn wallets_and_rest_take_turns_to_call_the_node() {
    let node = node();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[limits.server]\nnode-calls = 1\n").unwrap();
    let envs = [("BIRDHOUSE_CONFIG", file.path().to_str().unwrap()), ("BIRDHOUSE_REST_ADDR", "127.0.0.1:0")];
    let server = Birdhouse::start_with(&node, &envs);
    let rest = server.until("serves REST", || server.port("serving the REST API"));
    let waiting = || {
        let page = server.get("/metrics").body;
        page.contains("birdhouse_waiting_clients{resource=\"node\"} 1\n").then_some(())
    };
    let mut wallet = server.client();
    node.pause().unwrap();
    let request = json!({ "id": 1, "method": "blockchain.transaction.broadcast", "params": ["00"] });
    wallet.send_line(request.to_string().as_bytes()).unwrap();
    let mut socket = TcpStream::connect(("127.0.0.1", rest)).unwrap();
    socket.write_all(b"POST /tx HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n00").unwrap();
    server.until("one of them waits", waiting);
    node.resume().unwrap();
    assert_eq!(wallet.answer().unwrap()["error"]["code"], 1);
}
