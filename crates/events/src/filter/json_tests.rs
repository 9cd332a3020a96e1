use proptest::prelude::*;
use serde_json::json;

use super::*;

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn read(text: &str) -> Result<Filter, Rejection> {
    Filter::from_json(text, &FilterLimits::default())
}

fn filter(text: &str) -> Filter {
    read(text).expect(text)
}

fn refused(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

fn letter(name: &str) -> Letter {
    Letter::parse(name).expect("one letter")
}

fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|&value| value.to_owned()).collect()
}

#[test]
fn every_condition_is_read_sorted_and_without_repetition() {
    let text = json!({
        "ids": [B, A, B], "authors": [B, A], "kinds": [7, 1, 7], "#t": ["z", "a", "z", ""], "#E": ["any"], "#e": [A],
        "since": 5, "until": 9, "limit": 3, "search": "a b",
    });
    let read = filter(&text.to_string());
    assert_eq!(read.ids, Some(vec![EventId([0xaa; 32]), EventId([0xbb; 32])]));
    assert_eq!(read.authors, Some(vec![Pubkey([0xaa; 32]), Pubkey([0xbb; 32])]));
    assert_eq!(read.kinds, Some(vec![Kind(1), Kind(7)]));
    let tags =
        [(letter("E"), strings(&["any"])), (letter("e"), strings(&[A])), (letter("t"), strings(&["", "a", "z"]))];
    assert_eq!(read.tags, tags);
    assert_eq!((read.since, read.until, read.limit), (Some(Timestamp(5)), Some(Timestamp(9)), Some(3)));
    assert_eq!(read.search, Search::parse("b a"));
    let object = text.as_object().expect("an object");
    assert_eq!(Filter::from_object(object, &FilterLimits::default()), Ok(read));
    assert_eq!(filter(" {} "), Filter::default());
}

#[test]
fn ids_authors_and_tags_e_and_p_are_64_lowercase_hex_digits() {
    for key in ["ids", "authors", "#e", "#p", "&e", "&p"] {
        assert!(read(&json!({ key: [A] }).to_string()).is_ok());
        for wrong in ["", "aa", &A[1..], &A.to_uppercase(), &format!("{A}aa"), &A.replace('a', "x")] {
            assert!(refused(&json!({ key: [A, wrong] }).to_string()).starts_with("invalid: "), "{key} {wrong}");
        }
    }
    assert!(read(r##"{"#P":["short"],"#a":["30023:x:y"]}"##).is_ok());
}

#[test]
fn an_empty_list_matches_nothing_and_is_kept() {
    let read = filter(r##"{"ids":[],"authors":[],"kinds":[],"#t":[],"&x":[]}"##);
    assert_eq!(read.ids, Some(vec![]));
    assert_eq!(read.authors, Some(vec![]));
    assert_eq!(read.kinds, Some(vec![]));
    assert_eq!(read.tags, [(letter("t"), vec![]), (letter("x"), vec![])]);
}

#[test]
fn kinds_that_no_event_has_match_nothing() {
    assert_eq!(filter(r#"{"kinds":[65536,-1,1,18446744073709551615]}"#).kinds, Some(vec![Kind(1)]));
    assert_eq!(filter(r#"{"kinds":[65536]}"#).kinds, Some(vec![]));
    assert!(refused(r#"{"kinds":[1.5]}"#).starts_with("invalid: "));
    assert!(refused(r#"{"kinds":["1"]}"#).starts_with("invalid: "));
}

#[test]
fn times_before_1970_bound_nothing_from_below_and_everything_from_above() {
    assert_eq!(filter(r#"{"since":-1}"#), Filter::default());
    assert_eq!(filter(r#"{"until":-1,"kinds":[1]}"#), Filter::nothing());
    assert_eq!(filter(r#"{"since":9223372036854775808}"#).since, Some(Timestamp(i64::MAX.unsigned_abs())));
    for wrong in ["1.5", "1e3", "\"1\"", "null", "99999999999999999999"] {
        assert!(refused(&format!("{{\"since\":{wrong}}}")).starts_with("invalid: "), "{wrong}");
    }
}

#[test]
fn limit_may_be_zero_and_not_negative() {
    assert_eq!(filter(r#"{"limit":0}"#).limit, Some(0));
    assert_eq!(filter(r#"{"limit":18446744073709551615}"#).limit, usize::try_from(i64::MAX).ok());
    assert_eq!(refused(r#"{"limit":-1}"#), "invalid: limit is negative");
}

#[test]
fn a_blank_search_is_none() {
    assert_eq!(filter(r#"{"search":"  "}"#).search, None);
    assert!(refused(r#"{"search":["a"]}"#).starts_with("invalid: "));
}

#[test]
fn letters_of_tags_are_case_sensitive_and_come_once() {
    let read = filter(r##"{"#t":["a"],"#T":["b"]}"##);
    assert_eq!(read.tags, [(letter("T"), strings(&["b"])), (letter("t"), strings(&["a"]))]);
    assert!(refused(r##"{"#t":["a"],"#t":["b"]}"##).starts_with("invalid: "));
    assert!(refused(r##"{"#t":["a"],"\u0023t":["b"]}"##).starts_with("invalid: "));
}

#[test]
fn refusals_name_the_key_and_its_form() {
    for (text, why) in [
        (r#"{"limit":"5"}"#, "limit is not an integer"),
        (r#"{"kinds":[1],"limit":1e999}"#, "limit is not an integer"),
        (r#"{"since":null}"#, "since is not an integer"),
        (r#"{"kinds":1}"#, "kinds is not a list of integers"),
        (r#"{"ids":["aa"]}"#, "ids is not a list of ids of 64 lowercase hex digits"),
        (r#"{"authors":"aa"}"#, "authors is not a list of keys of 64 lowercase hex digits"),
        (r##"{"#t":"birds"}"##, "#t is not a list of strings"),
        (r#"{"search":["a"]}"#, "search is not a string"),
        ("[]", "a filter is a JSON object"),
        ("null", "a filter is a JSON object"),
    ] {
        assert_eq!(refused(text), format!("invalid: {why}"), "{text}");
    }
}

#[test]
fn a_key_that_comes_twice_is_refused() {
    for (key, value) in [("ids", "[]"), ("kinds", "[1]"), ("since", "1"), ("limit", "1"), ("search", "\"a\"")] {
        let twice = format!("{{\"{key}\":{value},\"{key}\":{value}}}");
        assert_eq!(refused(&twice), format!("invalid: {key} comes twice"));
    }
}

#[test]
fn unknown_keys_are_ignored_or_unsupported_as_it_is_set() {
    let text = r#"{"kinds":[1],"relays":["x",{"deep":[null,1.5]}],"":1}"#;
    assert_eq!(filter(text), Filter { kinds: Some(vec![Kind(1)]), ..Filter::default() });
    let strict = FilterLimits { unknown_keys: UnknownKeys::Unsupported, ..FilterLimits::default() };
    let refusal = Filter::from_json(text, &strict).expect_err("unknown");
    assert_eq!(refusal.to_string(), "unsupported: filter contains unknown elements");
    assert!(Filter::from_json(r##"{"kinds":[1],"#t":["a"],"search":"b"}"##, &strict).is_ok());
}

#[test]
fn a_condition_on_tags_of_longer_names_is_never_ignored() {
    for key in ["#emoji", "#", "#1", "#é", "&tt", "&"] {
        let text = json!({ key: ["a"] }).to_string();
        assert_eq!(refused(&text), "unsupported: filter contains unknown elements", "{key}");
    }
}

#[test]
fn values_that_are_needed_together_are_conditions_of_their_own() {
    let t = letter("t");
    let read = filter(r##"{"&t":["meme","cat"],"#t":["white","black","cat"]}"##);
    assert_eq!(
        read.tags,
        [(t, strings(&["black", "white"])), (t, strings(&["cat"])), (t, strings(&["meme"]))],
        "a value that is needed anyway is no choice"
    );
    assert_eq!(filter(r##"{"&t":["a","a"],"#t":["a"]}"##).tags, [(t, strings(&["a"]))]);
    assert_eq!(filter(r##"{"&t":["a"],"#t":[]}"##).tags, [(t, vec![]), (t, strings(&["a"]))]);
}

#[test]
fn ten_thousand_authors_fit_and_what_is_larger_is_told_the_bound() {
    let authors: Vec<_> = (0..20_001).map(|author| format!("{author:064x}")).collect();
    let fits = filter(&json!({ "authors": authors[..10_000] }).to_string());
    assert_eq!(fits.authors.map(|authors| authors.len()), Some(10_000));
    let large = json!({ "authors": authors }).to_string();
    assert_eq!(refused(&large), "invalid: 20001 values in a filter, at most 20000 are allowed");
    let together = json!({ "authors": authors[..10_000], "#p": authors[..10_001] }).to_string();
    assert_eq!(refused(&together), "invalid: 20001 values in a filter, at most 20000 are allowed");
}

#[test]
fn conditions_and_texts_have_bounds() {
    let many: Vec<_> = (0..33).map(|value| value.to_string()).collect();
    let refusal = refused(&json!({ "&t": many }).to_string());
    assert_eq!(refusal, "invalid: 33 conditions on tags, at most 32 are allowed");
    assert!(read(&json!({ "#t": many }).to_string()).is_ok());
    let long = |bytes| json!({ "#t": ["x".repeat(bytes)] }).to_string();
    assert!(read(&long(8192)).is_ok());
    assert_eq!(refused(&long(8193)), "invalid: 8193 bytes of a tag's value, at most 8192 are allowed");
    let words = |bytes| json!({ "search": "x".repeat(bytes) }).to_string();
    assert!(read(&words(256)).is_ok());
    assert_eq!(refused(&words(257)), "invalid: 257 bytes of search, at most 256 are allowed");
}

#[test]
fn only_an_object_is_a_filter() {
    for other in ["", "[]", "[[],[]]", "1", "null", "\"\"", "{", "{}{}", "{\"kinds\":{}}", "{\"kinds\":1}", "{1:2}"] {
        assert!(refused(other).starts_with("invalid: "), "{other}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(read(&String::from_utf8_lossy(&bytes)));
    }

    #[test]
    fn no_damage_makes_reading_panic(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let text = json!({"ids": [A], "kinds": [1, 2], "#e": [B], "&t": ["x"], "since": -5, "until": 9, "search": "w"});
        let mut bytes = text.to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        drop(read(&String::from_utf8_lossy(&bytes)));
    }
}
