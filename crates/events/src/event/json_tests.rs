use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::event::samples::{any_event, event};

/// Returns a signed event as an object.
fn object() -> Value {
    let event = event(1, 1_700_000_000, &[&["e", "x"], &["p"]], "hi");
    serde_json::from_str(&event.to_json()).expect("it is JSON")
}

/// Returns the event's text, with one field's value replaced by other text.
fn with(field: &str, value: &str) -> String {
    let mut object = object();
    object[field] = json!("HERE");
    object.to_string().replace("\"HERE\"", value)
}

fn reason(text: &str) -> String {
    Event::from_json(text).expect_err(text).rejection.to_string()
}

#[test]
fn hex_is_lowercase_and_of_its_length() {
    for (field, digits) in [("id", 64), ("pubkey", 64), ("sig", 128)] {
        assert!(Event::from_json(&with(field, &format!("\"{}\"", "a".repeat(digits)))).is_ok());
        let shorter = "a".repeat(digits - 1);
        for wrong in ["A".repeat(digits), shorter.clone(), format!("{shorter}aa"), format!("{shorter}g"), String::new()]
        {
            assert!(reason(&with(field, &format!("\"{wrong}\""))).starts_with("invalid: "), "{field} {wrong}");
        }
        assert!(reason(&with(field, "7")).starts_with("invalid: "));
    }
}

#[test]
fn kind_is_an_integer_of_sixteen_bits() {
    for (kind, value) in [("0", 0), ("65535", 65_535)] {
        assert_eq!(Event::from_json(&with("kind", kind)).expect(kind).kind, Kind(value));
    }
    for kind in ["65536", "-1", "1.0", "1e2", "\"1\"", "null", "true", "99999999999999999999"] {
        assert!(reason(&with("kind", kind)).starts_with("invalid: "), "{kind}");
    }
}

#[test]
fn created_at_is_a_non_negative_integer_of_32_bits() {
    for (created_at, value) in [("0", 0), ("4294967295", u32::MAX.into())] {
        assert_eq!(Event::from_json(&with("created_at", created_at)).expect(created_at).created_at, Timestamp(value));
    }
    for created_at in ["4294967296", "18446744073709551615", "-1", "-0", "1.5", "1e9", "\"1\"", "null"] {
        assert!(reason(&with("created_at", created_at)).starts_with("invalid: "), "{created_at}");
    }
    assert_eq!(reason(&with("created_at", "4294967296")), "invalid: created_at is beyond the year 2106");
}

#[test]
fn tags_are_arrays_of_strings_and_may_be_empty() {
    let parsed = Event::from_json(&with("tags", r#"[[],["e"],["","",""]]"#)).expect("only strings");
    assert_eq!(parsed.tags, [Tag(vec![]), Tag(vec!["e".to_owned()]), Tag(vec![String::new(); 3])]);
    for tags in ["null", "{}", "[\"e\"]", "[[1]]", "[[null]]", "[[[\"e\"]]]", "[[true]]", "[{}]"] {
        assert!(reason(&with("tags", tags)).starts_with("invalid: "), "{tags}");
    }
}

#[test]
fn every_field_is_needed_and_content_is_text() {
    for field in ["id", "pubkey", "created_at", "kind", "tags", "content", "sig"] {
        let mut object = object();
        object.as_object_mut().expect("an object").remove(field);
        assert_eq!(reason(&object.to_string()), format!("invalid: {field} is missing"));
    }
    assert!(reason(&with("content", "null")).starts_with("invalid: "));
    for other in ["", "[]", "1", "null", "\"\"", "{", "{}}", "[\"a\",\"b\",1,1,[],\"\",\"c\"]"] {
        assert!(Event::from_json(other).is_err(), "{other}");
    }
    let event = event(1, 1, &[], "");
    let fields = (crate::event::hex::string(&event.id.0), crate::event::hex::string(&event.pubkey.0));
    let array = json!([fields.0, fields.1, 1, 1, [], "", crate::event::hex::string(&event.sig.0)]).to_string();
    assert_eq!(reason(&array), "invalid: an event is a JSON object");
}

#[test]
fn unknown_fields_are_dropped_and_the_order_of_fields_is_free() {
    let mut object = object();
    let plain = Event::from_json(&object.to_string()).expect("an event");
    object["relays"] = json!({"deep": [[[1.5e300, null, "\n"]]]});
    let fields = object.as_object().expect("an object");
    let parts: Vec<_> = fields.iter().rev().map(|(field, value)| format!(" \"{field}\" :\t{value}\n")).collect();
    let text = format!(" {{{}}} ", parts.join(","));
    assert_eq!(Event::from_json(&text), Ok(plain.clone()));
    assert_eq!(Event::from_object(fields), Ok(plain.clone()));
    assert!(!plain.to_json().contains("relays"));
}

#[test]
fn a_field_that_comes_twice_is_refused() {
    for field in ["id", "pubkey", "created_at", "kind", "tags", "content", "sig"] {
        let object = object();
        let twice = format!("{{\"{field}\":{},{}", object[field], &object.to_string()[1..]);
        assert_eq!(reason(&twice), format!("invalid: {field} comes twice"), "{twice}");
        let disguised = twice.replacen(field, &format!("\\u00{:02x}{}", field.as_bytes()[0], &field[1..]), 1);
        assert_eq!(reason(&disguised), format!("invalid: {field} comes twice"), "{disguised}");
    }
}

#[test]
fn lone_surrogates_are_refused_and_pairs_are_one_character() {
    let pair = Event::from_json(&with("content", r#""\ud83d\ude00\u0000\/""#)).expect("a pair");
    assert_eq!(pair.content, "\u{1f600}\0/");
    for lone in [r#""\ud83d""#, r#""\ude00""#, r#""\ud83dx""#, r#""\ude00\ud83d""#, r#""\ud83d\u0041""#] {
        assert!(reason(&with("content", lone)).starts_with("invalid: "), "{lone}");
        assert!(reason(&with("tags", &format!("[[{lone}]]"))).starts_with("invalid: "), "{lone}");
    }
}

#[test]
fn raw_control_characters_are_no_json() {
    for byte in 0..0x20_u8 {
        assert!(reason(&with("content", &format!("\"{}\"", char::from(byte)))).starts_with("invalid: "), "{byte}");
    }
    assert_eq!(Event::from_json(&with("content", "\"\u{7f}\"")).expect("allowed").content, "\u{7f}");
}

#[test]
fn what_has_an_id_is_answered_and_what_has_none_is_not() {
    let id = Event::from_json(&object().to_string()).expect("an event").id;
    for (field, value) in [("kind", "-1"), ("sig", "\"\""), ("content", r#""\ud83d""#), ("tags", "{}")] {
        assert_eq!(Event::from_json(&with(field, value)).expect_err("malformed").id, Some(id), "{field}");
    }
    for nameless in [with("id", "\"ABC\""), with("id", "1"), "[]".into(), "{}".into(), "{\"id\"".into()] {
        assert_eq!(Event::from_json(&nameless).expect_err("malformed").id, None, "{nameless}");
    }
    let two_names = format!("{{\"id\":\"{}\",{}", "0".repeat(64), &object().to_string()[1..]);
    assert_eq!(Event::from_json(&two_names).expect_err("malformed").id, None);
}

#[test]
fn reasons_name_the_field_and_its_form_and_quote_nothing() {
    for (field, value, why) in [
        ("id", "\"ABC\"".to_owned(), "id is not 64 lowercase hex digits"),
        ("pubkey", "null".to_owned(), "pubkey is not 64 lowercase hex digits"),
        ("created_at", "1.5".to_owned(), "created_at is not an integer of seconds since 1970"),
        ("created_at", "1e999".to_owned(), "created_at is not an integer of seconds since 1970"),
        ("kind", "65536".to_owned(), "kind is not an integer from 0 to 65535"),
        ("kind", format!("\"{}\"", "é".repeat(10_000)), "kind is not an integer from 0 to 65535"),
        ("tags", "[[1]]".to_owned(), "tags is not a list of lists of strings"),
        ("content", r#""\ud83d""#.to_owned(), "content is not a string"),
        ("sig", "\"\"".to_owned(), "sig is not 128 lowercase hex digits"),
    ] {
        assert_eq!(reason(&with(field, &value)), format!("invalid: {why}"));
    }
    assert_eq!(reason("[]"), "invalid: an event is a JSON object");
    assert_eq!(reason("{}"), "invalid: id is missing");
}

proptest! {
    #[test]
    fn an_event_comes_back_from_its_wire_form(event in any_event()) {
        let text = event.to_json();
        let again = Event::from_json(&text).expect("our own form");
        prop_assert_eq!(&again, &event);
        prop_assert_eq!(again.to_json(), text.clone());
        let value: Value = serde_json::from_str(&text).expect("it is JSON");
        prop_assert_eq!(Event::from_object(value.as_object().expect("an object")), Ok(event));
    }

    #[test]
    fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(Event::from_json(&String::from_utf8_lossy(&bytes)));
    }

    /// Damage to a good event reaches deeper than noise.
    #[test]
    fn no_damage_makes_reading_panic(event in any_event(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = event.to_json().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(read) = Event::from_json(&String::from_utf8_lossy(&bytes)) {
            prop_assert_eq!(Event::from_json(&read.to_json()), Ok(read));
        }
        bytes.truncate(at);
        prop_assert!(Event::from_json(&String::from_utf8_lossy(&bytes)).is_err());
    }
}
