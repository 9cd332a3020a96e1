//! Invalid rows and unreadable databases: each has a message with its cause.

use birdhouse_testkit::Postgres;
use birdhouse_testkit::postgres::Certificate;
use rcgen::{CertifiedKey, generate_simple_self_signed};

use crate::bird::Bird;
use crate::schema::{Nostream, event};

#[test]
fn invalid_rows_are_counted_and_the_others_imported() {
    let (mut nostream, bird) = (Nostream::start(), Bird::new());
    let good = event(1, 1, 100, &[]);
    let forged: Vec<_> = (0..12).map(|second| event(1, 1, second, &[])).collect();
    let malformed: Vec<_> = (20..24).map(|second| event(2, 1, second, &[])).collect();
    let ephemeral = event(3, 20_001, 30, &[]);
    nostream.insert(forged.iter().chain(&malformed).chain([&good, &ephemeral]));
    for event in &forged {
        nostream.update("event_content = 'a secret'", event);
    }
    let changes = [
        "event_tags = '[[\"a secret\", 1]]'",
        "event_kind = 70000",
        "event_pubkey = 'a secret'",
        "event_content = repeat('a secret', 3000000)",
    ];
    for (change, event) in changes.into_iter().zip(&malformed) {
        nostream.update(change, event);
    }
    let done = bird.import(&nostream.postgres.url());
    assert!(done.is_success, "invalid events are counted and left out: {done:?}");
    assert!(done.report.contains("17 invalid (4 malformed, 12 forged, 1 ephemeral)"), "{done:?}");
    bird.assert_has([&good]);
    // Ten causes, each with the event's id and without text of its author.
    assert_eq!(done.log.matches("skipped an invalid event").count(), 10, "{}", done.log);
    assert!(!done.log.contains("a secret"), "{}", done.log);
    let named =
        forged.iter().chain(&malformed).chain([&ephemeral]).filter(|event| done.log.contains(&event.id.to_string()));
    assert_eq!(named.count(), 10, "{}", done.log);
}

#[test]
fn an_unreadable_database_is_an_error_with_cause_and_advice() {
    let mut nostream = Nostream::start_without_tables(Postgres::start().unwrap());
    let (bird, postgres) = (Bird::new(), &nostream.postgres);
    for (url, words) in [
        (postgres.url_of("the%20wrong%20password", "postgres"), "refuses the password of nostream"),
        (postgres.url_of("a%20%27password%27", "nothing"), "has no database nothing"),
        ("postgres://nostream:secret@127.0.0.1:1/postgres".to_owned(), "failed to reach PostgreSQL on 127.0.0.1:1"),
        ("postgres://127.0.0.1/postgres".to_owned(), "postgres://USER:PASSWORD@HOST/DATABASE"),
        (postgres.url(), "no table `events`"),
    ] {
        let failed = bird.import(&url);
        assert!(!failed.is_success && failed.log.contains(words), "{words}: {failed:?}");
        for password in ["the wrong password", "wrong%20password", "secret", "%27password%27"] {
            assert!(!failed.log.contains(password), "{failed:?}");
        }
    }
    nostream.client.batch_execute("CREATE TABLE events (event_id bytea, event_pubkey text)").unwrap();
    let failed = bird.import(&nostream.postgres.url());
    assert!(failed.log.contains("column `event_pubkey` of the table `events` is text, not bytea"), "{failed:?}");
}

#[test]
fn either_a_file_or_a_database_is_required() {
    for arguments in [&["import"][..], &["import", "file", "--nostream", "postgres://x@y/z"]] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_birdhouse")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

#[test]
fn over_tls_the_certificate_of_the_database_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str| {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed([name.to_owned()]).unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, cert.pem()).unwrap();
        (Certificate { chain: cert.pem(), key: signing_key.serialize_pem() }, file)
    };
    let ((certificate, trusted), (_, other)) = (named("127.0.0.1"), named("other"));
    let mut nostream = Nostream::start_without_tables(Postgres::start_with_tls(&certificate).unwrap());
    nostream.client.batch_execute("CREATE TABLE events (event_id bytea)").unwrap();
    let (bird, url) = (Bird::new(), format!("{}?sslmode=require", nostream.postgres.url()));
    let reached = bird.import_with(&url, &[("SSL_CERT_FILE", trusted)]);
    assert!(reached.log.contains("no column `event_pubkey`"), "{reached:?}");
    let refused = bird.import_with(&url, &[("SSL_CERT_FILE", other)]);
    assert!(refused.log.contains("certificate"), "{refused:?}");
}
