//! An upload and a report in pieces of one byte, in a process of their own: the memory that they take.
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

/// Sends bytes one by one, and returns the memory that they add once all were read.
fn added_kib(client: &mut Client, bytes: &[u8], are_read: impl FnOnce()) -> u64 {
    let before = resident_kib();
    for byte in bytes.chunks(1) {
        client.send(byte);
        // The server reads it by itself.
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
    are_read();
    resident_kib().saturating_sub(before)
}

#[test]
fn an_upload_and_a_report_take_no_more_memory_than_their_bytes() {
    let running = Running::start(Given::default());
    let body = vec![7; BYTES + 1];
    let length = body.len().to_string();

    let mut client = Client::connect(running.addr);
    client.without_delay();
    client.send_head("PUT", "/report", &[("Content-Length", &length)]);
    // Nothing shows that a report is read before it is whole.
    let added = added_kib(&mut client, &body[..BYTES], || std::thread::sleep(std::time::Duration::from_secs(1)));
    assert!(added < ADDED_KIB_MAX, "report: {added} KiB");
    client.send(&body[BYTES..]);
    assert_eq!(client.answer("PUT").status, 400);
    drop(client);

    let authorization = authorization(1, "upload", &[hash_of(&body)]);
    let mut client = Client::connect(running.addr);
    client.without_delay();
    client.send_head("PUT", "/upload", &[("Authorization", &authorization), ("Content-Length", &length)]);
    wait_until("an upload", || running.server.overview().uploading == 1);
    let has_come = || running.server.connections().iter().any(|open| open.bytes_in >= BYTES as u64);
    let added = added_kib(&mut client, &body[..BYTES], || wait_until("all bytes", has_come));
    assert!(added < ADDED_KIB_MAX, "upload: {added} KiB");
    client.send(&body[BYTES..]);
    assert_eq!(client.answer("PUT").status, 201);
}
