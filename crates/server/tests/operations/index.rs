//! `birdhouse index`: its figures of a first build, and of an index that is there.

use std::process::Command;

use serde_json::Value;

use crate::chain_and_node;

#[test]
fn an_index_that_is_there_is_caught_up_and_not_read_whole() {
    let (mut chain, node) = chain_and_node();
    let data = tempfile::tempdir().unwrap();
    let index = || -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_birdhouse"))
            .args(["index", "--json", "--network=regtest"])
            .arg(format!("--node-dir={}", node.datadir().display()))
            .arg(format!("--rpc-addr=127.0.0.1:{}", node.rpc_port()))
            .arg(format!("--data-dir={}", data.path().display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let first = index();
    assert!(first["scripts"].as_u64().unwrap() > 0 && first["blocks"] == 11, "{first}");
    chain.mine(5);
    chain.submit_to(&node).unwrap();
    let second = index();
    assert!(second["scripts"].is_null() && second["blocks"] == 16, "{second}");
    assert_eq!(second["txs"], first["txs"].as_u64().unwrap() + 5);
}
