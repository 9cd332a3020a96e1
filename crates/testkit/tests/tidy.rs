//! Dependencies between the crates point one way, and the engine stays in its crate.
//!
//! The map is that of ARCHITECTURE.md; it is about what ships, so dev-dependencies are free.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// Who may use whom among our own crates. A crate that is missing here fails the test: it must find its place first.
const ALLOWED: &[(&str, &[&str])] = &[
    ("birdhouse-store", &[]),
    ("birdhouse-chain", &["birdhouse-store"]),
    ("birdhouse-node", &["birdhouse-chain"]),
    ("birdhouse-clients", &[]),
    ("birdhouse-electrum", &["birdhouse-chain", "birdhouse-clients"]),
    ("birdhouse-events", &["birdhouse-store"]),
    ("birdhouse-relay", &["birdhouse-clients", "birdhouse-events"]),
    ("birdhouse-testkit", &[]),
    (
        "birdhouse",
        &[
            "birdhouse-chain",
            "birdhouse-clients",
            "birdhouse-electrum",
            "birdhouse-events",
            "birdhouse-node",
            "birdhouse-relay",
            "birdhouse-store",
            "birdhouse-testkit",
        ],
    ),
    (
        "birdhouse-bench",
        &[
            "birdhouse-chain",
            "birdhouse-electrum",
            "birdhouse-events",
            "birdhouse-node",
            "birdhouse-store",
            "birdhouse-testkit",
        ],
    ),
];

/// Bindings that one crate alone may know.
const HOMES: &[(&str, &str)] =
    &[("rust-rocksdb", "birdhouse-store"), ("scylla", "birdhouse-store"), ("zmq", "birdhouse-node")];

/// Crates of ours with their direct dependencies, those for tests left out.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO")).args(["metadata", "--no-deps", "--format-version=1"]).output().unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let list = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap();
        dependencies.iter().filter(|entry| entry["kind"] != "dev").map(name).collect()
    };
    metadata["packages"].as_array().unwrap().iter().map(|package| (name(package), list(package))).collect()
}

#[test]
fn own_crates_depend_one_way() {
    let crates = dependencies();
    for (name, used) in &crates {
        let entry = ALLOWED.iter().find(|(known, _)| known == name);
        let (_, allowed) = entry.unwrap_or_else(|| panic!("{name} has no place in the map of this test"));
        for dependency in used.iter().filter(|&dependency| crates.contains_key(dependency)) {
            assert!(allowed.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn bindings_stay_in_their_crates() {
    for (name, used) in dependencies() {
        for (binding, home) in HOMES {
            let at_home = name == *home;
            assert!(at_home || used.iter().all(|dependency| dependency != binding), "{name} uses {binding}");
        }
    }
}
