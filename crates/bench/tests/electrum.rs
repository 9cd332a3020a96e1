//! `electrum` with a real server at an address, under two names, beside an address without a listener.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use birdhouse_testkit::bench_chain::{self, LoadBlock, Stats};
use birdhouse_testkit::peers::{ElectrumX, Peer, part};
use birdhouse_testkit::{Bitcoind, Options, loadblock};
use serde_json::Value;

const GONE: &str = "gone=127.0.0.1:1";

#[test]
fn a_server_agrees_with_itself_and_one_that_is_gone_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (node, stats) = chain(folder.path());
    let Some(server) = part::start_if_asked(part::ELECTRUMX, || ElectrumX::start(&node)) else { return };
    let samples = folder.path().join("samples.json");
    fs::write(&samples, stats.samples.to_json().to_string()).unwrap();
    let port = node.rpc_port().to_string();
    let args =
        ["--samples", samples.to_str().unwrap(), "--node-rpc-port", &port, "--blocks", "2", "--transactions", "1"];
    let node_args = ["--node-datadir", node.datadir().to_str().unwrap()];
    let (output, record) = measure(folder.path(), &server, &[&args[..], &node_args].concat());
    assert!(!output.status.success(), "a server that is gone is no success");
    assert!(record["servers"][0]["version"].as_str().unwrap().contains("ElectrumX"), "{}", record["servers"]);
    let tables = record["tables"].as_array().unwrap();
    let titles: Vec<&str> = tables.iter().map(|table| table["title"].as_str().unwrap()).collect();
    for wanted in
        ["A wallet of", "`get_history` by transactions", "`get_balance` by unspent", "Histories of", "Delay of"]
    {
        assert!(titles.iter().any(|title| title.starts_with(wanted)), "{wanted} is missing of {titles:?}");
    }
    tables.iter().for_each(check_figures_and_failure);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("| gone | failed: failed to connect to 127.0.0.1:1"), "{text}");
}

#[test]
fn lengths_of_a_plain_list_are_read_from_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let (node, stats) = chain(folder.path());
    let Some(server) = part::start_if_asked(part::ELECTRUMX, || ElectrumX::start(&node)) else { return };
    let list = folder.path().join("scripthashes");
    let counted: Vec<_> = stats.samples.largest.iter().chain(&stats.samples.medium).collect();
    fs::write(&list, counted.iter().map(|sample| sample.scripthash.clone() + "\n").collect::<String>()).unwrap();
    let (_, record) = measure(folder.path(), &server, &["--scripthashes", list.to_str().unwrap()]);
    let curve = table(&record, "`get_history` by transactions");
    let most = counted.iter().map(|sample| sample.txs).max().unwrap();
    let last = curve["rows"].as_array().unwrap().last().unwrap();
    assert!(last["title"].as_str().unwrap().ends_with(&most.to_string()), "{last} does not reach {most}");
    let agreement = table(&record, "Answers, beside those of one");
    for row in &agreement["rows"].as_array().unwrap()[..2] {
        let [asked, same] = [0, 1].map(|index| &row["cells"][index]["value"]);
        assert!(asked.as_f64().unwrap() > 5.0 && same == asked, "{row}");
    }
}

/// Makes a small benchmark chain and starts its node.
fn chain(folder: &Path) -> (Bitcoind, Stats) {
    let file = folder.join("chain.dat");
    let plan = bench_chain::Plan { seed: 7, blocks: 130, txs: 3000 };
    let stats = bench_chain::generate(plan, &mut LoadBlock(File::create(&file).unwrap())).unwrap();
    let datadir = folder.join("node");
    loadblock::import(&file, &datadir, stats.tip.unwrap()).unwrap();
    (Bitcoind::start(Options::default().in_datadir(&datadir).with_indexes()).unwrap(), stats)
}

fn measure(folder: &Path, server: &Peer, args: &[&str]) -> (Output, Value) {
    let json = folder.join("record.json");
    let at = format!("127.0.0.1:{}#{}", server.port(), server.pid());
    let output = Command::new(env!("CARGO_BIN_EXE_birdhouse-bench"))
        .arg("electrum")
        .args(["--server", &format!("one={at}"), "--server", &format!("other={at}"), "--server", GONE])
        .args([
            "--passes",
            "3",
            "--scripts",
            "3",
            "--connections",
            "2",
            "--window",
            "4",
            "--seconds",
            "1",
            "--rounds",
            "2",
        ])
        .args(args)
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    let record = fs::read(&json).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (output, serde_json::from_slice(&record).unwrap())
}

fn table<'a>(record: &'a Value, title: &str) -> &'a Value {
    record["tables"].as_array().unwrap().iter().find(|table| table["title"] == title).unwrap()
}

/// Checks that `one` and `other` have only numbers, at least one for each row, and that `gone` has its reason.
fn check_figures_and_failure(table: &Value) {
    let rows = table["rows"].as_array().unwrap();
    assert!(!rows.is_empty(), "{table}");
    let kinds =
        |cells: &[Value]| cells.iter().map(|cell| cell["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let are_numbers = |kinds: &[String]| kinds.iter().all(|kind| kind == "figure" || kind == "number");
    if table["layout"] == "servers_in_columns" {
        for row in rows {
            let kinds = kinds(row["cells"].as_array().unwrap());
            assert!(are_numbers(&kinds[..2]) && kinds[2] == "failed", "{}: {kinds:?}", table["title"]);
        }
    } else {
        let of = |index: usize| kinds(rows[index]["cells"].as_array().unwrap());
        assert!(are_numbers(&of(0)) && are_numbers(&of(1)) && of(2) == ["failed"], "{table}");
    }
}
