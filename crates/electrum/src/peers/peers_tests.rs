//! Announcements, and the servers that a probe refuses.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::net::Ipv4Addr;

use bitcoin::constants::genesis_block;
use bitcoin::{Network, hashes::Hash as _};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

use super::known::tests::{STRANGER, host, peer};
use super::*;
use crate::settings::{Discovery, Host, PeerScope};

fn genesis() -> BlockHash {
    genesis_block(Network::Regtest).block_hash()
}

fn features(hosts: &str, genesis_hash: BlockHash) -> String {
    format!(r#"{{"hosts":{hosts},"genesis_hash":"{genesis_hash}","protocol_max":"1.4.2","more":1}}"#)
}

#[test]
fn announced_features_are_those_of_our_chain_with_names_that_can_be_looked_at() {
    let hosts = |json: &str| Features::parse(json, genesis()).map(|features| features.hosts().collect::<Vec<_>>());
    let all = r#"{"A.example":{"tcp_port":50001},"b.onion":{"tcp_port":1},"a/b":{"tcp_port":1},"":{"tcp_port":1},
        "portless.example":{"ws_port":1,"tcp_port":null}}"#;
    assert_eq!(hosts(&features(all, genesis())).unwrap(), [host("a.example")]);
    assert!(hosts(&features("{}", BlockHash::all_zeros())).is_err(), "another chain");
    assert!(hosts(&features(r#"{"a.example":{"tcp_port":70000}}"#, genesis())).is_err(), "no port");
    assert!(hosts("[]").is_err());
}

#[test]
fn nothing_is_noted_when_discovery_is_off_nor_what_is_our_own() {
    let settings = |discovery| Settings { hosts: vec![host("own.example")], discovery, ..Settings::default() };
    let on = Some(Discovery { seeds: Vec::new(), scope: PeerScope::Internet });
    let announce = |discovery, name: &str| {
        let hosts = format!(r#"{{"{name}":{{"tcp_port":50001}}}}"#);
        let peers = Peers::new(&settings(discovery), genesis());
        peers.announce(&features(&hosts, genesis()), Ipv4Addr::new(192, 0, 2, 1).into())
    };
    assert!(announce(on.clone(), "other.example"));
    assert!(!announce(on, "Own.example"));
    assert!(!announce(None, "other.example"));
}

/// Looks at a server on this loopback address that answers like this, line by line.
async fn look(
    lines: &'static [&str],
    features: String,
    scope: PeerScope,
    introduced_by: Introducer,
) -> Result<Peer, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut socket = BufReader::new(socket);
        for line in lines {
            socket.read_line(&mut String::new()).await.unwrap();
            let line = line.replace("FEATURES", &features);
            socket.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }
    });
    let prober = Prober::new(scope, &Settings::default(), genesis());
    let host = Host { tcp_port: Some(port), ..host("127.0.0.1") };
    prober.probe(&host, introduced_by).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_server_must_be_where_its_name_leads_and_where_it_may_be() {
    let look = async |scope, introduced_by| look(&[], String::new(), scope, introduced_by).await.unwrap_err();
    assert_eq!(look(PeerScope::Everywhere, STRANGER).await, "its name leads elsewhere");
    assert_eq!(look(PeerScope::Internet, Introducer::Operator).await, "its name leads elsewhere");
}

#[tokio::test]
async fn a_server_must_serve_our_chain_and_know_its_name() {
    const GOOD: &[&str] = &[
        r#"{"id":0,"result":["Other 1.0","1.4.2"]}"#,
        "{\"method\":\"server.ping\",\"params\":[]}\n{\"id\":0,\"result\":FEATURES}",
    ];
    let look = async |lines, hosts: &str, genesis_hash| {
        look(lines, features(hosts, genesis_hash), PeerScope::Everywhere, Introducer::Operator).await
    };
    let named = r#"{"127.0.0.1":{"tcp_port":7,"ssl_port":8}}"#;
    let found = look(GOOD, named, genesis()).await.unwrap();
    let host = Host { tcp_port: Some(7), ssl_port: Some(8), ..host("127.0.0.1") };
    assert_eq!(found, Peer { host, protocol_max: "1.4.2".into(), ..peer("", "127.0.0.1") });
    let error = async |lines, hosts, genesis_hash| look(lines, hosts, genesis_hash).await.unwrap_err();
    assert_eq!(error(GOOD, r#"{"a.example":{"tcp_port":7}}"#, genesis()).await, "it does not know its name");
    assert_eq!(error(GOOD, named, BlockHash::all_zeros()).await, "it serves another chain");
    let refusal: &[&str] = &[r#"{"id":0,"error":{"code":1,"message":"no"}}"#];
    assert_eq!(error(refusal, named, genesis()).await, "it refuses a question");
    assert!(error(&["nonsense"], named, genesis()).await.contains("expected"));
    assert!(look(&[], named, genesis()).await.is_err(), "it hangs up");
}
