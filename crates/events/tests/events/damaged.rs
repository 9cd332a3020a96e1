//! Damaged and invented inputs, as in the fuzz targets, but the same in every run.

use birdhouse_events::fuzzing::{damage, event, filter, packed, packed_event};
use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent, VerifiedEvent};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

use crate::world::seeds;

const FILTERS: [&str; 5] = [
    r#"{"ids":["00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"],"limit":0}"#,
    r##"{"kinds":[1,7,65535],"since":5,"until":9,"#t":["rust","Rust",""],"#p":[]}"##,
    r##"{"#t":["x","y"],"&t":["x"],"&g":["z"],"search":"two words","unknown":[{}]}"##,
    r##"{"authors":[],"#e":["00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"]}"##,
    "{}",
];

fn config() -> Config {
    let seeds = seeds(4000);
    let (cases, seed) = (u32::try_from(seeds.end - seeds.start).unwrap(), 0x6576_656e + seeds.start);
    Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(seed), ..Config::default() }
}

fn events() -> Vec<VerifiedEvent> {
    let keys = Keys::from_secret([7; 32]).unwrap();
    let tag = |elements: &[&str]| Tag(elements.iter().map(|element| (*element).to_owned()).collect());
    let said = |kind: u16, tags: Vec<Tag>, content: &str| {
        UnsignedEvent { created_at: Timestamp(7), kind: Kind(kind), tags, content: content.to_owned() }.sign(&keys)
    };
    vec![
        said(1, Vec::new(), ""),
        said(
            30_023,
            vec![tag(&["d", "x"]), tag(&[]), tag(&["t", "rust", ""]), tag(&["t", "x"])],
            "käfer\n\"\\\u{1}\u{1f426}",
        ),
        said(
            7,
            vec![tag(&["e", &"ab".repeat(32)]), tag(&["p", &"cd".repeat(32), "abcdef0123456789"])],
            "0011223344556677",
        ),
    ]
}

fn edits() -> impl Strategy<Value = Vec<(u16, u8, u8)>> {
    vec(any::<(u16, u8, u8)>(), 0..6)
}

fn damaged(bytes: impl Into<Vec<u8>>, edits: &[(u16, u8, u8)]) -> Vec<u8> {
    let mut bytes = bytes.into();
    damage(&mut bytes, edits);
    bytes
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn events_of_damaged_json_are_refused_or_come_back_the_same(which in 0..3_usize, edits in edits()) {
        event(&damaged(events()[which].to_json(), &edits));
    }

    #[test]
    fn filters_of_damaged_json_are_refused_or_decide_alike_of_packed_and_whole_events(
        which in 0..FILTERS.len(), about in 0..3_usize, edits in edits(), others in edits(),
    ) {
        filter(&damaged(FILTERS[which], &edits), events()[about].to_json().as_bytes());
        filter(FILTERS[which].as_bytes(), &damaged(events()[about].to_json(), &others));
    }

    #[test]
    fn packed_events_of_damaged_bytes_are_damaged_or_come_back_the_same(which in 0..3_usize, edits in edits()) {
        packed_event([9; 32], &damaged(packed(&events()[which]), &edits));
    }

    #[test]
    fn nothing_at_all_of_any_bytes_makes_reading_panic(bytes in vec(any::<u8>(), 0..300)) {
        event(&bytes);
        filter(&bytes, &bytes);
        packed_event([9; 32], &bytes);
    }
}

#[test]
fn the_inputs_that_are_damaged_are_good() {
    for one in events() {
        event(one.to_json().as_bytes());
        packed_event(one.id.0, &packed(&one));
        for text in FILTERS {
            assert!(birdhouse_events::Filter::from_json(text, &birdhouse_events::FilterLimits::default()).is_ok());
            filter(text.as_bytes(), one.to_json().as_bytes());
        }
    }
}
