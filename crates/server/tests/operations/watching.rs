//! Metrics and health over HTTP.

use std::collections::{BTreeSet, HashMap};
use std::net::TcpStream;

use birdhouse_testkit::metrics;
use serde_json::{Value, json};

use crate::node;
use crate::process::Birdhouse;

/// Returns the values by name and labels.
fn metrics(server: &Birdhouse) -> HashMap<String, f64> {
    let answer = server.get("/metrics");
    assert_eq!(answer.status, 200);
    metrics::values(&answer.body)
}

#[test]
fn metrics_count_what_clients_do() {
    let node = node();
    let server = Birdhouse::start(&node);
    let mut client = server.client();
    let before = metrics(&server);
    let script = json!(["ab".repeat(32)]);
    client.call("blockchain.scripthash.get_balance", script.clone()).unwrap();
    client.call("blockchain.scripthash.subscribe", script).unwrap();
    client.call("blockchain.block.header", json!([1_000_000])).unwrap_err();
    client.call("no.such.method", json!([])).unwrap_err();
    let after = metrics(&server);
    let grown = |name: &str| after.get(name).unwrap_or(&0.0) - before.get(name).unwrap_or(&0.0);
    let one = |name: &str| assert!((grown(name) - 1.0).abs() < 1e-9, "{name} has grown by {}", grown(name));
    one(r#"birdhouse_electrum_requests_total{kind="balance",outcome="answered"}"#);
    one(r#"birdhouse_electrum_requests_total{kind="subscribe",outcome="answered"}"#);
    one(r#"birdhouse_electrum_requests_total{kind="header",outcome="rejected"}"#);
    one("birdhouse_electrum_invalid_requests_total");
    one("birdhouse_electrum_subscriptions");
    assert!((grown(r#"birdhouse_electrum_request_duration_seconds_count{source="index"}"#) - 2.0).abs() < 1e-9);
    assert!(grown("birdhouse_electrum_received_bytes_total") > 200.0);
    assert!(grown("birdhouse_electrum_sent_bytes_total") > 100.0);
    assert!((after[r#"birdhouse_electrum_connections{listener="tcp"}"#] - 1.0).abs() < 1e-9);
    assert!((after["birdhouse_chain_tip_height"] - 10.0).abs() < 1e-9);
    assert!((after["birdhouse_chain_sync_ratio"] - 1.0).abs() < 1e-9);
    assert!(after["birdhouse_chain_behind_blocks"].abs() < 1e-9);
    // The genesis block and ten more, too few to be packed.
    assert!((after["birdhouse_chain_delta_transactions"] - 11.0).abs() < 1e-9);
    assert!(after["birdhouse_chain_unmerged_transactions"].abs() < 1e-9);
    // As the file system allocates them.
    assert!(after[r#"birdhouse_chain_table_bytes{table="txid"}"#] >= 11.0 * 32.0);
    assert!(after["birdhouse_node_calls_total"] > 0.0);
    let all = r#"birdhouse_electrum_request_duration_seconds_bucket{le="+Inf",source="index"}"#;
    assert!((grown(all) - 2.0).abs() < 1e-9, "{after:?}");
    assert!(
        (after[concat!(r#"birdhouse_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#""}"#)] - 1.0).abs() < 1e-9
    );
    assert!(after["process_resident_memory_bytes"] > 1e6);
}

/// Returns the names of our metrics and of the process's in a text.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let is_metric = |word: &&str| word.starts_with("birdhouse_") || word.starts_with("process_");
    words.filter(is_metric).map(str::to_owned).collect()
}

#[test]
fn dashboard_and_alerts_name_metrics_that_exist() {
    let node = node();
    let names = ["BIRDHOUSE_RELAY_ADDR", "BIRDHOUSE_REST_ADDR", "BIRDHOUSE_BLOSSOM_ADDR"];
    let server = Birdhouse::start_with(&node, &names.map(|name| (name, "127.0.0.1:0")));
    let page = server.get("/metrics").body;
    // A counter or a family may have no value yet; its description is there.
    let described = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let known: BTreeSet<String> = described
        .flat_map(|(name, kind)| match kind {
            "counter" => vec![format!("{name}_total")],
            "histogram" => ["bucket", "count", "sum"].map(|part| format!("{name}_{part}")).into(),
            "info" => vec![format!("{name}_info")],
            _ => vec![name.to_owned()],
        })
        .collect();
    let dashboard = include_str!("../../../../contrib/grafana/birdhouse.json");
    serde_json::from_str::<Value>(dashboard).unwrap();
    let rules = include_str!("../../../../contrib/prometheus/birdhouse.rules.yml");
    let monitoring = include_str!("../../../../docs/monitoring.md");
    for (file, least) in [(dashboard, 20), (rules, 8), (monitoring, 10)] {
        let unknown: Vec<String> = named(file).into_iter().filter(|name| !known.contains(name)).collect();
        assert_eq!(unknown, [""; 0], "of {known:?}");
        assert!(named(file).len() >= least, "{:?}", named(file));
    }
}

#[test]
fn health_follows_the_node() {
    let mut node = node();
    let server = Birdhouse::start(&node);
    let health = || {
        let answer = server.get("/health");
        (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap())
    };
    let serving = || (health() == (200, json!({ "status": "serving", "height": 10 }))).then_some(());
    server.until("is healthy", serving);
    node.stop().unwrap();
    let reason = server.until("notices that the node is unreachable", || {
        let (status, reason) = health();
        (status == 503).then_some(reason)
    });
    assert_eq!(reason["status"], "node unreachable");
    assert!(reason["seconds"].is_u64());
    assert!(server.ctl_json(&["status"])["health"].as_str().unwrap().starts_with("node unreachable"));
    node.restart().unwrap();
    server.until("is healthy again", serving);
    assert!(metrics(&server)["birdhouse_node_failed_calls_total"] > 0.0);
}

#[test]
fn other_paths_are_not_found_and_idle_connections_do_not_block_it() {
    let node = node();
    let server = Birdhouse::start(&node);
    assert_eq!(server.get("/nothing").status, 404);
    assert_eq!(server.get("/metrics/../x").status, 404);
    // Half of the connections, from clients that send nothing.
    let port = server.port("serving metrics and health").unwrap();
    let _silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    assert_eq!(server.get("/health").status, 200);
    // All of them; they time out soon.
    let _more: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    assert_eq!(server.get("/health").status, 200);
}
