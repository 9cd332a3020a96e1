//! Damaged messages, as the fuzz targets have them, but the same in every run: each is followed or answered.

use birdhouse_events::fuzzing::damage;
use birdhouse_events::hex;
use birdhouse_relay::fuzzing::{message, negentropy, plugin_answer};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

use crate::app::event;

const MESSAGES: [&str; 10] = [
    r##"["REQ","a",{"kinds":[1],"#t":["x"]},{"limit":0}]"##,
    r#"["COUNT","a",{"authors":["00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"]}]"#,
    r#"["CLOSE","a"]"#,
    r#"["NEG-OPEN","a",{"kinds":[1]},"6100000200"]"#,
    r#"["NEG-MSG","a","6100000200"]"#,
    r#"["NEG-CLOSE","a"]"#,
    // Names that must be quoted, where answers repeat them.
    r#"["REQ","\"\\\u0001\ud83d\udc26",{"ids":["zz"]}]"#,
    r#"["NEG-OPEN","\"\\\u0001",{},"6"]"#,
    r#"["HELLO"]"#,
    "[]",
];

/// First messages of a session: an empty one, a fingerprint of everything, and a list of ids.
const SESSIONS: [&str; 3] = [
    "61",
    "610000010102030405060708090a0b0c0d0e0f10",
    "6100000202000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f0001020304050607",
];

const ANSWERS: [&str; 4] = [
    r#"{"id":"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff","action":"reject","msg":"blocked: no"}"#,
    r#"{"id":"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff","action":"reject","msg":"\"\u0001\ud83d\udc26:"}"#,
    r#"{"id":"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff","action":"reject"}"#,
    r#"{"id":"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff","action":"accept","msg":1}"#,
];

/// `BIRDHOUSE_SEEDS` cases in place of 4000, of another seed for another `BIRDHOUSE_FROM`.
fn config() -> Config {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = number("BIRDHOUSE_SEEDS").and_then(|cases| cases.try_into().ok()).unwrap_or(4000);
    let seed = RngSeed::Fixed(0x6d65_7373 + number("BIRDHOUSE_FROM").unwrap_or(0));
    Config { cases, failure_persistence: None, rng_seed: seed, ..Config::default() }
}

fn edits() -> impl Strategy<Value = Vec<(u16, u8, u8)>> {
    vec(any::<(u16, u8, u8)>(), 0..6)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn damaged_messages_are_followed_or_answered_in_words_of_the_protocol(which in 0..MESSAGES.len(), edits in edits()) {
        let mut text = MESSAGES[which].as_bytes().to_vec();
        message(&text);
        damage(&mut text, &edits);
        message(&text);
    }

    #[test]
    fn damaged_answers_of_a_plugin_are_no_answers_or_refuse_in_words_of_the_protocol(
        which in 0..ANSWERS.len(), edits in edits(),
    ) {
        let mut line = ANSWERS[which].as_bytes().to_vec();
        plugin_answer(&line);
        damage(&mut line, &edits);
        plugin_answer(&line);
    }

    #[test]
    fn damaged_messages_of_negentropy_are_refused_or_answered_within_bounds(
        which in 0..SESSIONS.len(), edits in edits(),
    ) {
        let mut bytes: Vec<u8> = hex::read(SESSIONS[which].as_bytes()).unwrap().collect();
        negentropy(&bytes);
        damage(&mut bytes, &edits);
        negentropy(&bytes);
    }

    #[test]
    fn damaged_events_are_taken_or_answered_by_their_id(edits in edits(), verb in prop_oneof![Just("EVENT"), Just("AUTH")]) {
        let mut text = format!("[\"{verb}\",{}]", event(1, 1, 1, &[&["t", "käfer"], &[]]).to_json()).into_bytes();
        damage(&mut text, &edits);
        message(&text);
    }
}
