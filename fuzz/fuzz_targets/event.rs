//! An event as JSON: it is refused, or is the same again from its JSON and packed.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| birdhouse_events::fuzzing::event(text));
