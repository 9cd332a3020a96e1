//! Faults of a first start: the first message names the cause and the way out, and nothing else.

use std::path::Path;
use std::process::{Command, Output};

use birdhouse_chain::ScriptHash;
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};

use crate::modes::{bound_by_modes, set_mode};
use crate::process::Birdhouse;
use crate::{chain_and_node, node};

const BIRDHOUSE: &str = env!("CARGO_BIN_EXE_birdhouse");

/// Runs `birdhouse run` for this node with more arguments until it fails; returns what it says.
fn refused(node: &Bitcoind, data: &Path, more: &[&str]) -> String {
    refused_by(&mut Command::new(BIRDHOUSE), node, data, more)
}

/// Runs a command that starts `birdhouse run` as [`refused`] does.
fn refused_by(birdhouse: &mut Command, node: &Bitcoind, data: &Path, more: &[&str]) -> String {
    let Output { status, stderr, .. } = birdhouse
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
fn who_wants_a_relay_alone_and_has_no_node_is_told_the_setting() {
    let data = tempfile::tempdir().unwrap();
    let run = |bitcoin: &str| {
        let mut command = Command::new(BIRDHOUSE);
        command.args(["run", "--relay-addr=127.0.0.1:0", "--network=regtest", bitcoin]);
        command.args(["--node-dir", "--data-dir"].map(|flag| format!("{flag}={}", data.path().display())));
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let said = run("--bitcoin=on");
    assert!(said.contains("To run the relay alone, without a node, set bitcoin = \"off\""), "{said}");
}

#[test]
fn a_node_without_any_block_file_is_waited_for() {
    let (chain, mut node) = chain_and_node();
    let blocks = node.blocks_dir();
    node.stop().unwrap();
    for of_node in std::fs::read_dir(blocks.parent().unwrap()).unwrap() {
        let path = of_node.unwrap().path();
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
    }
    let server = Birdhouse::start_early(&node);
    let health = server.until("waits", || {
        server.port("serving metrics and health")?;
        Some(server.get("/health").body).filter(|health| health.contains("node not ready"))
    });
    let folder = format!("{} has no block files", blocks.display());
    assert!(health.contains(&folder) && health.contains("node-dir") && health.contains("blocks-dir"), "{health}");

    // It is created now.
    node.restart().unwrap();
    chain.submit_to(&node).unwrap();
    server.until("serves its chain", || server.log().contains("ready height=10").then_some(()));
    assert!(server.log().contains("block files in"), "{}", server.log());
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
    let server = Birdhouse::start(&node);
    let addr = format!("--rpc-addr=127.0.0.1:{}", node.rpc_port());
    let said = refused(&node, server.dir(), &["--network=regtest", &addr]);
    assert_eq!(said.matches("another birdhouse uses this folder").count(), 1, "{said}");
}

#[test]
fn readiness_is_logged_with_the_height() {
    let node = node();
    let server = Birdhouse::start(&node);
    server.until("is ready", || server.log().contains("ready height=10").then_some(()));
}

/// The address of a node, as flags.
fn regtest(node: &Bitcoind) -> [String; 2] {
    ["--network=regtest".into(), format!("--rpc-addr=127.0.0.1:{}", node.rpc_port())]
}

#[test]
fn a_cookie_that_cannot_be_read_names_the_settings_that_open_it() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    set_mode(&node.datadir().join("regtest/.cookie"), 0);
    let Some(mut birdhouse) = bound_by_modes(BIRDHOUSE) else { return };
    let [network, addr] = regtest(&node);
    let said = refused_by(&mut birdhouse, &node, data.path(), &[&network, &addr]);
    assert!(said.contains("permission denied") && said.contains("rpccookieperms=group"), "{said}");
    assert!(said.contains("--rpc-password-file") && said.contains("birdhouse doctor"), "{said}");
}

#[test]
fn a_node_that_prunes_by_itself_is_refused_with_the_way_out() {
    let node = Bitcoind::start(Options::default().arg("-prune=550")).unwrap();
    let data = tempfile::tempdir().unwrap();
    let [network, addr] = regtest(&node);
    let said = refused(&node, data.path(), &[&network, &addr]);
    assert!(said.contains("prunes automatically") && said.contains("prune=1"), "{said}");
}

#[test]
fn a_taken_port_is_named_with_the_command_that_shows_who_has_it() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap();
    let [network, addr] = regtest(&node);
    for setting in ["ops-addr", "relay-addr", "rest-addr", "http-addr"] {
        let said = refused(&node, data.path(), &[&network, &addr, &format!("--{setting}={taken}")]);
        let advice = format!("ss -tlnp 'sport = :{}'", taken.port());
        assert!(said.contains(&format!("to {taken}")) && said.contains(&advice), "{setting}: {said}");
    }
}

#[test]
fn a_wiped_node_is_reported_while_the_known_chain_is_served() {
    let node = node();
    let mut server = Birdhouse::start(&node);
    server.ctl_json(&["stop"]);
    assert!(server.wait().0.success());
    let mut chain = ChainBuilder::new(77);
    chain.mine(4);
    let wiped = Bitcoind::start(Options::default()).unwrap();
    chain.submit_to(&wiped).unwrap();
    let server = Birdhouse::start_early_in(server.into_dir(), &wiped);
    server.until("reports another chain", || server.log().contains("another, shorter chain").then_some(()));
    let tip = server.client().call("blockchain.headers.subscribe", serde_json::json!([])).unwrap();
    assert_eq!(tip["height"], 10);
    assert!(server.get("/health").body.contains("node on another chain"));
}

/// Inverts every row of an index.
fn damage(index: &Path) {
    for segment in std::fs::read_dir(index.join("segments")).unwrap().map(|entry| entry.unwrap().path()) {
        let inverted: Vec<u8> = std::fs::read(&segment).unwrap().into_iter().map(|byte| !byte).collect();
        std::fs::write(&segment, inverted).unwrap();
    }
}

#[test]
fn a_damaged_index_names_the_one_folder_that_can_go() {
    let node = node();
    let mut server = Birdhouse::start(&node);
    server.ctl_json(&["stop"]);
    assert!(server.wait().0.success());
    let dir = server.into_dir();
    let index = dir.path().join("regtest");
    damage(&index);
    let [network, addr] = regtest(&node);
    let said = refused(&node, dir.path(), &[&network, &addr]);
    assert!(said.contains("is damaged") && said.contains(&format!("remove the folder {}", index.display())), "{said}");
    assert!(said.contains("the relay"), "{said}");
}

#[test]
fn damage_that_a_wallet_meets_first_is_reported_by_health_log_status_and_doctor() {
    let (chain, node) = chain_and_node();
    // Nothing stays in memory, so the wallet reads the disk.
    let server = Birdhouse::start_with(&node, &[("BIRDHOUSE_CACHE_MIB", "0")]);
    let scripts = chain.blocks().iter().map(|block| ScriptHash::of(block.txdata[0].output[0].script_pubkey.as_bytes()));
    let scripts: Vec<String> = scripts.map(|script| script.to_string()).collect();
    let mut wallet = server.client();
    let mut history = |script: &String| wallet.call("blockchain.scripthash.get_history", serde_json::json!([script]));
    assert!(scripts.iter().all(|script| history(script).is_ok()));
    assert_eq!(server.get("/health").status, 200);

    let index = server.dir().join("regtest");
    damage(&index);
    let failures = scripts.iter().filter_map(|script| history(script).err());
    let failures: Vec<String> = failures.map(|failure| failure.to_string()).collect();
    assert!(failures.iter().any(|failure| failure.contains("-32603")), "{failures:?}");
    let advice = format!("remove the folder {}", index.display());
    let health = server.get("/health");
    assert_eq!(health.status, 503);
    assert!(health.body.contains("\"status\":\"index damaged\"") && health.body.contains(&advice), "{}", health.body);
    let errors =
        server.log().lines().filter(|line| line.contains("a read met damage") && line.contains(&advice)).count();
    assert_eq!(errors, 1, "{}", server.log());
    let status = server.ctl(&["status"]).1;
    assert!(status.contains(&advice), "{status}");
    let (is_fine, found) = server.run("doctor", &[]);
    assert!(!is_fine && found.contains(&advice), "{found}");
}
