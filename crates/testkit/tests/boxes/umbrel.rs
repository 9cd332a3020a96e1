//! The app for Umbrel: what it exports for apps that want electrs, its ports, its folders.
//!
//! Umbrel's own linter is on GitHub alone, and is run by hand.

use std::collections::BTreeMap;
use std::process::Command;

use crate::released::Released;
use crate::{repository, run};

/// Ports that Umbrel's electrs, Fulcrum and ElectrumX publish.
const TAKEN: [&str; 3] = ["50001", "50002", "50003"];

/// Returns the variables after Umbrel has sourced `exports.sh`, as its script does: with `set -euo pipefail`.
fn exported(before: &str) -> BTreeMap<String, String> {
    let exports = repository().join("contrib/boxes/umbrel/birdhouse/exports.sh");
    let script = format!("set -euo pipefail; EXPORTS_TOR_DATA_DIR=/nonexistent; {before} . {}; env", exports.display());
    let said = run(Command::new("bash").args(["-c", &script]).env("DEVICE_DOMAIN_NAME", "umbrel.local"));
    said.lines().filter_map(|line| line.split_once('=')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

#[test]
fn apps_that_want_electrs_get_the_address_of_birdhouse_unless_electrs_is_installed() {
    let alone = exported("");
    for name in ["IP", "NODE_IP", "NODE_PORT"] {
        assert_eq!(alone[&format!("APP_ELECTRS_{name}")], alone[&format!("APP_BIRDHOUSE_{name}")], "{name}");
    }
    let beside = exported("export APP_ELECTRS_NODE_IP=10.21.21.10 APP_ELECTRS_NODE_PORT=50001;");
    assert_eq!(beside["APP_ELECTRS_NODE_IP"], "10.21.21.10");
    assert_eq!(beside["APP_ELECTRS_NODE_PORT"], "50001");
}

#[test]
fn the_onion_service_is_shown_once_it_has_a_name() {
    assert_eq!(exported("")["APP_BIRDHOUSE_PUBLIC_HOST"], "tcp://umbrel.local:50005,ssl://umbrel.local:50006");
    let tor = tempfile::tempdir().unwrap();
    let service = tor.path().join("app-birdhouse-electrum");
    std::fs::create_dir(&service).unwrap();
    std::fs::write(service.join("hostname"), "birds.onion\n").unwrap();
    let shown = exported(&format!("EXPORTS_TOR_DATA_DIR={};", tor.path().display()));
    assert!(shown["APP_BIRDHOUSE_PUBLIC_HOST"].ends_with(",tcp://birds.onion:50005"), "{shown:?}");
}

#[test]
fn ports_are_free_beside_other_servers_and_in_the_manual() {
    let exported = exported("");
    let manual = std::fs::read_to_string(repository().join("docs/install.md")).unwrap();
    for name in ["NODE_PORT", "TLS_PORT", "EXPLORER_PORT"] {
        let port = &exported[&format!("APP_BIRDHOUSE_{name}")];
        assert!(!TAKEN.contains(&port.as_str()), "{port}");
        assert!(manual.contains(port), "docs/install.md does not name the port {port}");
    }
}

#[test]
fn the_app_mounts_the_node_read_only_and_runs_as_the_user_of_the_box() {
    let released = Released::new();
    let compose = released.read("umbrel/birdhouse/docker-compose.yml");
    assert!(compose.contains("\"${APP_BITCOIN_DATA_DIR}:/node:ro\"") && compose.contains("user: \"1000:1000\""));
    // Each folder of the app that is mounted comes with it.
    let mounted = compose.split("${APP_DATA_DIR}/data/").skip(1).map(|rest| rest.split(':').next().unwrap());
    for path in mounted {
        let inside = released.of_box(&format!("umbrel/birdhouse/data/{path}"));
        assert!(inside.is_file() || inside.join(".gitkeep").is_file(), "{path}");
    }
}
