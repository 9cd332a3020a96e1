//! The history of the mempool over the life of a server.

use std::fs;

use birdhouse_testkit::http_client::HttpClient;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::node;
use crate::process::Birdhouse;

const REST: [(&str, &str); 1] = [("BIRDHOUSE_REST_ADDR", "127.0.0.1:0")];

/// Returns the records, once there are some.
fn records(server: &Birdhouse) -> Vec<Value> {
    server.until("has recorded the mempool", || {
        let port = server.port("serving the REST API")?;
        let found = HttpClient::connect(&format!("127.0.0.1:{port}")).ok()?.json("/v1/statistics/1y").ok()?;
        Some(found.as_array()?.clone()).filter(|records| !records.is_empty())
    })
}

#[test]
fn the_history_survives_a_kill_and_a_damaged_file_is_begun_anew_with_a_line_in_the_log() {
    let node = node();
    let mut server = Birdhouse::start_with(&node, &REST);
    let first = u32::try_from(records(&server).pop().unwrap()["added"].as_u64().unwrap()).unwrap();
    server.signal(Signal::SIGKILL);
    server.wait();
    let dir = server.into_dir();
    let kept = fs::read(dir.path().join("regtest/mempool-history")).unwrap();
    assert!(kept.windows(4).any(|bytes| bytes == first.to_le_bytes()), "a record begins with its time");
    let mut server = Birdhouse::start_in(dir.path(), &node, &REST);
    assert!(!records(&server).is_empty());
    assert!(!server.log().contains("began the history of the mempool anew"), "{}", server.log());
    server.signal(Signal::SIGKILL);
    server.wait();
    let dir = server.into_dir();
    let file = dir.path().join("regtest/mempool-history");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let server = Birdhouse::start_in(dir.path(), &node, &REST);
    assert_eq!(records(&server).len(), 1);
    assert!(server.log().contains("began the history of the mempool anew: its file is damaged"), "{}", server.log());
}
