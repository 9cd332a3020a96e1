//! Events that must be imported, and deleted or expired ones that must not.

use birdhouse_events::VerifiedEvent;

use crate::bird::Bird;
use crate::schema::{Nostream, event, said, tag};

/// Texts that the escapes of JSON, JSONB or PostgreSQL could change.
const TEXTS: [&str; 9] = [
    "",
    "\"quotes\" and 'quotes'",
    "C:\\new\\u0000 \\x00 \\",
    "a NUL escape that is none: \\u0000",
    "\u{1}\u{8}\u{c}\u{1b}\u{7f}\n\r\t",
    "\u{1f426}\u{fffd}\u{ffff}\u{2028}\u{2029} äöü",
    "{\"a\":[1,2]} <b>&amp;</b> $1 :name %s ''",
    " spaces ",
    "e\u{301} is not \u{e9}",
];

#[test]
fn every_event_arrives_as_it_was_signed() {
    let (mut nostream, bird) = (Nostream::start(), Bird::new());
    let mut events: Vec<VerifiedEvent> = Vec::new();
    for (number, text) in (0..).zip(TEXTS) {
        events.push(said(1, 1, number, vec![tag(&["t", text]), tag(&[]), tag(&[text, text, text])], text));
    }
    let huge: Vec<_> = (0..4000).map(|number| tag(&["p", &format!("{number}{}", "x".repeat(500))])).collect();
    events.push(said(1, 3, 50, huge, &"long ".repeat(30_000)));
    for number in 0..6000_u64 {
        let author = 2 + u8::try_from(number % 5).unwrap();
        let kind = [1, 6, 7, 1063][usize::try_from(number % 4).unwrap()];
        events.push(event(author, kind, number / 3, &[&["n", &number.to_string()], &["e", &"ab".repeat(32)]]));
    }
    for author in 2..60 {
        let profile = u64::from(author);
        events.extend([event(author, 0, profile, &[]), event(author, 10_002, profile, &[&["r", "wss://x"]])]);
        events.push(event(author, 30_023, profile, &[&["d", TEXTS[usize::from(author) % TEXTS.len()]]]));
    }
    nostream.insert(&events);
    // Remains of Nostream's upserts and its additional columns have no effect.
    let [first, ..] = &*events else { unreachable!() };
    nostream.update("remote_address = '10.0.0.1', expires_at = 2000000000", first);
    let done = bird.import(&nostream.postgres.url());
    assert!(done.is_success, "{done:?}");
    assert_eq!(done.count("events stored"), events.len() as u64);
    bird.assert_has(&events);
}

#[test]
fn deleted_and_expired_events_are_not_imported_and_stay_refused() {
    let (mut nostream, bird) = (Nostream::start(), Bird::new());
    let id = |event: &VerifiedEvent| event.id.to_string();
    // Deleted by its author: marked as deleted, and with the deletion request.
    let (deleted, kept) = (event(1, 1, 1, &[]), event(1, 1, 2, &[]));
    let request = event(1, 5, 3, &[&["e", &id(&deleted)]]);
    // A deletion request that another one deleted stays in force (NIP-09).
    let undeleted = event(1, 1, 4, &[]);
    let deleted_request = event(1, 5, 5, &[&["e", &id(&undeleted)]]);
    let second_request = event(1, 5, 6, &[&["e", &id(&deleted_request)]]);
    // Nostream does not implement deletion by address: the row is live there and deleted here.
    let article = event(2, 30_023, 7, &[&["d", "x"]]);
    let address = format!("30023:{}:x", article.pubkey);
    let by_address = event(2, 5, 8, &[&["a", &address]]);
    // An author who vanished, with an earlier deletion request.
    let (old, old_request) = (event(3, 1, 9, &[]), event(3, 5, 10, &[&["e", &"cd".repeat(32)]]));
    let vanish = event(3, 62, 11, &[&["relay", "ALL_RELAYS"]]);
    // Expired by its column, and by its tag alone.
    let by_column = event(4, 1, 12, &[]);
    let by_tag = event(4, 1, 13, &[&["expiration", "1700000100"]]);
    let later = event(4, 1, 14, &[&["expiration", "4000000000"]]);
    // Deleted without a request: skipped.
    let removed = event(5, 1, 15, &[]);
    let soft = [&deleted, &undeleted, &deleted_request, &old, &old_request, &removed];
    let live = [&kept, &request, &second_request, &article, &by_address, &vanish, &by_column, &by_tag, &later];
    nostream.insert(soft.into_iter().chain(live));
    for event in soft {
        nostream.soft_delete(event);
    }
    nostream.update("expires_at = 1700000100", &by_column);
    let done = bird.import(&nostream.postgres.url());
    assert!(done.is_success, "{done:?}");
    let here = [&kept, &request, &deleted_request, &second_request, &by_address, &vanish, &later];
    bird.assert_has(here);
    assert_eq!(done.count("expired"), 2);
    // Also when they are published again.
    let again = bird.import_lines(&[&deleted, &undeleted, &article, &old, &old_request]);
    assert_eq!(again.count("deleted"), 5, "{again:?}");
    bird.assert_has(here);
}

#[test]
fn the_first_version_of_the_table_is_imported() {
    let (mut nostream, bird) = (Nostream::start_first(), Bird::new());
    let expired = event(1, 1, 1, &[&["expiration", "1700000100"]]);
    let events = [event(1, 1, 2, &[&["t", "x"]]), event(1, 0, 3, &[]), event(1, 5, 4, &[&["e", &"ab".repeat(32)]])];
    nostream.insert(events.iter().chain([&expired]));
    // `event_tags` may be NULL for an event without tags.
    let bare = event(2, 1, 5, &[]);
    nostream.insert([&bare]);
    nostream.update("event_tags = NULL", &bare);
    let done = bird.import(&nostream.postgres.url());
    assert!(done.is_success, "{done:?}");
    bird.assert_has(events.iter().chain([&bare]));
}

#[test]
fn a_second_import_takes_only_new_events() {
    let (mut nostream, bird) = (Nostream::start(), Bird::new());
    let mut events: Vec<_> = (0..3000).map(|second| event(1, 1, second, &[])).collect();
    let profile = event(1, 0, 1, &[]);
    nostream.insert(events.iter().chain([&profile]));
    assert!(bird.import(&nostream.postgres.url()).is_success);
    // Notes, a deletion, and a profile that an upsert puts into the old one's row.
    let (gone, newer) = (events.remove(17), event(1, 0, 2, &[]));
    let more: Vec<_> = (5000..5020).map(|second| event(2, 1, second, &[])).collect();
    let request = event(1, 5, 9000, &[&["e", &gone.id.to_string()]]);
    nostream.insert(more.iter().chain([&request]));
    nostream.soft_delete(&gone);
    nostream.client.execute("DELETE FROM events WHERE event_kind = 0", &[]).unwrap();
    nostream.insert([&newer]);
    let done = bird.import(&nostream.postgres.url());
    // The deleted event counts as duplicate or as deleted, depending on whether it comes before the request or after.
    let old = done.count("duplicates") + done.count("deleted");
    assert_eq!((done.count("events stored"), old), (22, 3000), "{done:?}");
    bird.assert_has(events.iter().chain(&more).chain([&request, &newer]));
}
