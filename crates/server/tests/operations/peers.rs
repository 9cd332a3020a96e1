//! Discovery of a peer that the settings name.

use birdhouse_testkit::bitcoind::free_port;
use serde_json::json;

use crate::node;
use crate::process::Birdhouse;

#[test]
fn a_server_lists_the_peer_of_its_settings() {
    let node = node();
    let port = free_port().unwrap();
    let (addr, url) = (format!("127.0.0.1:{port}"), format!("ssl://127.0.0.1:{port}"));
    let _other =
        Birdhouse::start_with(&node, &[("BIRDHOUSE_ELECTRUM_TLS_ADDR", &addr), ("BIRDHOUSE_PUBLIC_HOST", &url)]);
    let server = Birdhouse::start_with(&node, &[("BIRDHOUSE_PEER", &url)]);
    let mut client = server.client();
    let expected = json!([["127.0.0.1", "127.0.0.1", ["v1.7", format!("s{port}")]]]);
    server.until("lists the peer", || {
        (client.call("server.peers.subscribe", json!([])).unwrap() == expected).then_some(())
    });
}
