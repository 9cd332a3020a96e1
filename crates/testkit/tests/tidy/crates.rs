//! Dependencies between the crates point one way, and third-party bindings stay in the crate that wraps them.
//!
//! The map is that of ARCHITECTURE.md. It is about what ships, so dev-dependencies are free.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// Dependencies that each of our crates may have among our crates.
const ALLOWED: &[(&str, &[&str])] = &[
    ("birdhouse-store", &[]),
    ("birdhouse-chain", &["birdhouse-silentpayments", "birdhouse-store"]),
    ("birdhouse-node", &["birdhouse-chain"]),
    ("birdhouse-descriptors", &["birdhouse-chain", "birdhouse-silentpayments"]),
    ("birdhouse-clients", &[]),
    ("birdhouse-net", &["birdhouse-clients"]),
    ("birdhouse-dial", &[]),
    ("birdhouse-electrum", &["birdhouse-chain", "birdhouse-clients", "birdhouse-net", "birdhouse-silentpayments"]),
    ("birdhouse-esplora", &["birdhouse-chain", "birdhouse-clients", "birdhouse-net"]),
    (
        "birdhouse-watch",
        &[
            "birdhouse-chain",
            "birdhouse-clients",
            "birdhouse-database",
            "birdhouse-descriptors",
            "birdhouse-dial",
            "birdhouse-net",
            "birdhouse-silentpayments",
            "birdhouse-web",
        ],
    ),
    ("birdhouse-database", &[]),
    ("birdhouse-web", &[]),
    ("birdhouse-dashboard", &["birdhouse-web"]),
    (
        "birdhouse-explorer",
        &["birdhouse-chain", "birdhouse-descriptors", "birdhouse-esplora", "birdhouse-silentpayments", "birdhouse-web"],
    ),
    ("birdhouse-events", &["birdhouse-store"]),
    ("birdhouse-relay", &["birdhouse-clients", "birdhouse-events", "birdhouse-net", "birdhouse-web"]),
    ("birdhouse-blossom", &["birdhouse-clients", "birdhouse-database", "birdhouse-events", "birdhouse-net"]),
    ("birdhouse-mirror", &["birdhouse-clients", "birdhouse-dial", "birdhouse-events", "birdhouse-relay"]),
    ("birdhouse-regtest", &[]),
    ("birdhouse-cassandra", &[]),
    ("birdhouse-silentpayments", &[]),
    ("birdhouse-testkit", &["birdhouse-regtest", "birdhouse-store"]),
    (
        "birdhouse",
        &[
            "birdhouse-blossom",
            "birdhouse-chain",
            "birdhouse-clients",
            "birdhouse-dashboard",
            "birdhouse-dial",
            "birdhouse-electrum",
            "birdhouse-esplora",
            "birdhouse-events",
            "birdhouse-explorer",
            "birdhouse-mirror",
            "birdhouse-net",
            "birdhouse-node",
            "birdhouse-regtest",
            "birdhouse-relay",
            "birdhouse-store",
            "birdhouse-watch",
            "birdhouse-web",
        ],
    ),
    (
        "birdhouse-bench",
        &[
            "birdhouse-chain",
            "birdhouse-electrum",
            "birdhouse-esplora",
            "birdhouse-events",
            "birdhouse-node",
            "birdhouse-regtest",
            "birdhouse-silentpayments",
            "birdhouse-store",
            "birdhouse-testkit",
        ],
    ),
];

/// Third-party crates that one crate of ours wraps and no other may name.
const HOMES: &[(&str, &str)] = &[
    ("memmap2", "birdhouse-store"),
    ("scylla", "birdhouse-store"),
    ("tantivy", "birdhouse-events"),
    ("redb", "birdhouse-database"),
];

/// Our crates with their direct dependencies, dev-dependencies left out.
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

/// Panics at a dependency that the map lacks, at a crate of ours that it does not name, and at one that is gone.
pub(crate) fn assert_arrows() {
    let crates = dependencies();
    for (name, _) in ALLOWED {
        assert!(crates.contains_key(*name), "there is no crate {name}: remove it from ALLOWED");
    }
    for (name, used) in &crates {
        let entry = ALLOWED.iter().find(|(known, _)| known == name);
        let (_, allowed) = entry.unwrap_or_else(|| panic!("{name} is missing from ALLOWED in {}", file!()));
        for dependency in used.iter().filter(|&dependency| crates.contains_key(dependency)) {
            assert!(allowed.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
}

/// Panics at a binding outside its home, and at an entry of [`HOMES`] that nobody needs.
pub(crate) fn assert_homes() {
    let crates = dependencies();
    for (binding, home) in HOMES {
        let users: Vec<_> = crates.iter().filter(|(_, used)| used.iter().any(|name| name == binding)).collect();
        assert!(users.iter().any(|(name, _)| name == home), "{home} does not use {binding}: remove it from HOMES");
        for (name, _) in users {
            assert_eq!(name, home, "{name} must not depend on {binding}");
        }
    }
}
