use super::*;
use crate::event::samples::{event, keys, signed_by};

const NOW: Timestamp = Timestamp(1_700_000_000);

/// Returns the answer to a client that has not authenticated.
fn answer(limits: &EventLimits, event: VerifiedEvent) -> String {
    limits.admit(event, NOW, &[]).map_or_else(|rejection| rejection.to_string(), |_| "taken".to_owned())
}

fn by_default(event: VerifiedEvent) -> String {
    answer(&EventLimits::default(), event)
}

#[test]
fn created_at_lies_in_a_window_whose_ends_belong_to_it() {
    let limits = EventLimits { ahead_seconds_max: 10, behind_seconds_max: Some(100), ..EventLimits::default() };
    for (created_at, expected) in [
        (NOW.0 + 10, "taken"),
        (NOW.0 + 11, "invalid: created_at is too far in the future"),
        (1_700_000_000_000, "invalid: created_at is in milliseconds; it counts seconds (NIP-01)"),
        (u64::MAX, "invalid: created_at is too far in the future"),
        (NOW.0 - 100, "taken"),
        (NOW.0 - 101, "invalid: created_at is too far in the past"),
        (0, "invalid: created_at is too far in the past"),
    ] {
        assert_eq!(answer(&limits, event(1, created_at, &[], "")), expected, "{created_at}");
    }
    assert_eq!(by_default(event(1, 0, &[], "")), "taken", "any age by default");
    assert_eq!(by_default(event(1, NOW.0 + 901, &[], "")), "invalid: created_at is too far in the future");
}

#[test]
fn expired_event_is_dropped_unless_it_is_ephemeral() {
    let at = |seconds: u64| seconds.to_string();
    for (expiration, expected) in [
        (at(NOW.0 + 1), "taken"),
        (at(NOW.0), "invalid: the event has expired"),
        (at(0), "invalid: the event has expired"),
        ("soon".to_owned(), "taken"),
        (String::new(), "taken"),
    ] {
        assert_eq!(by_default(event(1, NOW.0, &[&["expiration", &expiration]], "")), expected, "{expiration}");
        assert_eq!(by_default(event(20_001, NOW.0, &[&["expiration", &expiration]], "")), "taken", "{expiration}");
    }
}

#[test]
fn protected_event_comes_from_its_author_alone() {
    let protected = || signed_by(1, 1, NOW.0, &[&["-"]], "");
    let limits = EventLimits::default();
    let answer = |authenticated: &[Pubkey]| {
        limits.admit(protected(), NOW, authenticated).map_err(|rejection| rejection.to_string())
    };
    let (author, other) = (keys(1).pubkey(), keys(2).pubkey());
    let reason = "this event may only be published by its author";
    assert_eq!(answer(&[]), Err(format!("auth-required: {reason}")));
    assert_eq!(answer(&[other]), Err(format!("restricted: {reason}")));
    assert_eq!(answer(&[other, author]).expect("its author").event(), protected().event());
    assert_eq!(by_default(event(1, NOW.0, &[&["t", "-"]], "")), "taken");
}

#[test]
fn repost_of_a_protected_event_is_refused() {
    let protected = event(1, NOW.0, &[&["t", "x"], &["-"]], "for members").to_json();
    let open = event(1, NOW.0, &[&["t", "-"]], "[\"-\"]").to_json();
    let disguised = protected.replace("[\"-\"]", "[ \"\\u002d\" ]");
    let refused = "blocked: it carries an event that may only be published by its author";
    for kind in [6, 16] {
        assert_eq!(by_default(event(kind, NOW.0, &[], &protected)), refused);
        assert_eq!(by_default(event(kind, NOW.0, &[], &disguised)), refused);
        for content in ["", "text", "[]", "{\"tags\":7}", "{\"tags\":[7,[],[[\"-\"]]]}", &open] {
            assert_eq!(by_default(event(kind, NOW.0, &[], content)), "taken", "{content}");
        }
    }
    assert_eq!(by_default(event(1, NOW.0, &[], &protected)), "taken", "a note may quote");
    let nested = "[".repeat(100_000);
    assert_eq!(by_default(event(6, NOW.0, &[], &nested)), "taken", "depth is bounded");
}

#[test]
fn tags_and_content_have_bounds() {
    let limits = EventLimits { tags_max: 2, content_bytes_max: 4, ..EventLimits::default() };
    let t: &[&str] = &["t"];
    assert_eq!(answer(&limits, event(1, NOW.0, &[t; 2], "éé")), "taken");
    assert_eq!(answer(&limits, event(1, NOW.0, &[t; 3], "")), "invalid: more than 2 tags");
    assert_eq!(answer(&limits, event(1, NOW.0, &[], "ééé")), "invalid: content of more than 4 bytes");
    let limits = EventLimits { tag_value_bytes_max: 4, ..EventLimits::default() };
    assert_eq!(answer(&limits, event(1, NOW.0, &[&["d", "éé", "ééé"], &["title", "ééé"]], "")), "taken");
    let long = event(1, NOW.0, &[&["d", "ééé"]], "");
    assert_eq!(answer(&limits, long), "invalid: tag d with a value of more than 4 bytes");
}

#[test]
fn every_value_that_an_event_may_have_can_be_asked_for() {
    assert!(EventLimits::default().tag_value_bytes_max <= crate::FilterLimits::default().tag_value_bytes_max);
}

/// Returns an event whose id has exactly this number of leading zero bits, with this committed target.
fn mined(bits: u32, target: Option<&str>) -> VerifiedEvent {
    let nonces = (0..1_000_000_u32).map(|nonce| nonce.to_string());
    let mut events = nonces.map(|nonce| {
        let nonce: Vec<&str> = ["nonce", &nonce].into_iter().chain(target).collect();
        event(1, NOW.0, &[&nonce], "")
    });
    events.find(|event| event.difficulty() == bits).expect("a million tries are enough for a few bits")
}

#[test]
fn work_is_counted_and_must_have_been_committed_to() {
    let limits = EventLimits { difficulty_min: 5, ..EventLimits::default() };
    assert_eq!(answer(&limits, mined(5, Some("5"))), "taken");
    assert_eq!(answer(&limits, mined(6, Some("20"))), "taken");
    assert_eq!(answer(&limits, mined(4, Some("5"))), "pow: difficulty 4 is less than 5");
    assert_eq!(answer(&limits, mined(6, Some("4"))), "pow: committed to 4, less than 5");
    for none in [None, Some(""), Some("many")] {
        assert_eq!(answer(&limits, mined(5, none)), "pow: no commitment to difficulty 5");
    }
    assert_eq!(by_default(mined(0, None)), "taken", "no work is asked by default");
}

#[test]
fn difficulty_is_the_number_of_leading_zero_bits() {
    // The first two are examples of NIP-13.
    for (id, bits) in [
        ("000006d8c378af1779d2feebc7603a125d99eca0ccf1085959b307f64e5dd358", 21),
        ("002f000000000000000000000000000000000000000000000000000000000000", 10),
        ("8000000000000000000000000000000000000000000000000000000000000000", 0),
        ("0000000000000000000000000000000000000000000000000000000000000001", 255),
        ("0000000000000000000000000000000000000000000000000000000000000000", 256),
    ] {
        let id = crate::EventId::parse(id).expect("64 digits");
        assert_eq!(Event { id, ..event(1, 0, &[], "").into_event() }.difficulty(), bits, "{id}");
    }
}

#[test]
fn client_authentication_is_never_taken_as_an_event() {
    let auth = signed_by(1, 22_242, NOW.0, &[&["challenge", "x"]], "");
    let answer = EventLimits::default().admit(auth, NOW, &[keys(1).pubkey()]);
    assert_eq!(answer.expect_err("not an event").to_string(), "invalid: kind 22242 belongs into AUTH");
}

#[test]
fn request_to_vanish_names_at_least_one_relay() {
    assert_eq!(by_default(event(62, NOW.0, &[&["relay", "wss://other"]], "")), "taken");
    assert_eq!(by_default(event(62, NOW.0, &[&["relay"]], "")), "invalid: a request to vanish names relays");
}

#[test]
fn what_is_checked_before_verification_is_what_is_admitted() {
    let limits = EventLimits::default();
    for event in [event(1, NOW.0, &[], ""), event(1, NOW.0 + 1000, &[], ""), event(22_242, NOW.0, &[], "")] {
        assert_eq!(limits.check(&event, NOW, &[]), limits.admit(event, NOW, &[]).map(|_| ()));
    }
}
