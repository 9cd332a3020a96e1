//! Reports of files (BUD-09).

use birdhouse_blossom::Limits;
use birdhouse_clients::Rate;

use crate::client::{put, upload};
use crate::running::{Given, Running, hash_of, signed};

#[test]
fn a_report_of_a_stored_file_reaches_the_owner_of_the_server() {
    let running = Running::start(Given::default());
    let addr = running.addr;
    upload(addr, 1, b"reported");
    let (hash, other) = (hash_of(b"reported").to_string(), hash_of(b"unknown").to_string());
    let report = |body: &str| put(addr, "/report", body.as_bytes(), &[]).status;
    assert_eq!(report(&signed(2, 1984, &[&["x", &other, "spam"], &["x", &hash, "malware"]])), 200);
    let forged = signed(2, 1984, &[&["x", &hash]]).replace("a test", "a best");
    for (body, status) in [
        ("", 400),
        ("{}", 400),
        (&*signed(2, 1, &[&["x", &hash]]), 400),
        (&*signed(2, 1984, &[]), 400),
        (&*signed(2, 1984, &[&["x", &other]]), 404),
        (&*forged, 400),
        (&*"x".repeat(70_000), 413),
    ] {
        assert_eq!(report(body), status, "{body:.100}");
    }
    let reports = running.owner.reports.lock().unwrap();
    assert_eq!(reports.len(), 1);
    assert!(reports[0].from.is_loopback() && reports[0].event.event().kind.0 == 1984);
}

#[test]
fn reports_of_one_client_have_a_rate() {
    // On loopback nobody can be distinguished; all together have the rate of one.
    let limits = Limits { client_reports: Some(Rate::per_minute(2)), ..Limits::default() };
    let running = Running::start(Given { limits, ..Given::default() });
    upload(running.addr, 1, b"reported");
    let hash = hash_of(b"reported").to_string();
    let statuses = [(); 3].map(|()| {
        let answer = put(running.addr, "/report", signed(2, 1984, &[&["x", &hash]]).as_bytes(), &[]);
        (answer.status, answer.header("retry-after").is_some())
    });
    assert_eq!(statuses, [(200, false), (200, false), (429, true)]);
}
