//! Uploads that stop, or never end: the server forgets them.

use std::time::Duration;

use birdhouse_blossom::Limits;

use crate::bounds::begun;
use crate::client::{Client, get, upload};
use crate::running::{Given, Running, hash_of, wait_until};

fn impatient() -> Limits {
    Limits { upload_timeout: Duration::from_millis(500), uploads: 2, ..Limits::default() }
}

#[test]
fn an_upload_that_stops_leaves_nothing_and_gives_its_slot_back() {
    let running = Running::start(Given { limits: impatient(), ..Given::default() });
    let body = vec![3; 1_000_000];
    let [mut silent, leaves] = [(); 2].map(|()| begun(&running, 1, &body));
    wait_until("two uploads", || running.server.overview().uploading == 2 && running.incoming().len() == 2);
    assert_eq!(upload(running.addr, 1, b"third").status, 503);
    drop(leaves);
    assert_eq!(silent.answer("PUT").status, 408);
    running.wait_until_idle();
    assert_eq!(get(running.addr, hash_of(&body)).status, 404);
    assert_eq!(upload(running.addr, 1, b"third").status, 201);
    assert!(running.server.overview().counts.refused_uploads >= 2);
}

#[test]
fn an_upload_that_only_trickles_ends() {
    let limits = Limits { upload_rate_min: 1000, ..impatient() };
    let running = Running::start(Given { limits, ..Given::default() });
    let body = vec![4; 100_000];
    let mut client = begun(&running, 1, &body);
    client.without_delay();
    for _ in 0..200 {
        if !client.try_send(&[4]) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        if running.server.overview().counts.refused_uploads == 1 {
            break;
        }
    }
    assert_eq!(client.answer("PUT").status, 408);
    running.wait_until_idle();
}

#[test]
fn a_body_that_is_not_as_long_as_it_says_is_not_stored() {
    let running = Running::start(Given::default());
    let body = b"cut short".to_vec();
    let mut client = begun(&running, 1, &body);
    client.send(&body[1..4]);
    drop(client);
    running.wait_until_idle();
    assert_eq!(get(running.addr, hash_of(&body)).status, 404);
    assert_eq!(get(running.addr, hash_of(&body[..4])).status, 404);
    // What follows a whole body is the next request.
    let mut client = begun(&running, 1, &body);
    client.send(&body[1..]);
    client.send_head("GET", &format!("/{}", hash_of(&body)), &[]);
    assert_eq!((client.answer("PUT").status, client.answer("GET").body), (201, body));
}

#[test]
fn the_operator_ends_an_upload() {
    let running = Running::start(Given::default());
    let _client = begun(&running, 1, &[5; 1000]);
    wait_until("an upload", || running.server.overview().uploading == 1);
    let connection = running.server.connections()[0].id;
    assert!(running.server.disconnect(connection) && !running.server.disconnect(connection + 100));
    running.wait_until_idle();
}

#[test]
fn a_client_that_waits_for_the_word_to_go_on_sends_no_refused_body() {
    let running = Running::start(Given::default());
    let mut client = Client::connect(running.addr);
    client.send_head("PUT", "/upload", &[("Content-Length", "90000000"), ("Expect", "100-continue")]);
    let refused = client.answer("PUT");
    assert_eq!((refused.status, refused.header("connection")), (401, Some("close")));
}
