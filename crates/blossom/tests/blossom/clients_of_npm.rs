//! blossom-client-sdk and nostr-tools (npm), the libraries of most clients on the web, in node.

use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use birdhouse_blossom::Limits;
use serde_json::{Value, json};

use crate::running::{Given, Running};

const SCRIPT: &str = include_str!("clients_of_npm.js");

/// The folder of the packages that `scripts/peers blossom-clients` installs.
fn packages() -> Option<PathBuf> {
    let cache = || {
        let home = || std::env::home_dir().map(|home| home.join(".cache"));
        std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)
    };
    let cached = || Some(cache()?.join("birdhouse/blossom-clients-1/node_modules"));
    let folder = std::env::var_os("BLOSSOM_CLIENTS").map(PathBuf::from).or_else(cached)?;
    folder.join("blossom-client-sdk").is_dir().then_some(folder)
}

#[expect(clippy::disallowed_methods, reason = "the clients sign with the time of this machine")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn clients_of_npm_upload_list_report_and_delete() {
    let Some(packages) = packages() else {
        eprintln!("LEFT OUT: blossom-client-sdk is not there; see scripts/peers");
        return;
    };
    let limits = Limits { file_bytes: 2_000_000, ..Limits::default() };
    let running = Running::start(Given { limits, clock: Some(now), ..Given::default() });
    let url = format!("http://{}", running.addr);
    let mut node = Command::new("node");
    let output = node.args(["--input-type=module", "--eval", SCRIPT]).arg(packages).arg(url).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let sdk = &seen["sdk"];
    assert_eq!([&sdk["before"], &sdk["after"], &sdk["gone"]], [false, true, false]);
    assert_eq!((&sdk["created"]["size"], &sdk["created"]["type"]), (&json!(700_000), &json!("image/png")));
    assert_eq!([&sdk["created"]["sha256"], &sdk["created"]["url"], &sdk["again"]], [true, true, true]);
    assert_eq!((&sdk["scoped"], &sdk["elsewhere"]), (&json!(700_000), &json!(401)));
    assert_eq!(sdk["got"], json!(["image/png", true]));
    assert_eq!((&sdk["listed"], &sdk["pages"]), (&json!(2), &json!(2)));
    assert_eq!((&sdk["reported"], &sdk["deleted"]), (&json!(true), &json!(true)));
    assert_eq!(sdk["large"], "413 a file may have 2000000 bytes");
    assert_eq!(sdk["mirrored"], 4);
    let tools = json!({ "type": "image/webp", "size": 100_000, "got": 100_000, "listed": [true], "gone": true });
    assert_eq!(seen["nostrTools"], tools);
    running.wait_until_idle();
}
