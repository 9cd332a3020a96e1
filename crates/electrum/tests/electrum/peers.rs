//! Two servers that list each other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_electrum::{Certificate, Discovery, Host, Limits, Listener, PeerScope, Proxy, Settings, Transport};
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::client::Client;
use serde_json::{Value, json};

use crate::world::{Server, node_with, tcp};

fn announced_as(host: Host, seeds: Vec<Host>) -> Settings {
    let discovery = Some(Discovery { seeds, scope: PeerScope::Everywhere });
    Settings { hosts: vec![host], discovery, ..Settings::default() }
}

/// The list of a server, once it is not empty.
fn peers(client: &mut Client) -> Value {
    let start = Instant::now();
    loop {
        let peers = client.call("server.peers.subscribe", json!([])).unwrap();
        if peers != json!([]) {
            return peers;
        }
        assert!(start.elapsed() < Duration::from_mins(1), "nobody is found");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_announces_itself_to_one_that_it_is_told_of_and_each_lists_the_other() {
    let mut chain = ChainBuilder::new(31);
    chain.mine(1);
    let node = node_with(&chain);
    let (early_port, late_port) = (free_port().unwrap(), free_port().unwrap());
    let early_host = Host { name: "127.0.0.1".into(), tcp_port: Some(early_port), ..Host::default() };
    let late_host = Host { name: "localhost".into(), ssl_port: Some(late_port), ..Host::default() };

    let early = announced_as(early_host.clone(), Vec::new());
    let early = Server::at(&node, early, vec![(early_port, tcp(Limits::default()))]);
    let mut early_client = early.client();
    assert_eq!(early_client.call("server.peers.subscribe", json!([])).unwrap(), json!([]));
    // The server answers for itself, but announces the name of another: the connection comes from 127.0.0.1.
    let mut liar = early_client.call("server.features", json!([])).unwrap();
    liar["hosts"] = json!({ "127.0.0.2": { "tcp_port": early_port } });
    assert_eq!(early_client.call("server.add_peer", json!([liar])).unwrap(), json!(true), "it will be looked at");

    let folder = tempfile::tempdir().unwrap();
    let certificate = Arc::new(Certificate::self_signed(folder.path(), &[]).unwrap());
    let (transport, limits) = (Transport::Tls(certificate), Limits::default());
    let by_tls = Listener { name: "tls".into(), transport, proxy: Proxy::Off, limits };
    let late = announced_as(late_host, vec![early_host]);
    let late = Server::at(&node, late, vec![(late_port, by_tls), (0, tcp(Limits::default()))]);
    let mut late_client = Client::greet(late.ports[1]).unwrap();

    let shown = |name: &str, port: String| json!([["127.0.0.1", name, ["v1.7", port]]]);
    assert_eq!(peers(&mut late_client), shown("127.0.0.1", format!("t{early_port}")));
    assert_eq!(peers(&mut early_client), shown("localhost", format!("s{late_port}")));
}

#[test]
fn a_server_that_is_told_of_none_takes_no_announcements() {
    let node = node_with(&ChainBuilder::new(32));
    let server = Server::start(&node, Settings::default());
    let mut client = server.client();
    let features = client.call("server.features", json!([])).unwrap();
    assert_eq!(client.call("server.add_peer", json!([features])).unwrap(), json!(false));
    assert_eq!(client.call("server.peers.subscribe", json!([])).unwrap(), json!([]));
}
