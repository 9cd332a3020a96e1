//! Faults of a first start: the first message names the cause and the way out, and nothing else.

use std::path::Path;
use std::process::{Command, Output};

use birdhouse_testkit::Bitcoind;
use birdhouse_testkit::bitcoind::free_port;

use crate::node;

/// Runs `birdhouse run` for this node with more arguments until it fails; returns what it says.
fn refused(node: &Bitcoind, data: &Path, more: &[&str]) -> String {
    let Output { status, stderr, .. } = Command::new(env!("CARGO_BIN_EXE_birdhouse"))
        .args(["run", "--electrum-addr=127.0.0.1:0"])
        .arg(format!("--node-dir={}", node.datadir().display()))
        .arg(format!("--data-dir={}", data.display()))
        .args(more)
        .output()
        .unwrap();
    assert!(!status.success());
    String::from_utf8(stderr).unwrap()
}

#[test]
fn a_wrong_password_is_the_only_message() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    let addr = format!("--rpc-addr=127.0.0.1:{}", node.rpc_port());
    let file = data.path().join("password");
    std::fs::write(&file, "wrong").unwrap();
    let password = format!("--rpc-password-file={}", file.display());
    let said = refused(&node, data.path(), &["--network=regtest", &addr, "--rpc-user=alice", &password]);
    assert!(said.contains("birdhouse: failed to log in to the node"), "{said}");
    assert!(said.contains("\"alice\"") && !said.contains("blocks") && !said.contains("wrong\n"), "{said}");
    assert!(said.contains("birdhouse doctor"), "{said}");
}

#[test]
fn a_wrong_network_names_the_one_that_is_there() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    let addr = format!("--rpc-addr=127.0.0.1:{}", node.rpc_port());
    let said = refused(&node, data.path(), &["--network=signet", &addr]);
    assert!(said.contains("--network regtest"), "{said}");
    assert!(!said.contains("REST:") && !said.contains("RPC:"), "{said}");
    // Nothing listens at the other network's usual port.
    let closed = format!("--rpc-addr=127.0.0.1:{}", free_port().unwrap());
    let said = refused(&node, data.path(), &["--network=bitcoin", &closed]);
    assert!(said.contains("found regtest; use --network regtest"), "{said}");
}

#[test]
fn another_server_at_the_port_is_named() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers = std::thread::spawn(move || {
        for socket in listener.incoming().take(4) {
            use std::io::{Read as _, Write as _};
            let mut socket = socket.unwrap();
            let mut request = [0; 1024];
            if socket.read(&mut request).unwrap_or(0) == 0 {
                return;
            }
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
        }
    });
    let said = refused(&node, data.path(), &["--network=regtest", &format!("--rpc-addr=127.0.0.1:{port}")]);
    assert!(said.contains("is this the RPC server of Bitcoin Core?"), "{said}");
    let _ = std::net::TcpStream::connect(("127.0.0.1", port));
    drop(answers);
}

#[test]
fn a_second_instance_is_refused_once() {
    let node = node();
    let server = crate::process::Birdhouse::start(&node);
    let addr = format!("--rpc-addr=127.0.0.1:{}", node.rpc_port());
    let said = refused(&node, server.dir(), &["--network=regtest", &addr]);
    assert_eq!(said.matches("another birdhouse uses this folder").count(), 1, "{said}");
}

#[test]
fn readiness_is_logged_with_the_height() {
    let node = node();
    let server = crate::process::Birdhouse::start(&node);
    server.until("is ready", || server.log().contains("ready height=10").then_some(()));
}
