//! `birdhouse doctor` finds planted faults, with a real node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use serde_json::Value;

use crate::modes::{bound_by_modes, set_mode};
use crate::node;
use crate::process::Birdhouse;

const BIRDHOUSE: &str = env!("CARGO_BIN_EXE_birdhouse");
/// Mounts a file system of 16 MB on `$1`, then runs the rest.
const ON_SMALL_DISK: &str = r#"mount -t tmpfs -o size=16m birdhouse-test "$1" && shift && exec "$@""#;

/// A login `birdhouse` with the password `secret`, as Core's `rpcauth.py` makes it.
const LOGIN: &str = "-rpcauth=birdhouse:a1b2$e836f63afbc985f98fae600cff01212e864cc32de2a98cad7ebfb1d650778176";
/// The manual's page with the calls that a node must permit.
const SERVICE: &str = include_str!("../../../../docs/service.md");

/// The settings of a server for this node.
fn settings(node: &Bitcoind, data: &Path) -> Vec<String> {
    vec![
        "--network=regtest".into(),
        format!("--node-dir={}", node.datadir().display()),
        format!("--rpc-addr=127.0.0.1:{}", node.rpc_port()),
        format!("--data-dir={}", data.display()),
        "--electrum-addr=127.0.0.1:0".into(),
    ]
}

/// Runs the doctor; returns its findings that are not ok, as `check: text -> advice`, and whether the exit code is 0.
fn examine(settings: &[String], more: &[&str]) -> (Vec<String>, bool) {
    let (found, is_fine) = examine_by(&mut Command::new(BIRDHOUSE), settings, more);
    // What this machine has to spare is not under test.
    let is_ours = |found: &String| !["disk", "memory", "open files"].iter().any(|check| found.starts_with(check));
    (found.into_iter().filter(is_ours).collect(), is_fine)
}

/// Runs the doctor by a command that starts it; returns every finding that is not ok.
fn examine_by(birdhouse: &mut Command, settings: &[String], more: &[&str]) -> (Vec<String>, bool) {
    let output = birdhouse.args(["doctor", "--json"]).args(settings).args(more).output().unwrap();
    let lines: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let bad = lines.iter().filter(|line| line["verdict"] != "ok");
    let text = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let bad = bad.map(|line| format!("{}: {} -> {}", text(line, "check"), text(line, "found"), text(line, "mend")));
    (bad.collect(), output.status.success())
}

/// Asserts that one finding, of this check, contains all of `expected`.
fn assert_found((found, is_fine): (Vec<String>, bool), check: &str, expected: &[&str]) {
    assert!(found.len() == 1 && found[0].starts_with(&format!("{check}: ")), "{found:?}");
    for part in expected {
        assert!(found[0].contains(part), "{part}: {found:?}");
    }
    assert!(!is_fine, "{found:?}");
}

/// Builds the index of a node; returns its folder.
fn build(settings: &[String], data: &Path) -> PathBuf {
    let settings = settings.iter().filter(|setting| !setting.starts_with("--electrum"));
    let output = Command::new(env!("CARGO_BIN_EXE_birdhouse")).arg("index").args(settings).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    data.join("regtest")
}

#[test]
fn a_server_that_can_start_or_runs_has_no_finding_and_nothing_is_created() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    let settings = settings(&node, data.path());
    assert_eq!(examine(&settings, &["--relay-addr=127.0.0.1:0"]), (Vec::new(), true));
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0);
    build(&settings, data.path());
    assert_eq!(examine(&settings, &["--checksums"]), (Vec::new(), true));
    let server = Birdhouse::start(&node);
    let running = settings.iter().map(|setting| match setting.strip_prefix("--data-dir=") {
        Some(_) => format!("--data-dir={}", server.dir().display()),
        None => setting.clone(),
    });
    let running: Vec<String> = running.collect();
    let port = server.port("serving the Electrum protocol").unwrap();
    assert_eq!(examine(&running, &[&format!("--ops-addr=127.0.0.1:{port}")]), (Vec::new(), true));
}

#[test]
fn a_wrong_network_login_or_address_is_found_as_the_only_cause() {
    let (mut node, data) = (node(), tempfile::tempdir().unwrap());
    let settings = settings(&node, data.path());
    let with = |name: &str, value: &str| -> Vec<String> {
        let others = settings.iter().filter(|setting| !setting.starts_with(name)).cloned();
        others.chain([format!("{name}={value}")]).collect()
    };
    assert_found(examine(&with("--network", "signet"), &[]), "node", &["--network regtest"]);
    let file = data.path().join("password");
    fs::write(&file, "wrong").unwrap();
    let login = ["--rpc-user=alice", &format!("--rpc-password-file={}", file.display())];
    assert_found(examine(&settings, &login), "node", &["the login is refused"]);
    node.stop().unwrap();
    let (found, _) = examine(&with("--network", "signet"), &[]);
    assert!(found.iter().any(|found| found.contains("found regtest; use --network regtest")), "{found:?}");
    let (found, is_fine) = examine(&settings, &[]);
    assert!(!is_fine && found[0].starts_with("node: ") && found[0].contains("bitcoind -daemon"), "{found:?}");
}

#[test]
fn a_mistake_in_a_stream_is_found_before_the_server_starts() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("birdhouse.toml");
    let settings = [
        "--bitcoin=off".to_owned(),
        "--relay-addr=127.0.0.1:0".to_owned(),
        format!("--data-dir={}", data.path().join("data").display()),
        format!("--config={}", file.display()),
    ];
    let stream = |urls: &str| fs::write(&file, format!("[[stream]]\nname = 'a'\nurls = '{urls}'\ndir = 'up'\n"));
    stream("wss://relay.example.org").unwrap();
    assert_eq!(examine(&settings, &[]), (Vec::new(), true));
    stream("https://relay.example.org").unwrap();
    assert_found(examine(&settings, &[]), "settings", &["the stream \"a\"", "url 1 is none of a relay"]);
}

#[test]
fn the_manuals_whitelist_suffices_and_a_pruned_node_needs_more_calls() {
    let permitted = SERVICE.lines().find(|line| line.starts_with("rpcwhitelist=birdhouse:")).unwrap();
    let start = |more: &str| {
        let login = Options::default().arg(LOGIN).arg(format!("-{permitted}{more}")).arg("-rpcwhitelistdefault=0");
        let node = Bitcoind::start(login.arg(if more.is_empty() { "-prune=0" } else { "-prune=1" })).unwrap();
        let mut chain = ChainBuilder::new(3);
        chain.mine(10);
        chain.submit_to(&node).unwrap();
        node
    };
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("password");
    fs::write(&file, "secret").unwrap();
    let login = ["--rpc-user=birdhouse", &format!("--rpc-password-file={}", file.display())];

    let node = start("");
    let settings_of = |node: &Bitcoind, folder: &str| settings(node, &data.path().join(folder));
    assert_eq!(examine(&settings_of(&node, "all"), &login), (Vec::new(), true));
    let password = file.display().to_string();
    let envs = [("BIRDHOUSE_RPC_USER", "birdhouse"), ("BIRDHOUSE_RPC_PASSWORD_FILE", password.as_str())];
    drop(Birdhouse::start_with(&node, &envs));

    let pruned = start(",gettxout");
    let missing = "may not call getblockfrompeer,getpeerinfo,pruneblockchain";
    assert_found(examine(&settings_of(&pruned, "pruned"), &login), "rpc rights", &[missing, "rpcwhitelist"]);
    let pruned = start(",getblockfrompeer,getpeerinfo,gettxout,pruneblockchain");
    assert_eq!(examine(&settings_of(&pruned, "pruned"), &login), (Vec::new(), true));
}

#[test]
fn a_taken_port_is_found() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = format!("--ops-addr={}", other.local_addr().unwrap());
    let settings = settings(&node, data.path());
    assert_found(examine(&settings, &[&addr]), "ports", &["is taken by another program", "ss -tlnp"]);
    let explorer = format!("--http-addr={}", other.local_addr().unwrap());
    assert_found(examine(&settings, &[&explorer]), "ports", &["is taken by another program"]);
}

#[test]
fn a_damaged_table_is_found_and_the_folder_that_can_go_is_named() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    let settings = settings(&node, data.path());
    let index = build(&settings, data.path());
    let segments = fs::read_dir(index.join("segments")).unwrap().map(|entry| entry.unwrap().path());
    let largest = segments.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&largest, bytes).unwrap();
    let folder = format!("remove the folder {} and nothing else", index.display());
    assert_found(examine(&settings, &[]), "index", &["damaged", &folder]);
}

#[test]
fn an_index_or_a_relay_that_is_good_is_never_to_be_removed() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    let settings = settings(&node, data.path());
    let index = build(&settings, data.path());
    let find = |check: &str, more: &[&str], remedy: &str| {
        let (found, is_fine) = examine(&settings, more);
        let of_check: Vec<_> = found.iter().filter(|found| found.starts_with(check)).collect();
        assert!(of_check.len() == 1 && of_check[0].contains(remedy) && !is_fine, "{remedy}: {found:?}");
        assert!(!["remove", "Lean", "Full"].iter().any(|word| found.concat().contains(word)), "{found:?}");
    };
    find("index: ", &["--profile=lean"], "set it back to profile = \"full\"");
    // Without a server: `birdhouse index` or `verify` may be at work.
    let lock = fs::File::options().write(true).open(index.join("lock")).unwrap();
    lock.lock().unwrap();
    find("index: ", &[], "another birdhouse uses this folder");
    drop(lock);
    let relay = data.path().join("relay");
    fs::create_dir_all(relay.join("segments")).unwrap();
    for (check, folder, more) in [("index: ", index, &[][..]), ("relay: ", relay, &["--relay-addr=127.0.0.1:0"])] {
        fs::write(folder.join("VERSION"), "9\n").unwrap();
        find(check, more, "install the newer version that wrote it");
        fs::remove_file(folder.join("VERSION")).unwrap();
        find(check, more, "restore a backup");
        fs::write(folder.join("VERSION"), "3\n").unwrap();
    }
}

#[test]
fn a_wiped_node_is_found() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    build(&settings(&node, data.path()), data.path());
    let mut chain = ChainBuilder::new(77);
    chain.mine(4);
    let wiped = Bitcoind::start(Options::default()).unwrap();
    chain.submit_to(&wiped).unwrap();
    assert_found(
        examine(&settings(&wiped, data.path()), &[]),
        "index",
        &["height 10", "at 4", "wiped", "and nothing else"],
    );
}

#[test]
fn a_node_that_prunes_by_itself_is_found() {
    let node = Bitcoind::start(Options::default().arg("-prune=550")).unwrap();
    let data = tempfile::tempdir().unwrap();
    assert_found(examine(&settings(&node, data.path()), &[]), "node", &["prunes automatically", "prune=1"]);
}

#[test]
fn a_data_folder_that_cannot_be_written_is_found() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    let locked = data.path().join("locked");
    fs::create_dir(&locked).unwrap();
    set_mode(&locked, 0o500);
    let Some(mut birdhouse) = bound_by_modes(BIRDHOUSE) else { return };
    let (found, is_fine) = examine_by(&mut birdhouse, &settings(&node, &locked), &[]);
    assert!(!is_fine && found.iter().any(|found| found.starts_with("data folder: ")), "{found:?}");
}

#[test]
fn files_of_the_node_that_cannot_be_read_are_found_with_the_settings_that_open_them() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    let settings = settings(&node, data.path());
    let find = |check: &str, expected: &[&str]| {
        let Some(mut birdhouse) = bound_by_modes(BIRDHOUSE) else { return };
        let (found, _) = examine_by(&mut birdhouse, &settings, &[]);
        let is_it = |found: &&String| {
            found.starts_with(&format!("{check}: ")) && expected.iter().all(|part| found.contains(part))
        };
        assert!(found.iter().any(|found| is_it(&found)), "{expected:?}: {found:?}");
    };
    set_mode(&node.blocks_dir().join("blk00000.dat"), 0);
    find("blocks", &["REST interface at", "several times the cost", "permission denied", "setfacl"]);
    set_mode(&node.datadir().join("regtest/.cookie"), 0);
    find("node", &["cookie", "permission denied", "rpccookieperms=group"]);
}

#[test]
fn a_full_disk_is_found() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    let mut birdhouse = Command::new("unshare");
    birdhouse.args(["-Urm", "sh", "-c", ON_SMALL_DISK, "sh"]).arg(data.path());
    if !birdhouse.arg("true").output().is_ok_and(|output| output.status.success()) {
        eprintln!("LEFT OUT: no file system can be mounted here");
        return;
    }
    let mut birdhouse = Command::new("unshare");
    birdhouse.args(["-Urm", "sh", "-c", ON_SMALL_DISK, "sh"]).arg(data.path()).arg(BIRDHOUSE);
    let (found, is_fine) = examine_by(&mut birdhouse, &settings(&node, data.path()), &[]);
    let disk = found.iter().find(|found| found.starts_with("disk: ")).unwrap_or_else(|| panic!("{found:?}"));
    assert!(!is_fine && disk.contains("16 MB are free") && disk.contains("--data-dir"), "{disk}");
}

#[test]
fn a_wrong_configuration_file_is_found() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    let file = data.path().join("birdhouse.toml");
    fs::write(&file, "netwrok = 'regtest'\n").unwrap();
    let config = format!("--config={}", file.display());
    let (found, is_fine) = examine(&settings(&node, data.path()), &[&config]);
    assert!(!is_fine && found[0].contains("did you mean \"network\"?"), "{found:?}");
}

#[test]
fn settings_that_the_server_refuses_are_a_finding_in_its_words() {
    let (node, data) = (node(), tempfile::tempdir().unwrap());
    let settings = settings(&node, data.path());
    let token = data.path().join("token");
    fs::write(&token, "0123456789abcdef").unwrap();
    set_mode(&token, 0o644);
    let token = format!("--watch-api-token-file={}", token.display());
    for wrong in [
        &["--block-filters=on"][..],
        &["--bitcoin=off", "--relay-addr=127.0.0.1:0", "--rest-private-addr=127.0.0.1:0"],
        &["--bitcoin=off", "--relay-addr=127.0.0.1:0", "--watch-api-addr=127.0.0.1:0"],
        &["--bitcoin=off"],
        &["--watch-api-addr=127.0.0.1:0", &token],
        &["--replicas-addr=0.0.0.0:0"],
        &["--relay-addr=127.0.0.1:0", "--relay-url=https://relay.example"],
        &["--peer=ssl://abcdefghij.onion:50002"],
        &["--tls-cert=/nonexistent", "--electrum-tls-addr=127.0.0.1:0"],
        &["--log=loud"],
    ] {
        let run = Command::new(BIRDHOUSE).arg("run").args(&settings).args(wrong).output().unwrap();
        assert!(!run.status.success(), "{wrong:?}");
        let said = String::from_utf8(run.stderr).unwrap();
        let error = said.lines().find_map(|line| line.strip_prefix("birdhouse: ")).unwrap_or_else(|| panic!("{said}"));
        let (found, is_fine) = examine(&settings, wrong);
        // The advice may stand in a line of its own.
        let first = error.split("; ").next().unwrap();
        assert!(
            !is_fine && found.iter().any(|found| found.starts_with("settings: ") && found.contains(first)),
            "{wrong:?}: {error}: {found:?}"
        );
    }
}

#[test]
fn a_finished_index_is_called_finished_without_the_node_and_its_blocks() {
    let (mut node, data) = (node(), tempfile::tempdir().unwrap());
    let settings = settings(&node, data.path());
    build(&settings, data.path());
    node.stop().unwrap();
    let blocks = node.blocks_dir();
    fs::rename(&blocks, blocks.with_extension("away")).unwrap();
    let output = Command::new(BIRDHOUSE).arg("doctor").args(&settings).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let index = said.lines().find(|line| line.split_whitespace().nth(1) == Some("index")).unwrap();
    assert!(index.contains("at height 10"), "{said}");
    assert!(!said.contains("the first build needs"), "{said}");
}
