//! Quotas, the free disk, and the number of uploads.

use std::sync::atomic::Ordering;

use birdhouse_blossom::Limits;

use crate::client::{Client, ask, upload};
use crate::running::{Given, Running, authorization, hash_of, wait_until};

#[test]
fn a_key_has_a_quota_until_it_deletes() {
    let limits = Limits { key_bytes: Some(10), key_files: Some(3), all_bytes: Some(25), ..Limits::default() };
    let running = Running::start(Given { limits, ..Given::default() });
    let addr = running.addr;
    assert_eq!([upload(addr, 1, b"12345").status, upload(addr, 1, b"67890").status], [201, 201]);
    let refused = upload(addr, 1, b"x");
    assert_eq!((refused.status, refused.reason()), (429, "your files may have 10 bytes together; delete some"));
    assert_eq!(upload(addr, 1, b"12345").status, 200, "what it owns already needs no room");
    let delete = authorization(1, "delete", &[hash_of(b"12345")]);
    assert_eq!(ask(addr, "DELETE", &format!("/{}", hash_of(b"12345")), &[("Authorization", &delete)]).status, 204);
    assert_eq!([b"a", b"b", b"c"].map(|body| upload(addr, 1, body).status), [201, 201, 429], "three files");
    // What another key has uploaded counts for the key, and not for the disk.
    assert_eq!([upload(addr, 2, b"67890").status, upload(addr, 2, b"abcde").status], [200, 201]);
    assert_eq!(upload(addr, 3, b"0123456789").status, 201);
    let full = upload(addr, 4, b"four");
    assert_eq!((full.status, full.reason()), (503, "the media store is full"));
    assert_eq!(running.server.overview().total.bytes, 22);
}

#[test]
fn the_free_disk_that_stays_is_not_written_to() {
    let limits = Limits { disk_free_bytes: Some(1000), ..Limits::default() };
    let running = Running::start(Given { limits, ..Given::default() });
    running.disk_free.store(1009, Ordering::Relaxed);
    let refused = upload(running.addr, 1, b"0123456789");
    assert_eq!((refused.status, refused.reason()), (503, "the disk of the media store is nearly full"));
    assert_eq!(upload(running.addr, 1, b"012345678").status, 201);
    // Others fill the disk while an upload is under way: it ends.
    running.disk_free.store(1 << 40, Ordering::Relaxed);
    let body = vec![1; 30_000_000];
    let mut client = begun(&running, 1, &body);
    assert!(client.try_send(&body[1..1_000_000]));
    running.disk_free.store(999, Ordering::Relaxed);
    client.try_send(&body[1_000_000..]);
    assert_eq!(client.answer("PUT").status, 503);
    running.wait_until_idle();
}

#[test]
fn uploads_at_once_are_bounded_for_a_client_and_for_all() {
    // Connections over loopback count as twenty clients.
    let limits = Limits { client_uploads: Some(1), uploads: 21, ..Limits::default() };
    let running = Running::start(Given { limits, ..Given::default() });
    let mut clients: Vec<Client> = (1..=20_u8).map(|key| begun(&running, key, &[key; 100])).collect();
    wait_until("twenty uploads", || running.server.overview().uploading == 20);
    let refused = upload(running.addr, 2, b"one more");
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("31")));
    let mut first = clients.remove(0);
    first.send(&[1; 99]);
    assert_eq!(first.answer("PUT").status, 201);
    assert_eq!(upload(running.addr, 2, b"one more").status, 201);
    drop(clients);
    running.wait_until_idle();

    let limits = Limits { key_uploads: Some(2), ..Limits::default() };
    let running = Running::start(Given { limits, ..Given::default() });
    let clients = [1, 2].map(|number| begun(&running, 1, &[number; 100]));
    wait_until("two uploads", || running.server.overview().uploading == 2);
    assert_eq!([upload(running.addr, 1, b"third").status, upload(running.addr, 2, b"third").status], [429, 201]);
    drop(clients);
    running.wait_until_idle();

    let limits = Limits { uploads: 1, ..Limits::default() };
    let running = Running::start(Given { limits, ..Given::default() });
    let client = begun(&running, 1, &[1; 100]);
    wait_until("an upload", || running.server.overview().uploading == 1);
    assert_eq!(upload(running.addr, 2, b"one more").status, 503);
    drop(client);
    running.wait_until_idle();
    assert_eq!(upload(running.addr, 2, b"one more").status, 201);
}

#[test]
fn a_file_that_is_deleted_amid_its_second_upload_takes_no_room_that_was_not_counted() {
    let limits = Limits { key_bytes: Some(10), ..Limits::default() };
    let running = Running::start(Given { limits, ..Given::default() });
    let (addr, first, hash) = (running.addr, b"0123456789", hash_of(b"0123456789"));
    assert_eq!(upload(addr, 1, first).status, 201);
    let digits = hash.to_string();
    let token = authorization(1, "upload", &[hash]);
    let mut again = Client::connect(addr);
    again.send_head("PUT", "/upload", &[("Authorization", &token), ("X-SHA-256", &digits), ("Content-Length", "10")]);
    again.send(&first[..9]);
    wait_until("an upload", || running.server.overview().uploading == 1);
    let delete = authorization(1, "delete", &[hash]);
    assert_eq!(ask(addr, "DELETE", &format!("/{hash}"), &[("Authorization", &delete)]).status, 204);
    assert_eq!(upload(addr, 1, b"abcdefghij").status, 201);
    again.send(&first[9..]);
    assert_eq!((again.answer("PUT").status, running.server.overview().total.bytes), (409, 10));
}

/// Begins an upload, and sends its first byte.
pub(crate) fn begun(running: &Running, key: u8, body: &[u8]) -> Client {
    let authorization = authorization(key, "upload", &[hash_of(body)]);
    let mut client = Client::connect(running.addr);
    let length = body.len().to_string();
    client.send_head("PUT", "/upload", &[("Authorization", &authorization), ("Content-Length", &length)]);
    client.send(&body[..1]);
    client
}
