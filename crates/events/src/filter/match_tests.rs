//! Filter matching, against a naive implementation of the rules and against another crate.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::*;
use crate::event::samples::{event, keys, signed_by};
use crate::filter::limits::FilterLimits;

fn filter(object: &Value) -> Filter {
    Filter::from_json(&object.to_string(), &FilterLimits::default()).expect("a filter")
}

/// Strategy for events and conditions of a small world.
fn small_event() -> impl Strategy<Value = Event> {
    let tag = (select(vec!["t", "T", "e", "long"]), select(vec!["a", "b", "c"]), select(vec!["a", "b"]));
    (0..3_u8, 0..3_u16, 0..5_u64, vec(tag, 0..4)).prop_map(|(author, kind, created_at, tags)| {
        let items: Vec<_> = tags.iter().map(|(name, value, extra)| [*name, *value, *extra]).collect();
        let tags: Vec<&[&str]> = items.iter().map(|items| &items[..]).collect();
        signed_by(author, kind, created_at, &tags, "").into_event()
    })
}

fn small_filter() -> impl Strategy<Value = Value> {
    let some = |most: usize| prop::option::of(vec(0..3_u8, 1..=most));
    let letter = || prop::option::of(vec(select(vec!["a", "b", "c"]), 1..3));
    let times = (prop::option::of(0..5_u64), prop::option::of(0..5_u64));
    (some(2), some(2), letter(), letter(), times).prop_map(|(authors, kinds, lower, upper, (since, until))| {
        let mut filter = json!({});
        if let Some(authors) = authors {
            filter["authors"] = authors.iter().map(|author| keys(*author).pubkey().to_string()).collect();
        }
        for (key, value) in [
            ("kinds", json!(kinds)),
            ("#t", json!(lower)),
            ("#T", json!(upper)),
            ("since", json!(since)),
            ("until", json!(until)),
        ] {
            if !value.is_null() {
                filter[key] = value;
            }
        }
        filter
    })
}

/// The rules of NIP-01, applied to the JSON of both.
fn naive_match(filter: &Value, event: &Value) -> bool {
    let one_of = |key: &str, value: &Value| filter[key].as_array().is_none_or(|list| list.contains(value));
    let tagged = |key: &str| {
        let has = |tag: &Value| tag[0] == key[1..] && filter[key].as_array().expect("a list").contains(&tag[1]);
        filter[key].is_null() || event["tags"].as_array().expect("a list").iter().any(has)
    };
    one_of("ids", &event["id"])
        && one_of("authors", &event["pubkey"])
        && one_of("kinds", &event["kind"])
        && filter["since"].as_u64().is_none_or(|since| event["created_at"].as_u64() >= Some(since))
        && filter["until"].as_u64().is_none_or(|until| event["created_at"].as_u64() <= Some(until))
        && tagged("#t")
        && tagged("#T")
}

#[test]
fn since_and_until_are_inclusive() {
    let event = event(1, 5, &[], "");
    for (since, until, matches) in [(5, 5, true), (4, 6, true), (6, 9, false), (0, 4, false), (6, 4, false)] {
        assert_eq!(filter(&json!({"since": since, "until": until})).matches(&event), matches, "{since} {until}");
    }
}

#[test]
fn all_conditions_must_hold_and_one_value_of_each() {
    let event = event(1, 5, &[&["t", "a"], &["t", "b"], &["x", "c"]], "");
    assert!(filter(&json!({"kinds": [7, 1], "#t": ["z", "b"], "#x": ["c"]})).matches(&event));
    assert!(!filter(&json!({"kinds": [7, 1], "#t": ["z", "b"], "#x": ["d"]})).matches(&event));
    assert!(!filter(&json!({"kinds": [7], "#t": ["b"]})).matches(&event));
    assert!(filter(&json!({"ids": [event.id.to_string()]})).matches(&event));
    assert!(Filter::default().matches(&event));
}

#[test]
fn an_empty_list_matches_nothing() {
    let event = event(1, 5, &[&["t", ""], &["t"]], "");
    for key in ["ids", "authors", "kinds", "#t", "&t"] {
        assert!(!filter(&json!({ key: [] })).matches(&event), "{key}");
    }
    assert!(!Filter::nothing().matches(&event));
}

#[test]
fn only_the_first_value_of_a_one_letter_tag_is_found() {
    let event = event(1, 5, &[&["t", "first", "second"], &["long", "x"], &["u"], &[]], "");
    assert!(filter(&json!({"#t": ["first"]})).matches(&event));
    for other in [json!({"#t": ["second"]}), json!({"#l": ["x"]}), json!({"#u": [""]}), json!({"#T": ["first"]})] {
        assert!(!filter(&other).matches(&event), "{other}");
    }
}

#[test]
fn values_needed_together_must_all_be_there() {
    let event = event(1, 5, &[&["t", "cat"], &["t", "meme"], &["t", "black"]], "");
    assert!(filter(&json!({"&t": ["meme", "cat"], "#t": ["black", "white"]})).matches(&event));
    assert!(!filter(&json!({"&t": ["meme", "cat"], "#t": ["white"]})).matches(&event));
    assert!(!filter(&json!({"&t": ["meme", "dog"]})).matches(&event));
}

#[test]
fn limit_zero_and_search_do_not_change_what_matches() {
    assert!(filter(&json!({"limit": 0, "search": "nowhere"})).matches(&event(1, 5, &[], "text")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn matching_is_that_of_the_rules_and_of_another_implementation(object in small_filter(), event in small_event()) {
        let matches = filter(&object).matches(&event);
        let wire: Value = serde_json::from_str(&event.to_json()).expect("it is JSON");
        prop_assert_eq!(matches, naive_match(&object, &wire));
        let theirs = nostr::filter::Filter::from_json(object.to_string()).expect("a filter");
        let their_event = nostr::event::Event::from_json(event.to_json()).expect("an event");
        prop_assert_eq!(matches, theirs.match_event(&their_event, nostr::filter::MatchEventOptions::new()));
    }
}
