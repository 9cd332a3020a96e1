//! An upload in pieces of one byte, in a process of its own: the memory that it takes.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "blossom/client.rs"]
#[expect(dead_code, reason = "the other tests use all of it")]
mod client;
#[path = "blossom/running.rs"]
#[expect(dead_code, reason = "the other tests use all of it")]
mod running;

use crate::client::Client;
use crate::running::{Given, Running, authorization, hash_of, wait_until};

/// Bytes that come one by one. Each would keep a buffer of 8 KiB, together 160 MB.
const BYTES: usize = 20_000;
/// Resident memory that the upload may add.
const ADDED_KIB_MAX: u64 = 40_000;

/// Returns the resident memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn an_upload_takes_no_more_memory_than_its_bytes() {
    let running = Running::start(Given::default());
    let body = vec![7; BYTES + 1];
    let authorization = authorization(1, "upload", &[hash_of(&body)]);
    let mut client = Client::connect(running.addr);
    client.without_delay();
    let length = body.len().to_string();
    client.send_head("PUT", "/upload", &[("Authorization", &authorization), ("Content-Length", &length)]);
    wait_until("an upload", || running.server.overview().uploading == 1);
    let before = resident_kib();
    for byte in body[..BYTES].chunks(1) {
        client.send(byte);
        // The server reads it by itself.
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
    wait_until("all bytes", || running.server.connections()[0].bytes_in >= BYTES as u64);
    let added = resident_kib().saturating_sub(before);
    assert!(added < ADDED_KIB_MAX, "{added} KiB");
    client.send(&body[BYTES..]);
    assert_eq!(client.answer("PUT").status, 201);
}
